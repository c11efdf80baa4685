// What an event of the ledger says, as a sentence. Everything in it that came from a sandbox stays text.
import { bytes } from './words'

type Data = Record<string, unknown>

const text = (value: unknown): string => (typeof value === 'string' ? value : value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value))

function command(value: unknown): string {
  if (!Array.isArray(value)) return text(value)
  const words = value.map(text)
  const isShell = words.length === 3 && /^-l?c$/.test(words[1] ?? '') && /\/(ba|da)?sh$/.test(words[0] ?? '')
  const line = isShell ? (words[2] ?? '') : words.join(' ')
  return line.length > 200 ? `${line.slice(0, 200)}…` : line
}

function times(data: Data): string {
  const n = Number(data['count'] ?? 1)
  return n > 1 ? ` (${n} times)` : ''
}

function place(data: Data): string {
  const port = Number(data['port'] ?? 0)
  return `${text(data['host']) || 'an address'}${port ? `:${port}` : ''}`
}

function ended(data: Data): string {
  const run = `Run ${text(data['run'])}`
  const status = Number(data['status'] ?? 0)
  const signal = status & 127
  if (data['reason'] === 'exited') return signal ? `${run} was ended by signal ${signal}` : `${run} ended with ${status >> 8}`
  return `${run} ended: ${text(data['reason'])}`
}

const WORDS: Record<string, (data: Data) => string> = {
  'sandbox.create': (d) => `Made with the profile ${text(d['profile'])}${d['name'] ? `, named ${text(d['name'])}` : ''}`,
  'sandbox.start': () => 'Started',
  'sandbox.stop': (d) => `Stopped${d['reason'] ? `: ${text(d['reason'])}` : ''}`,
  'sandbox.pause': () => 'Paused',
  'sandbox.unpause': () => 'Goes on after a pause',
  'sandbox.resume': () => 'Started again',
  'sandbox.delete': () => 'Deleted',
  'sandbox.fail': (d) => `Failed: ${text(d['why'] ?? d['reason'])}`,
  'sandbox.quarantine': (d) => `Put into quarantine${d['reason'] ? `: ${text(d['reason'])}` : ''}`,
  'sandbox.adopt': () => 'Taken over by a new operator',
  'sandbox.policy': (d) => `May reach from now on: ${(Array.isArray(d['allow']) ? d['allow'] : []).map(text).join(', ') || (Array.isArray(d['add']) ? `also ${d['add'].map(text).join(', ')}` : 'nothing')}`,
  'disk.lost': () => 'Its disk was lost',
  'run.start': (d) => `Run ${text(d['run'])}: ${command(d['command'])}`,
  'run.end': ended,
  'run.signal': (d) => `Run ${text(d['run'])} was sent signal ${text(d['signal'])}`,
  'run.attach': (d) => `Somebody looks at run ${text(d['run'])}`,
  'exec.run': (d) => `Ran ${text(d['path'] ?? d['program'])}${times(d)}`,
  'net.use': (d) => `Reached ${place(d)}: ${bytes(Number(d['sent'] ?? 0))} out, ${bytes(Number(d['received'] ?? 0))} in${times(d)}`,
  'net.deny': (d) => `Refused ${[d['method'], place(d)].map(text).filter(Boolean).join(' ')}${d['path'] && d['path'] !== '/' ? text(d['path']) : ''}${times(d)}`,
  'dns.deny': (d) => `Refused to look up ${text(d['host'])}${times(d)}`,
  'file.write': (d) => `File written: ${text(d['path'])}`,
  'file.read': (d) => `File read: ${text(d['path'])}`,
  'file.remove': (d) => `File removed: ${text(d['path'])}`,
  'file.archive': (d) => `Files packed or unpacked: ${text(d['path'])}`,
  'limit.hit': (d) => `Came to a limit: ${text(d['limit'] ?? d['limits'])}`,
  'budget.hit': (d) => `Budget used up: ${text(d['budget'])}`,
  'secret.set': (d) => `Got the secret ${text(d['name'])}`,
  'secret.wipe': () => 'Its secrets were wiped',
  'snapshot.make': (d) => `Snapshot ${text(d['name']) || text(d['snapshot'])} taken`,
  'snapshot.fail': (d) => `A snapshot failed: ${text(d['why'])}`,
  'snapshot.fork': (d) => `Made from the snapshot ${text(d['snapshot'] ?? d['origin'])}`,
  'snapshot.rollback': (d) => `Put back to the snapshot ${text(d['snapshot'])}`,
  'snapshot.delete': (d) => `Snapshot ${text(d['snapshot'])} deleted`,
  'snapshot.export': (d) => `Snapshot ${text(d['snapshot'])} exported`,
  'snapshot.import': (d) => `Snapshot ${text(d['snapshot'])} imported`,
  'auth.refused': (d) => `Somebody was refused: ${text(d['why'] ?? d['reason'])}`,
  'session.begin': () => 'Signed in',
  'session.end': () => 'Signed out, or was signed out',
  'grant.give': (d) => `A right was given${d['about'] ? `: ${text(d['about'])}` : ''}`,
  'grant.end': () => 'A right was taken back',
  'daemon.start': () => 'The daemon started',
  'daemon.end': () => 'The daemon ended',
  'daemon.part-died': (d) => `The daemon’s ${text(d['part'])} ended and was started again: ${text(d['why'])}`,
  'daemon.pressure': (d) => (d['low'] === true ? 'The disk is nearly full' : 'The disk has room again'),
  'ledger.checkpoint': (d) => `Signed: events ${text(d['from'])} to ${text(d['to'])}`,
  'ledger.repair': () => 'The ledger’s torn end was cut off after a crash',
}

/** A kind that is newer than this page is shown as it is. */
export function eventWords(kind: string, data: Data): string {
  const words = Object.hasOwn(WORDS, kind) ? WORDS[kind] : undefined
  if (words) return words(data)
  const said = JSON.stringify(data)
  return said === '{}' ? kind : `${kind} ${said}`
}

const FAMILIES: Record<string, string> = {
  sandbox: 'Life', run: 'Runs', exec: 'Programs', net: 'Network', dns: 'Names', file: 'Files', limit: 'Limits', budget: 'Budget', secret: 'Secrets',
  snapshot: 'Snapshots', grant: 'Rights', session: 'Sessions', auth: 'Refused entry', disk: 'Disk', image: 'Images', daemon: 'Daemon', ledger: 'Ledger',
}

export function familyWords(family: string): string {
  return (Object.hasOwn(FAMILIES, family) ? FAMILIES[family] : undefined) ?? family
}
