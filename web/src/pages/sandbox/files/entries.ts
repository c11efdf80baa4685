// What is in a folder: in which order it is shown, what each thing is called, and what can be done with it.
import type { Entry } from 'stockade-client'

export type SortKey = 'name' | 'size' | 'mtime_ms'
export interface Sort {
  key: SortKey
  down: boolean
}

const order = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

/** Folders first, whatever the order. */
export function sorted(entries: readonly Entry[], sort: Sort): Entry[] {
  const turn = sort.down ? -1 : 1
  return [...entries].sort((a, b) => {
    const folders = Number(b.kind === 'folder') - Number(a.kind === 'folder')
    if (folders) return folders
    const by = sort.key === 'name' ? 0 : a[sort.key] - b[sort.key]
    return turn * (by || order.compare(a.name, b.name) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  })
}

export function matching(entries: readonly Entry[], text: string): readonly Entry[] {
  const wanted = text.trim().toLowerCase()
  return wanted ? entries.filter((e) => e.name.toLowerCase().includes(wanted)) : entries
}

const KINDS: Record<Entry['kind'], string> = { file: 'File', folder: 'Folder', link: 'Link', pipe: 'Pipe', socket: 'Socket', device: 'Device', other: 'Something else' }

export function kindWord(entry: Entry): string {
  return KINDS[entry.kind] ?? KINDS.other
}

/** rwxr-xr-x */
export function modeWord(mode: number): string {
  const letters = Array.from('rwxrwxrwx', (letter, i) => (mode & (1 << (8 - i)) ? letter : '-'))
  if (mode & 0o4000) letters[2] = letters[2] === 'x' ? 's' : 'S'
  if (mode & 0o2000) letters[5] = letters[5] === 'x' ? 's' : 'S'
  if (mode & 0o1000) letters[8] = letters[8] === 'x' ? 't' : 'T'
  return letters.join('')
}

type Look = Pick<Entry, 'mtime_ms' | 'size' | 'kind' | 'etag'>

/** Whether two looks at a file saw the same thing. */
export function sameFile(a: Look, b: Look): boolean {
  if (a.etag && b.etag) return a.etag === b.etag
  return a.mtime_ms === b.mtime_ms && a.size === b.size && a.kind === b.kind
}
