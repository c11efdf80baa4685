// The row of terminals: one tab each, with what its program calls itself, and what can be done with them.
import { IconButton, Menu } from '../../../ui'
import { canSplit, type Layout, type Tab } from './layout'
import { changeFontSize, fontSize, titles } from './settings'

export interface BarActions {
  add(): unknown
  split(direction: 'row' | 'column'): unknown
  show(tab: number): void
  close(session: string): unknown
  find(): void
  copyAll(): unknown
}

/** Whatever a program says is shown after our own name for it, so that none can pass for another. */
export function tabTitle(panes: readonly string[], known: ReadonlyMap<string, string>): { name: string; said: string } {
  return { name: panes.map((id) => `#${id}`).join(' '), said: panes.map((id) => known.get(id)).filter(Boolean).join(' · ') }
}

/** A tab and its panel name each other. */
export const tabId = (tab: Tab): string => `term-tab-${tab.panes[0] ?? ''}`
export const panelId = (tab: Tab): string => `term-panel-${tab.panes[0] ?? ''}`

export function TabBar({ layout, actions }: { layout: Layout; actions: BarActions }) {
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!(event.target instanceof HTMLElement) || event.target.getAttribute('role') !== 'tab') return
    const { length } = layout.tabs
    const to = { ArrowRight: layout.tab + 1, ArrowLeft: layout.tab - 1, Home: 0, End: length - 1 }[event.key]
    if (to === undefined || length === 0) return
    event.preventDefault()
    actions.show((to + length) % length)
  }
  const full = canSplit(layout) ? undefined : 'Four terminals fit into one tab'
  return (
    <div class="term-bar">
      <div class="term-tabs" onKeyDown={onKeyDown}>
        <div role="tablist" aria-label="Terminals" aria-owns={layout.tabs.map((tab) => tabId(tab)).join(' ')} />
        {layout.tabs.map((tab, i) => {
          const { name, said } = tabTitle(tab.panes, titles.value)
          const last = tab.panes[layout.tab === i ? layout.pane : 0] ?? ''
          return (
            <div key={tab.panes[0]} class="term-tab">
              <button type="button" role="tab" id={tabId(tab)} aria-controls={panelId(tab)} aria-selected={i === layout.tab} tabIndex={i === layout.tab ? 0 : -1} title={`${name} ${said}`} onClick={() => actions.show(i)}>
                <span class="term-name">{name}</span>
                {said && <bdi class="term-said">{said}</bdi>}
              </button>
              <IconButton icon="close" label={`Close terminal #${last}`} onClick={() => actions.close(last)} />
            </div>
          )
        })}
        <IconButton icon="plus" label="New terminal" act={actions.add} />
      </div>
      <div class="term-tools" role="toolbar" aria-label="This terminal">
        <IconButton icon="split" label="Split: another terminal beside this one" disabled={full !== undefined} act={() => actions.split('row')} />
        <IconButton icon="search" label="Search (Ctrl+Shift+F)" onClick={actions.find} />
        <button type="button" class="icon-button button-quiet" aria-label="Smaller letters" title="Smaller letters" onClick={() => changeFontSize(-1)}>A−</button>
        <button type="button" class="icon-button button-quiet" aria-label="Larger letters" title={`Larger letters (now ${fontSize.value})`} onClick={() => changeFontSize(1)}>A+</button>
        <Menu label="More" items={[
          { title: 'Split below', icon: 'split', act: () => actions.split('column'), why: full },
          { title: 'Copy all that is shown', icon: 'copy', act: actions.copyAll },
        ]} />
      </div>
    </div>
  )
}
