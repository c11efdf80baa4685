// Paths inside a sandbox: absolute, with slashes, made of names that may contain anything but a slash.

export const NAME_MAX = 255 // bytes

export function join(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`
}

export function parentOf(path: string): string {
  const at = path.lastIndexOf('/')
  return at <= 0 ? '/' : path.slice(0, at)
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

/** Whatever stands in an address bar, as a path without . and .. and double slashes. */
export function tidy(path: string): string {
  const words: string[] = []
  for (const word of path.split('/')) {
    if (word === '..') words.pop()
    else if (word !== '' && word !== '.') words.push(word)
  }
  return `/${words.join('/')}`
}

/** From / down to it, itself included. */
export function wayTo(path: string): string[] {
  const words = path.split('/').filter(Boolean)
  return ['/', ...words.map((_, i) => `/${words.slice(0, i + 1).join('/')}`)]
}

export function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)
}

/** What is wrong with a name, if anything. */
export function wrongName(name: string): string | undefined {
  if (name === '') return 'It needs a name.'
  if (name === '.' || name === '..') return 'This name has a meaning of its own.'
  if (name.includes('/')) return 'A name has no slash in it.'
  if (name.includes('\0')) return 'A name has no zero byte in it.'
  if (new TextEncoder().encode(name).length > NAME_MAX) return `A name has at most ${NAME_MAX} bytes.`
  return undefined
}

/** Names with this in them may stand for bytes that are no text; the API cannot name such a file. */
export function isUnnameable(name: string): boolean {
  return name.includes('\ufffd')
}

/** A field of one line cannot hold such a name. */
export function hasControls(name: string): boolean {
  return /[\u0000-\u001f\u007f]/.test(name)
}
