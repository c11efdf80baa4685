// Which terminals stand where: tabs, each with one pane or several beside or above each other. Remembered per sandbox by
// the browser; the terminals themselves live in the sandbox, so what is remembered is brought together with what there is.

export const PANES_MAX = 4

export interface Tab {
  /** Session ids, from left to right or from top to bottom. */
  panes: string[]
  direction: 'row' | 'column'
}

export interface Layout {
  tabs: Tab[]
  /** The tab that is seen, and which of its panes has the keyboard. */
  tab: number
  pane: number
}

export const EMPTY: Layout = { tabs: [], tab: 0, pane: 0 }

function clamp(layout: Layout): Layout {
  const tab = Math.max(0, Math.min(layout.tab, layout.tabs.length - 1))
  const pane = Math.max(0, Math.min(layout.pane, (layout.tabs[tab]?.panes.length ?? 1) - 1))
  return { tabs: layout.tabs, tab, pane }
}

export function addTab(layout: Layout, session: string): Layout {
  return { tabs: [...layout.tabs, { panes: [session], direction: 'row' }], tab: layout.tabs.length, pane: 0 }
}

export function canSplit(layout: Layout): boolean {
  return (layout.tabs[layout.tab]?.panes.length ?? PANES_MAX) < PANES_MAX
}

/** Beside (row) or below (column) the pane with the keyboard. A tab has one direction: the last that was asked for. */
export function split(layout: Layout, session: string, direction: 'row' | 'column'): Layout {
  const at = layout.tabs[layout.tab]
  if (!at || at.panes.length >= PANES_MAX) return addTab(layout, session)
  const panes = [...at.panes.slice(0, layout.pane + 1), session, ...at.panes.slice(layout.pane + 1)]
  return { tabs: layout.tabs.map((t, i) => (i === layout.tab ? { panes, direction } : t)), tab: layout.tab, pane: layout.pane + 1 }
}

export function remove(layout: Layout, session: string): Layout {
  const seen = layout.tabs[layout.tab]
  const tabs = layout.tabs.map((t) => ({ ...t, panes: t.panes.filter((p) => p !== session) })).filter((t) => t.panes.length > 0)
  const still = seen ? tabs.findIndex((t) => t.panes.some((p) => seen.panes.includes(p))) : -1
  return clamp({ tabs, tab: still >= 0 ? still : layout.tab - 1, pane: still >= 0 ? Math.min(layout.pane, tabs[still]!.panes.length - 1) : 0 })
}

export function replace(layout: Layout, session: string, by: string): Layout {
  return { ...layout, tabs: layout.tabs.map((t) => ({ ...t, panes: t.panes.map((p) => (p === session ? by : p)) })) }
}

export function show(layout: Layout, tab: number, pane = 0): Layout {
  return clamp({ ...layout, tab, pane })
}

export function sessionAt(layout: Layout): string | undefined {
  return layout.tabs[layout.tab]?.panes[layout.pane]
}

/** What is gone is left out; what is new gets a tab of its own. */
export function bringTogether(layout: Layout, sessions: string[]): Layout {
  const there = new Set(sessions)
  let next = layout
  for (const id of layout.tabs.flatMap((t) => t.panes)) if (!there.has(id)) next = remove(next, id)
  const known = new Set(next.tabs.flatMap((t) => t.panes))
  const tabs = [...next.tabs, ...sessions.filter((id) => !known.has(id)).map((id): Tab => ({ panes: [id], direction: 'row' }))]
  return clamp({ ...next, tabs })
}

/** Anything can stand in a browser's storage. */
export function parseLayout(text: string | null): Layout {
  try {
    const found = JSON.parse(text ?? '') as Partial<Layout> | null
    const seen = new Set<string>()
    const tabs: Tab[] = []
    for (const tab of Array.isArray(found?.tabs) ? found.tabs.slice(0, 100) : []) {
      const panes: string[] = []
      for (const p of Array.isArray(tab?.panes) ? tab.panes : []) {
        if (typeof p !== 'string' || seen.has(p) || panes.length === PANES_MAX) continue
        seen.add(p)
        panes.push(p)
      }
      if (panes.length) tabs.push({ panes, direction: tab.direction === 'column' ? 'column' : 'row' })
    }
    return clamp({ tabs, tab: Number.isInteger(found?.tab) ? found!.tab! : 0, pane: Number.isInteger(found?.pane) ? found!.pane! : 0 })
  } catch {
    return EMPTY
  }
}
