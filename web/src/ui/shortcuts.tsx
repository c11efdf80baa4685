// Keys that do something anywhere on a page. They are quiet while somebody types, and listed when `?` is pressed.
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { Dialog } from './dialog'

interface Shortcut {
  readonly key: string
  readonly about: string
  readonly fn: { current: () => void }
}

const shortcuts = signal<readonly Shortcut[]>([])
const helpOpen = signal(false)
const ALWAYS: readonly (readonly [string, string])[] = [
  ['↑ ↓', 'Move in a list'],
  ['← →', 'Move between tabs'],
  ['Enter', 'Open'],
  ['Esc', 'Close what is open'],
  ['F6', 'Out of a terminal, to its tabs'],
  ['Esc Tab', 'Out of the editor'],
  ['?', 'Show these keys'],
]

/** While the caller is on screen, this key (as KeyboardEvent.key has it) does this. */
export function useShortcut(key: string, about: string, fn: () => void): void {
  const latest = useRef(fn)
  latest.current = fn
  useLayoutEffect(() => {
    const own: Shortcut = { key, about, fn: latest }
    shortcuts.value = [...shortcuts.value, own]
    return () => void (shortcuts.value = shortcuts.value.filter((s) => s !== own))
  }, [key, about])
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest('.xterm, .cm-editor') !== null)
}

export function listenForShortcuts(): () => void {
  const onKey = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
    if (document.querySelector('dialog[open]')) return
    if (event.key === '?') helpOpen.value = true
    else {
      const found = shortcuts.value.findLast((s) => s.key === event.key)
      if (!found) return
      found.fn.current()
    }
    event.preventDefault()
  }
  addEventListener('keydown', onKey)
  return () => removeEventListener('keydown', onKey)
}

export function showHelp(): void {
  helpOpen.value = true
}

export function Help() {
  if (!helpOpen.value) return null
  const own = shortcuts.value.map((s) => [s.key, s.about] as const)
  return (
    <Dialog title="Keys" onClose={() => (helpOpen.value = false)}>
      <dl class="keys">
        {[...own, ...ALWAYS].map(([key, about]) => (
          <div key={key + about}>
            <dt><kbd>{key}</kbd></dt>
            <dd>{about}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
