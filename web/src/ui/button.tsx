// Buttons. One that is given `act` shows that it is at work until that has ended, and says what went wrong.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Icon, type IconName } from './icon'
import { toast } from './toast'

type Native = Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, 'icon' | 'size'>

export interface ButtonProps extends Native {
  kind?: 'plain' | 'primary' | 'quiet' | 'danger'
  icon?: IconName
  small?: boolean
  busy?: boolean
  /** What the button does; while it does, it cannot be pressed again. Errors are shown. */
  act?: () => unknown
  children?: ComponentChildren
}

function useAct(act: (() => unknown) | undefined): [boolean, (() => void) | undefined] {
  const [busy, setBusy] = useState(false)
  const there = useRef(true)
  useEffect(() => () => void (there.current = false), [])
  if (!act) return [busy, undefined]
  const run = async (): Promise<void> => {
    setBusy(true)
    try {
      await act()
    } catch (e) {
      toast.error(e)
    } finally {
      if (there.current) setBusy(false)
    }
  }
  return [busy, () => void run()]
}

export function Button({ kind = 'plain', icon, small, busy, act, children, class: more, disabled, ...rest }: ButtonProps) {
  const [acting, run] = useAct(act)
  const works = busy || acting
  const names = ['button', `button-${kind}`, small ? 'button-small' : '', more ?? ''].filter(Boolean).join(' ')
  return (
    <button type="button" {...rest} {...(run ? { onClick: run } : {})} class={names} disabled={disabled || works} aria-busy={works ? 'true' : undefined}>
      {icon && <Icon name={icon} size={small ? 16 : 18} />}
      <span>{children}</span>
    </button>
  )
}

/** A button with a picture alone; `label` is what it says to those who do not see it, and when pointed at. */
export function IconButton({ icon, label, act, kind = 'quiet', disabled, class: more, ...rest }: Omit<ButtonProps, 'children' | 'icon' | 'label'> & { icon: IconName; label: string }) {
  const [acting, run] = useAct(act)
  const { small: _small, busy: _busy, ...native } = rest
  return (
    <button type="button" {...native} {...(run ? { onClick: run } : {})} class={`icon-button button-${kind} ${more ?? ''}`} aria-label={label} title={label} disabled={disabled || acting}>
      <Icon name={icon} />
    </button>
  )
}

/** Into the clipboard; where a browser gives pages none (over plain http), that is said. */
export async function copyText(text: string): Promise<void> {
  const clipboard = (navigator as Partial<Navigator>).clipboard
  if (!clipboard) throw new Error('This browser lets pages copy only over https, or on this machine. Select the text instead.')
  await clipboard.writeText(text)
}

/** Puts a text into the clipboard and says so. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false)
  const act = async (): Promise<void> => {
    await copyText(text)
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return <IconButton icon={done ? 'check' : 'copy'} label={done ? 'Copied' : label} act={act} />
}
