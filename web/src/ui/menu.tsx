// A button that opens a short list of things to do. Arrows move, Enter does, Escape closes.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { IconButton } from './button'
import { Icon, type IconName } from './icon'
import { toast } from './toast'

export interface MenuItem {
  readonly title: string
  readonly icon?: IconName
  readonly act: () => unknown
  readonly danger?: boolean
  /** Why it cannot be done now; it is shown, and cannot be chosen. */
  readonly why?: string | undefined
}

export function Menu({ label, icon = 'more', items }: { label: string; icon?: IconName; items: readonly MenuItem[] }) {
  const [open, setOpen] = useState(false)
  const [up, setUp] = useState(false)
  const place = useRef<HTMLDivElement>(null)

  // upwards, where there is no room below; and with the focus in it as soon as it can be seen: a key that comes at once is for it
  useLayoutEffect(() => {
    const list = open && place.current?.querySelector('[role=menu]')?.getBoundingClientRect()
    const isUp = list ? list.bottom > innerHeight && list.height < list.top : false
    setUp(isUp)
    if (open) entries()[0]?.focus({ preventScroll: isUp })
  }, [open])
  useEffect(() => {
    if (!open) return
    const close = (event: Event): void => {
      if (!place.current?.contains(event.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', close)
    return () => document.removeEventListener('pointerdown', close)
  }, [open])

  const entries = (): HTMLElement[] => [...(place.current?.querySelectorAll<HTMLElement>('[role=menuitem]:not([aria-disabled=true])') ?? [])]
  const leave = (): void => {
    setOpen(false)
    place.current?.querySelector<HTMLElement>('button')?.focus()
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!open) return
    const all = entries()
    const at = all.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]
    if (to !== undefined) all[(to + all.length) % all.length]?.focus()
    else if (event.key === 'Escape') leave()
    else if (event.key === 'Tab') return setOpen(false)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  const choose = (item: MenuItem): void => {
    if (item.why) return
    leave()
    void Promise.resolve()
      .then(item.act)
      .catch((e: unknown) => toast.error(e))
  }
  return (
    <div class="menu" ref={place} onKeyDown={onKeyDown} onClick={(e) => e.stopPropagation()}>
      <IconButton icon={icon} label={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)} />
      {open && (
        <div class={up ? 'menu-list menu-up' : 'menu-list'} role="menu" aria-label={label}>
          {items.map((item) => (
            <button key={item.title} type="button" role="menuitem" tabIndex={-1} class={item.danger ? 'menu-item menu-danger' : 'menu-item'} aria-disabled={item.why ? 'true' : undefined} title={item.why} onClick={() => choose(item)}>
              {item.icon && <Icon name={item.icon} size={16} />}
              <span>{item.title}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  )
}
