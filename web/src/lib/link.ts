// The one-time link that `stockade up` prints. Its code stands behind the '#', which is neither sent nor logged; it is
// taken out of the address bar before anything else happens, so that it is in no history either.
import { signal } from '@preact/signals'

/** The code of a link that was opened here and is not used yet. */
export const openedLink = signal<string | undefined>(undefined)

/** The code in an address's end, or undefined. */
export function codeOf(hash: string): string | undefined {
  return /^#link=([\w.~-]+)$/.exec(hash)?.[1]
}

/** The code of a link that somebody pasted, or of the code alone. */
export function codeOfPasted(text: string): string | undefined {
  const trimmed = text.trim()
  if (/^[\w.~-]+$/.test(trimmed)) return trimmed
  try {
    return codeOf(new URL(trimmed).hash)
  } catch {
    return undefined
  }
}

/** Out of the address bar, whatever becomes of it. */
export function takeLink(): void {
  if (!location.hash.startsWith('#link=')) return
  const code = codeOf(location.hash)
  history.replaceState(null, '', location.pathname + location.search)
  if (code) openedLink.value = code
}
