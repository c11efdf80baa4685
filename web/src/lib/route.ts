// Where we are: the address bar as a signal. Addresses are plain paths; the server answers all of them with the same page.
import { signal } from '@preact/signals'

export interface Route {
  readonly path: string
  /** The path's words, decoded: /sandboxes/abc/files is ['sandboxes', 'abc', 'files']. */
  readonly parts: readonly string[]
  readonly query: URLSearchParams
}

function decode(word: string): string {
  try {
    return decodeURIComponent(word)
  } catch {
    return word
  }
}

export function parseRoute(href: string): Route {
  const at = new URL(href, 'http://here')
  const parts = at.pathname.split('/').filter(Boolean).map(decode)
  return { path: at.pathname, parts, query: at.searchParams }
}

const here = (): string => (typeof location === 'undefined' ? '/' : location.pathname + location.search)

export const route = signal<Route>(parseRoute(here()))

/** Goes to a path of this app. replace: the Back button does not come back here. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  if (to === here()) return
  if (options.replace) history.replaceState(null, '', to)
  else history.pushState(null, '', to)
  route.value = parseRoute(to)
  if (options.replace) return
  scrollTo(0, 0)
  toTheTop()
}

/** Whoever does not see it hears that it is another page: the focus goes to where its content begins. */
function toTheTop(): void {
  requestAnimationFrame(() => document.getElementById('main')?.focus({ preventScroll: true }))
}

/** A path of a sandbox, with whatever its id is kept in one word. */
export function sandboxPath(id: string, tab?: string): string {
  return `/sandboxes/${encodeURIComponent(id)}${tab ? `/${tab}` : ''}`
}

/** Changes the query of where we are, without a new entry in the history; undefined or '' takes a key out. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const query = new URLSearchParams(route.value.query)
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value)
    else query.delete(key)
  }
  const words = query.toString()
  go(route.value.path + (words ? `?${words}` : ''), { replace: true })
}

if (typeof window !== 'undefined')
  addEventListener('popstate', () => {
    route.value = parseRoute(here())
    toTheTop()
  })
