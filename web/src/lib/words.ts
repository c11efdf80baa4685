// Plain words for what the API says: states, events, sizes, times.
import type { LedgerEvent, SandboxInfo, Snapshot, State } from 'stockade-client'

type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'deny' | 'accent'

const STATES: Record<State, readonly [string, Tone]> = {
  creating: ['Being made', 'accent'],
  starting: ['Starting', 'accent'],
  running: ['Running', 'good'],
  paused: ['Paused', 'warn'],
  stopping: ['Stopping', 'accent'],
  stopped: ['Stopped', 'plain'],
  quarantined: ['Quarantined', 'bad'],
  failed: ['Failed', 'bad'],
  deleting: ['Being deleted', 'plain'],
  deleted: ['Deleted', 'plain'],
}

export function stateWord(state: State): string {
  return STATES[state]?.[0] ?? state
}

export function stateTone(state: State): Tone {
  return STATES[state]?.[1] ?? 'plain'
}

/** What a state means for whoever looks at it; '' if there is nothing to add. */
export function stateMeans(info: Pick<SandboxInfo, 'state' | 'reason' | 'persistent'>): string {
  switch (info.state) {
    case 'stopped':
      return info.persistent ? 'Nothing runs in it. Its files are kept; Resume starts it again.' : 'Nothing runs in it. It had no disk: its files are gone, and Resume starts it anew.'
    case 'paused':
      return 'Everything in it stands still, and goes on where it was.'
    case 'quarantined':
      return 'Frozen, cut off from the network, and kept as evidence.'
    case 'failed':
      return info.reason ? `It could not go on: ${info.reason}` : 'It could not go on.'
    default:
      return ''
  }
}

/** What to call it: its name, or the beginning of its id. */
export function nameOf(info: Pick<SandboxInfo, 'id' | 'name'>): string {
  return info.name || info.id.slice(0, 8)
}

export function snapshotName(snapshot: Pick<Snapshot, 'id' | 'name'>): string {
  return snapshot.name || snapshot.id.slice(0, 8)
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(n: number): string {
  let unit = 0
  let value = Math.max(0, n)
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, '')} ${UNITS[unit]}`
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`
}

/** 850 ms, 4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  const s = ms / 1000
  if (s < 10) return `${s.toFixed(1).replace(/\.0$/, '')} s`
  if (s < 60) return `${Math.floor(s)} s`
  const two = (big: number, bigUnit: string, small: number, smallUnit: string): string => (small ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`)
  const min = Math.floor(s / 60)
  if (min < 60) return two(min, 'min', Math.floor(s % 60), 's')
  const h = Math.floor(min / 60)
  if (h < 24) return two(h, 'h', min % 60, 'min')
  return two(Math.floor(h / 24), 'd', h % 24, 'h')
}

/** A file's time is whatever a sandbox says it is; calendars end somewhere. */
export function isTime(ms: number): boolean {
  return Math.abs(ms) <= 8.64e15
}

const NO_TIME = 'unknown time'

export function ago(ms: number, now: number): string {
  if (!isTime(ms)) return NO_TIME
  const s = Math.floor((now - ms) / 1000)
  if (s < 5) return 'just now'
  if (s < 60) return `${s} s ago`
  if (s < 3600) return `${Math.floor(s / 60)} min ago`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`
  if (s < 86_400 * 14) return `${Math.floor(s / 86_400)} d ago`
  return new Date(ms).toISOString().slice(0, 10)
}

/** 2026-11-16 07:21:58, of the reader's clock */
export function dateTime(ms: number): string {
  if (!isTime(ms)) return NO_TIME
  const d = new Date(ms)
  const two = (n: number): string => String(n).padStart(2, '0')
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
}

/** 0x1234…cdef */
export function shortAddress(address: string): string {
  return address.length > 14 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address
}

/** The sandbox that an event is about. */
export function sandboxOf(event: LedgerEvent): string | undefined {
  const id = event.data['sandbox']
  return typeof id === 'string' && id ? id : undefined
}
