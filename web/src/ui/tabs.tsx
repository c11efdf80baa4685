// A row of tabs. Left and right move between them, Home and End go to the ends.
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Icon, type IconName } from './icon'

export interface Tab {
  readonly id: string
  readonly title: string
  readonly icon?: IconName
  readonly count?: number | undefined
}

/** The panel beneath has role="tabpanel", id={`panel-${id}`} and aria-labelledby={`tab-${id}`}. */
export function Tabs({ tabs, current, onChange, label }: { tabs: readonly Tab[]; current: string; onChange: (id: string) => void; label: string }) {
  const row = useRef<HTMLDivElement>(null)
  // where they do not all fit, the one that is open is among those that are seen
  useLayoutEffect(() => {
    const chosen = row.current?.querySelector(`#tab-${current}`)?.getBoundingClientRect()
    const all = row.current?.getBoundingClientRect()
    if (row.current && chosen && all) row.current.scrollLeft += chosen.left - all.left - (all.width - chosen.width) / 2
  }, [current])
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = tabs.findIndex((t) => t.id === current)
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key]
    const next = to === undefined ? undefined : tabs[(to + tabs.length) % tabs.length]
    if (!next) return
    event.preventDefault()
    onChange(next.id)
    row.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={row} onKeyDown={onKeyDown}>
      {tabs.map((t) => (
        <button key={t.id} type="button" role="tab" id={`tab-${t.id}`} class="tab" aria-selected={t.id === current} aria-controls={`panel-${t.id}`} tabIndex={t.id === current ? 0 : -1} onClick={() => onChange(t.id)}>
          {t.icon && <Icon name={t.icon} size={16} />}
          <span>{t.title}</span>
          {t.count !== undefined && <span class="count">{t.count}</span>}
        </button>
      ))}
    </div>
  )
}
