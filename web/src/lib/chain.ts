// Whether the ledger's chain is what it should be, as far as a browser can tell: the newest checkpoint's signature is checked
// here, its key is the one that was seen first, and its number never goes back. docs/ledger.md has the format.
export interface Checkpoint {
  seq: number
  hash: string
  checkpoint?: string
}

export type Chain =
  | { state: 'signed'; seq: number; time: string; key: string; checked: boolean }
  | { state: 'broken'; seq: number; why: string }

interface Seen {
  key: string
  seq: number
  hash: string
}

const KEY = 'stockade.ledger'

function bytes(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16))
}

function object(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** What the server signed, as docs/ledger.md says. */
export function signedText(line: Record<string, unknown>): string {
  const data = object(line['data'])
  return `stockade ledger checkpoint 1\nseq ${String(line['seq'])}\ntime ${String(line['time'])}\nfrom ${String(data['from'])}\nto ${String(data['to'])}\nroot ${String(data['root'])}\nhead ${String(line['prev'])}\n`
}

/** true or false; undefined: this browser cannot check such signatures. */
export async function verifyEd25519(key: string, signature: string, text: string): Promise<boolean | undefined> {
  if (!/^[0-9a-f]{64}$/.test(key) || !/^[0-9a-f]{128}$/.test(signature)) return false
  let imported: CryptoKey
  try {
    imported = await crypto.subtle.importKey('raw', bytes(key), 'Ed25519', false, ['verify'])
  } catch {
    return undefined // no such algorithm, or the page did not come over a safe connection
  }
  return crypto.subtle.verify('Ed25519', imported, bytes(signature), new TextEncoder().encode(text))
}

export async function checkChain(found: Checkpoint, before: Seen | undefined): Promise<{ chain: Chain; seen?: Seen }> {
  const broken = (why: string): { chain: Chain } => ({ chain: { state: 'broken', seq: found.seq, why } })
  let line: Record<string, unknown>
  try {
    line = object(JSON.parse(found.checkpoint ?? ''))
  } catch {
    return broken('the server gave no checkpoint')
  }
  const { key, signature } = object(object(line['data'])['ed25519']) as { key?: string; signature?: string }
  if (line['seq'] !== found.seq || line['hash'] !== found.hash || !key || !signature) return broken('the checkpoint does not fit what was said about it')
  if (before && before.key !== key) return broken('it is signed with another key than the one that this browser saw first')
  if (before && (found.seq < before.seq || (found.seq === before.seq && found.hash !== before.hash))) return broken(`this browser saw the ledger further on already, at ${before.seq}: its end is missing, or was changed`)
  const good = await verifyEd25519(key, signature, signedText(line))
  if (good === false) return broken('the signature of its checkpoint is wrong')
  return { chain: { state: 'signed', seq: found.seq, time: String(line['time']), key, checked: good === true }, seen: { key, seq: found.seq, hash: found.hash } }
}

/** What this browser has seen of the ledger of this server. */
export function seenBefore(): Seen | undefined {
  try {
    const found = object(JSON.parse(localStorage.getItem(KEY) ?? 'null'))
    if (typeof found['key'] === 'string' && typeof found['seq'] === 'number' && typeof found['hash'] === 'string') return found as unknown as Seen
  } catch {
    // as if there were none
  }
  return undefined
}

export function remember(seen: Seen): void {
  localStorage.setItem(KEY, JSON.stringify(seen))
}

/** A ledger that was made anew on purpose: begin from here. */
export function forgetSeen(): void {
  localStorage.removeItem(KEY)
}
