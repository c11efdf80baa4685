// A file that is open in the editor: what it was when it was read, what is typed, and whether both still fit together
// when it is saved. What is typed outlives the editor: who comes back to the file finds it.
import { signal } from '@preact/signals'
import { StockadeError, type Body, type Entry } from 'stockade-client'
import { readSome } from '../../../lib/bounded'
import { onDeparture } from '../../../lib/departure'
import { count } from '../../../lib/words'
import { bytesOf, contentOf, EDIT_MAX, PEEK, type TextContent } from './content'

/** What is needed of a sandbox's files. */
export interface Store {
  stat(path: string): Promise<Entry>
  open(path: string, span?: [first: number, last?: number]): Promise<Response>
  put(path: string, data: Body, options: { mode?: number | undefined; etag?: string | undefined }): Promise<{ etag?: string }>
}

export type Opened =
  | { kind: 'text'; base: Entry; content: TextContent }
  | { kind: 'bytes'; base: Entry; start: Uint8Array; why: string }
  | { kind: 'large'; base: Entry; start: string | undefined; bytes: Uint8Array }
  | { kind: 'special'; base: Entry }

/** How large it is was said before; it may be larger by now, or never have been what was said. */
export async function openFile(store: Store, path: string): Promise<Opened> {
  const base = await store.stat(path)
  if (base.kind !== 'file') return { kind: 'special', base }
  if (base.size > EDIT_MAX) {
    const { bytes } = await readSome(await store.open(path, [0, PEEK - 1]), PEEK)
    return { kind: 'large', base, bytes, start: textStart(bytes) }
  }
  const { bytes, whole } = await readSome(await store.open(path), EDIT_MAX)
  if (!whole) {
    const start = bytes.slice(0, PEEK)
    return { kind: 'large', base: { ...base, size: EDIT_MAX + 1 }, bytes: start, start: textStart(start) }
  }
  const content = contentOf(bytes)
  return content.kind === 'text' ? { kind: 'text', base, content } : { kind: 'bytes', base, start: bytes.subarray(0, PEEK), why: content.why }
}

/** The beginning of a large text; the character that was cut in two is left out. */
function textStart(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  const text = new TextDecoder().decode(bytes, { stream: true })
  return text.includes('\ufffd') ? undefined : text
}

export type Saved = { kind: 'saved'; base: Entry } | { kind: 'conflict'; now: Entry | undefined }

/** Writes it, unless the file is not what it was when it was read: that is looked at inside, in the moment of writing. force: in any case. */
export async function saveFile(store: Store, path: string, base: Entry | undefined, content: Omit<TextContent, 'kind'>, force = false): Promise<Saved> {
  const is = (e: unknown, status: number): boolean => e instanceof StockadeError && e.status === status
  try {
    const bytes = bytesOf(content)
    const { etag } = await store.put(path, bytes, { mode: base && base.mode & 0o7777, etag: force ? undefined : (base?.etag ?? 'none') })
    // it is saved, whatever comes of the look at it
    const now = await store.stat(path).catch((e: unknown) => {
      if (!etag || !base) throw e
      return { ...base, size: bytes.length, mtime_ms: Date.now() }
    })
    return { kind: 'saved', base: etag ? { ...now, etag } : now } // somebody may have been quick: what we wrote is what we know
  } catch (e) {
    if (!is(e, 412)) throw e
    const now = await store.stat(path).catch((e: unknown) => {
      if (!is(e, 404)) throw e
    })
    return { kind: 'conflict', now: now || undefined }
  }
}

// --- what is typed and not saved, of all sandboxes

export interface Draft {
  readonly sandbox: string
  readonly path: string
  readonly text: string
  readonly base: Entry
  readonly content: TextContent
}

export const drafts = signal<readonly Draft[]>([])

onDeparture({ lost: () => (drafts.value.length ? `${count(drafts.value.length, 'file')} with changes that are not saved` : ''), drop: () => void (drafts.value = []) })

export function draftOf(sandbox: string, path: string): Draft | undefined {
  return drafts.value.find((d) => d.sandbox === sandbox && d.path === path)
}

export function keepDraft(draft: Draft): void {
  drafts.value = [...drafts.value.filter((d) => d.sandbox !== draft.sandbox || d.path !== draft.path), draft]
}

export function dropDraft(sandbox: string, path: string): void {
  if (draftOf(sandbox, path)) drafts.value = drafts.value.filter((d) => d.sandbox !== sandbox || d.path !== path)
}

if (typeof window !== 'undefined')
  addEventListener('beforeunload', (event) => {
    if (drafts.value.length) event.preventDefault()
  })
