// Why the gate refused something, and what would allow it. What it is about was chosen by code inside a sandbox, so nothing
// goes into a suggestion that is not a plain host name or an address.
import { visible } from './safe-text'

export interface Denial {
  /** "evil.test, port 80" */
  what: string
  why: string
  /** What to do, as a sentence. */
  how: string
  /** An entry that can be added with one click, in the short form. */
  entry?: string
}

const REASONS: Record<string, [why: string, how: string]> = {
  'no-rule': ['no rule names this host', 'Allow the host, if the sandbox should reach it.'],
  'no-port': ['a rule names this host, but not this port', 'Allow this port of the host.'],
  'bad-name': ['this is not a host name', 'The program has to use a plain name: letters, digits, “-” and “.”.'],
  'query-type': ['only questions for addresses are answered', 'Nothing can allow this: other records do not pass the gate.'],
  private: ['this leads to an address that is not public', 'If that is meant, the profile needs a rule with private: true; that cannot be added to a running sandbox from here.'],
  unresolved: ['the name does not resolve', 'It is allowed. Check the spelling, and that the host itself can resolve it.'],
  unreachable: ['the server could not be reached', 'It is allowed. Check that it listens there and that the host itself can reach it.'],
  'wrong-server': ['the TLS hello names another server than was connected to', 'The program has to connect to the server by its own name; each name needs a rule.'],
  'wrong-host': ['the HTTP request names another host than was connected to', 'The program has to connect to the host by its own name; each name needs a rule.'],
  'bad-protocol': ['this is not what is spoken on this port, or it is malformed', 'The program has to speak TLS or HTTP/1.1.'],
  'no-method': ['no rule allows this method on this host', 'The rule for this host lists methods; its profile has to name this one too.'],
  'no-path': ['no rule allows this path on this host', 'The rule for this host lists paths; its profile has to name this one too.'],
  certificate: ['the server’s certificate is not valid for this name', 'Check the server’s certificate, and that its issuer is in the host’s store.'],
  'no-udp': ['only TCP and DNS pass', 'Nothing can allow this: use TCP.'],
  connections: ['as many connections are open as its limit allows', 'Raise limits.connections in the profile, or open fewer at one time.'],
  lookups: ['more names are asked for a second than its limit allows', 'Raise limits.lookups in the profile, or ask less often.'],
  egress: ['it has sent as much as its budget allows', 'Raise budget.egress in the profile.'],
  timeout: ['the peer took longer than it may', 'It is allowed. Try again later.'],
  revoked: ['the rules were changed and no longer allow it', 'Allow the host again, if that was not meant.'],
}

const ALLOWABLE = new Set(['no-rule', 'no-port', 'revoked'])

export function isDenial(kind: string): boolean {
  return kind === 'net.deny' || kind === 'dns.deny'
}

export function isAddress4(text: string): boolean {
  const parts = text.split('.')
  return parts.length === 4 && parts.every((p) => /^(0|[1-9]\d{0,2})$/.test(p) && Number(p) < 256)
}

export function isAddress6(text: string): boolean {
  if (!/^[0-9a-f:]{2,39}$/i.test(text) || !text.includes(':')) return false
  const halves = text.split('::')
  if (halves.length > 2) return false
  const words = halves.flatMap((h) => (h === '' ? [] : h.split(':')))
  return words.every((w) => /^[0-9a-f]{1,4}$/i.test(w)) && (halves.length === 2 ? words.length < 8 : words.length === 8)
}

/** In its canonical form: lower case, no dot at the end, and not an address in disguise. */
export function isHostName(text: string): boolean {
  const labels = text.split('.')
  return text.length <= 253 && labels.every((l) => /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/.test(l)) && !/^[0-9]+$|^0x/.test(labels[labels.length - 1] ?? '')
}

/** The entry that would allow it; undefined where there is none that could be trusted. */
export function entryFor(host: string, port: number): string | undefined {
  const usual = port === 0 || port === 80 || port === 443
  if (!Number.isInteger(port) || port < 0 || port > 65535) return undefined
  if (isAddress4(host)) return port ? `${host}:${port}` : host
  if (isAddress6(host)) return port ? `[${host}]:${port}` : host
  return isHostName(host) ? (usual ? host : `${host}:${port}`) : undefined
}

export function explainDenial(kind: string, data: Record<string, unknown>): Denial {
  const host = String(data['host'] ?? '')
  const port = Number(data['port'] ?? 0)
  const reason = String(data['reason'] ?? '')
  const [why, how] = (Object.hasOwn(REASONS, reason) ? REASONS[reason] : undefined) ?? [visible(reason) || 'it was refused', '']
  const shown = visible(host)
  const what = kind === 'dns.deny' ? `the name ${shown || '?'}` : `${shown || 'an address'}${port ? `, port ${port}` : ''}`
  const entry = ALLOWABLE.has(reason) ? entryFor(host, port) : undefined
  const denial: Denial = { what, why, how: entry === undefined && ALLOWABLE.has(reason) ? 'This is no plain host name or address, so it cannot be allowed from here.' : how }
  if (entry !== undefined) denial.entry = entry
  return denial
}
