// A long list of which only what can be seen is drawn. It scrolls with the page or in a box of its own; up and down move
// from row to row. Rows that can be opened have a link or a button in them that does it, marked data-open: it has the focus
// and the name; a click anywhere else on the row does the same.
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

const MORE = 6 // rows drawn beyond what is seen

/** First and last row (exclusive) to draw. */
export function windowOf(count: number, rowHeight: number, top: number, height: number): [number, number] {
  const first = Math.max(0, Math.floor(top / rowHeight) - MORE)
  return [Math.min(first, count), Math.min(count, Math.ceil((top + height) / rowHeight) + MORE)]
}

/** The row that Tab leads to: the one that was used last, or the nearest to it of those that are drawn and, above, can be seen. */
export function tabStop(active: number, first: number, end: number): number {
  return Math.max(0, Math.min(Math.max(active, first > 0 ? first + MORE : 0), end - 1))
}

export interface OpenProps {
  'data-open': true
  tabIndex: number
}

export interface VirtualListProps<T> {
  items: readonly T[]
  /** All rows are this high, in pixels. */
  rowHeight: number
  keyOf: (item: T) => string | number
  /** With onOpen: `open` goes to the one link or button that opens it. */
  render: (item: T, open: OpenProps) => ComponentChildren
  label: string
  onOpen?: (item: T) => void
  /** Another key was pressed on a row; true: it meant something. */
  onKey?: (event: KeyboardEvent, item: T) => boolean
  /** In a box that scrolls, of this class; without it the list scrolls with the page. */
  boxClass?: string
  /** Stay at the end while things are added there. */
  stick?: boolean
}

export function VirtualList<T>({ items, rowHeight, keyOf, render, label, onOpen, onKey, boxClass, stick }: VirtualListProps<T>) {
  const box = useRef<HTMLDivElement>(null)
  const [[first, end], setWindow] = useState<[number, number]>(() => windowOf(items.length, rowHeight, 0, 900))
  const [active, setActive] = useState(0)
  const atEnd = useRef(true)
  const seen = useRef(900) // how high what is seen is
  const latest = useRef(0)
  latest.current = items.length

  const look = (): void => {
    const el = box.current
    if (!el) return
    if (boxClass) {
      atEnd.current = el.scrollTop + el.clientHeight > el.scrollHeight - rowHeight
      show(el.scrollTop, el.clientHeight)
    } else show(Math.max(0, -el.getBoundingClientRect().top), innerHeight)
  }
  // drawn again only if other rows are to be seen
  const show = (top: number, height: number): void => {
    seen.current = height
    const next = windowOf(latest.current, rowHeight, top, height)
    setWindow((was) => (was[0] === next[0] && was[1] === next[1] ? was : next))
  }
  // before anybody looks: a list that is new begins at its end, and whoever walks through it by keys is not pulled away
  useLayoutEffect(() => {
    if (stick && atEnd.current && box.current && !box.current.querySelector(':focus-visible')) box.current.scrollTop = box.current.scrollHeight
    look()
  }, [items.length])
  useLayoutEffect(() => {
    look()
    const on: EventTarget = boxClass ? box.current! : window
    on.addEventListener('scroll', look, { passive: true })
    addEventListener('resize', look)
    return () => {
      on.removeEventListener('scroll', look)
      removeEventListener('resize', look)
    }
  }, [boxClass])

  const moveTo = (to: number): void => {
    const next = Math.max(0, Math.min(items.length - 1, to))
    setActive(next)
    const el = box.current
    if (!el) return
    if (boxClass) {
      if (next * rowHeight < el.scrollTop) el.scrollTop = next * rowHeight
      else if ((next + 1) * rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = (next + 1) * rowHeight - el.clientHeight
    } else {
      const y = el.getBoundingClientRect().top + next * rowHeight
      if (y < 90) scrollBy(0, y - 90)
      else if (y + rowHeight > innerHeight) scrollBy(0, y + rowHeight - innerHeight + 12)
    }
    requestAnimationFrame(() => {
      const row = el.querySelector<HTMLElement>(`[data-index="${next}"]`)
      ;(row?.querySelector<HTMLElement>('[data-open]') ?? row)?.focus({ preventScroll: true })
    })
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!(event.target instanceof HTMLElement) || !event.target.matches('[data-index], [data-open]') || event.ctrlKey || event.metaKey || event.altKey) return
    const page = Math.max(1, Math.floor(seen.current / rowHeight) - 1)
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, j: active + 1, k: active - 1, Home: 0, End: items.length - 1, PageDown: active + page, PageUp: active - page }[event.key]
    if (to !== undefined) moveTo(to)
    else if (!onKey || items[active] === undefined || !onKey(event, items[active])) return
    event.preventDefault()
  }
  /** A link with a key held down is the browser's business: another tab. */
  const onClick = (event: MouseEvent, item: T): void => {
    const link = event.target instanceof Element && event.target.closest('a')
    if (event.defaultPrevented || (link && (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey))) return
    event.preventDefault()
    onOpen?.(item)
  }
  const shown = tabStop(active, first, Math.min(end, items.length))
  return (
    <div class={`virtual ${boxClass ?? ''}`} ref={box} role="list" aria-label={label} onKeyDown={onKeyDown}>
      <div class="virtual-all" style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(first, end).map((item, i) => {
          const index = first + i
          return (
            <div key={keyOf(item)} role="listitem" class="virtual-row" data-index={index} aria-setsize={items.length} aria-posinset={index + 1} tabIndex={onOpen ? undefined : index === shown ? 0 : -1} style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }} onFocusIn={() => setActive(index)} onClick={onOpen ? (event) => onClick(event, item) : undefined}>
              {render(item, { 'data-open': true, tabIndex: index === shown ? 0 : -1 })}
            </div>
          )
        })}
      </div>
    </div>
  )
}
