// What sandboxes use, for as long as somebody looks: asked for once for all that is on screen, kept in a ring for each. The
// server begins to measure when it is asked, and keeps some minutes of it.
import { signal, type ReadonlySignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Client, Sample, SandboxInfo } from 'stockade-client'
import { waitAsked } from './pace'
import { client } from './session'

const RING = 720
const EVERY_MS = 5_000 // for one that is looked at
const LIST_MS = 15_000 // for lists: a server lets one address ask about two times a second, and many may share it
const SOON_MS = 2_500 // for those in a list that were asked for once: the first answer is empty
const MOST = 64 // that a server tells of at once
const FIRST_MS = 700 // it begins to measure when it is asked

/** One measure over time, as plots want it. null: not known, or not measured here. */
export interface Line {
  at: number[]
  values: (number | null)[]
}

// --- arithmetic

/** Old ones and new ones, in order, none twice, no more than `max`. */
export function mergeSamples(old: readonly Sample[], fresh: readonly Sample[], max = RING): Sample[] {
  const last = old[old.length - 1]?.at_ms ?? -1
  const later = fresh.filter((s) => s.at_ms > last).sort((a, b) => a.at_ms - b.at_ms)
  return later.length ? [...old, ...later].slice(-max) : (old as Sample[])
}

/** A counter as a rate per second; where it began again, or was not known, there is a gap. */
export function rateOf(samples: readonly Sample[], key: 'cpu_us' | 'io_read' | 'io_write' | 'net_in' | 'net_out', scale = 1): Line {
  const line: Line = { at: [], values: [] }
  for (let i = 1; i < samples.length; i++) {
    const a = samples[i - 1]
    const b = samples[i]
    if (!a || !b) continue
    const before = a[key]
    const after = b[key]
    const seconds = (b.at_ms - a.at_ms) / 1000
    const known = before !== null && after !== null && after >= before && seconds > 0
    line.at.push(b.at_ms)
    line.values.push(known ? ((after - before) / seconds) * scale : null)
  }
  return line
}

export function levelOf(samples: readonly Sample[], key: 'memory' | 'processes' | 'disk' | 'cpu_us' | 'net_out', scale = 1): Line {
  return { at: samples.map((s) => s.at_ms), values: samples.map((s) => (s[key] === null ? null : (s[key] ?? 0) * scale)) }
}

/** Processors in use: 1 is one of them, all the time. */
export function cpuOf(samples: readonly Sample[]): Line {
  return rateOf(samples, 'cpu_us', 1e-6)
}

export function isMeasured(line: Line): boolean {
  return line.values.some((v) => v !== null)
}

// --- what is looked at

interface Watched {
  looks: number
  /** How often it was asked for. */
  asked: number
  samples: ReturnType<typeof signal<Sample[]>>
}

const watched = new Map<string, Watched>()
const none = signal<Sample[]>([])
let timer: ReturnType<typeof setTimeout> | undefined

function ringOf(id: string): Watched {
  let found = watched.get(id)
  if (!found) watched.set(id, (found = { looks: 0, asked: 0, samples: signal<Sample[]>([]) }))
  return found
}

export function samplesOf(id: string): ReadonlySignal<Sample[]> {
  return (watched.get(id)?.samples as ReadonlySignal<Sample[]> | undefined) ?? none
}

async function refresh(by: Client, ids: string[]): Promise<void> {
  for (let i = 0; i < ids.length; i += MOST) {
    const some = ids.slice(i, i + MOST)
    const found = await by.sandboxes.usage(some)
    for (const id of some) add(id, found[id] ?? [])
  }
}

function add(id: string, samples: readonly Sample[]): void {
  const ring = watched.get(id)
  if (!ring) return
  ring.asked++
  ring.samples.value = mergeSamples(ring.samples.value ?? [], samples)
}

/** When a list is asked for again. asked: how often each of it was. */
export function nextList(asked: readonly number[], wait = waitAsked()): number {
  return Math.max(wait, asked.some((n) => n < 2) ? SOON_MS : LIST_MS)
}

function turn(): void {
  timer = undefined
  const seen = [...watched].filter(([, w]) => w.looks > 0)
  if (!seen.length) return
  const may = document.visibilityState === 'visible' && !waitAsked()
  const asked = may ? refresh(client(), seen.map(([id]) => id)) : Promise.resolve()
  const later = (): void => {
    timer ??= setTimeout(turn, nextList(seen.map(([, w]) => (may ? w.asked : 2))))
  }
  void asked.then(later, later)
}

let begun = 0

/** Something new is on screen: it does not wait for the next turn, unless the last one was just now. */
function soon(): void {
  if (timer && begun > Date.now() - SOON_MS) return
  clearTimeout(timer)
  begun = Date.now()
  timer = setTimeout(turn, 50)
}

/** From now on its samples are kept fresh. Returns how to stop. */
export function seeUsage(id: string): () => void {
  const ring = ringOf(id)
  ring.looks++
  if (ring.asked === 0) soon()
  return () => {
    if (--ring.looks === 0) watched.delete(id)
  }
}

/** The samples of one that is on screen. Whoever reads .value is drawn again. */
export function useUsage(id: string, looking = true): ReadonlySignal<Sample[]> {
  useEffect(() => (looking ? seeUsage(id) : undefined), [id, looking])
  if (looking) ringOf(id)
  return samplesOf(id)
}

/** One sandbox in detail, with the minutes that the server has. */
export class UsageWatch {
  readonly samples = signal<Sample[]>([])
  readonly error = signal<unknown>(undefined)
  #timer: ReturnType<typeof setTimeout> | undefined
  #over = false

  constructor(readonly info: SandboxInfo, readonly by: Client) {
    void this.#turn()
  }

  async #turn(): Promise<void> {
    try {
      if (document.visibilityState === 'visible' && !waitAsked()) await this.#ask()
      this.error.value = undefined
    } catch (e) {
      this.error.value = e
    }
    if (!this.#over) this.#timer = setTimeout(() => void this.#turn(), this.samples.value.length < 2 && !this.error.value ? FIRST_MS : EVERY_MS)
  }

  async #ask(): Promise<void> {
    const last = this.samples.value[this.samples.value.length - 1]?.at_ms
    const found = await this.by.sandboxes.of(this.info).usageHistory(last === undefined ? {} : { since_ms: last })
    if (!this.#over) this.samples.value = mergeSamples(this.samples.value, found.samples)
  }

  end(): void {
    this.#over = true
    clearTimeout(this.#timer)
  }
}
