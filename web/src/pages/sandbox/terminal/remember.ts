// How somebody's terminals stood, kept by the browser for the sandboxes that were looked at last. A store that is full or
// forbidden costs the memory of it, never a terminal.
import { parseLayout, type Layout } from './layout'

const KEY = 'stockade.terminals'
const KEPT = 40

type Store = Pick<Storage, 'getItem' | 'setItem'>

/** [sandbox, layout as it was written], the newest last. */
function all(store: Store): [string, unknown][] {
  try {
    const found: unknown = JSON.parse(store.getItem(KEY) ?? '[]')
    return Array.isArray(found) ? found.filter((e): e is [string, unknown] => Array.isArray(e) && typeof e[0] === 'string') : []
  } catch {
    return []
  }
}

export function rememberedLayout(sandbox: string, store: Store = localStorage): Layout {
  const found = all(store).find(([id]) => id === sandbox)?.[1]
  return parseLayout(found === undefined ? null : JSON.stringify(found))
}

export function rememberLayout(sandbox: string, layout: Layout, store: Store = localStorage): void {
  const others = all(store).filter(([id]) => id !== sandbox)
  const next = layout.tabs.length ? [...others, [sandbox, layout]] : others
  try {
    store.setItem(KEY, JSON.stringify(next.slice(-KEPT)))
  } catch {
    // it is only how things stood
  }
}
