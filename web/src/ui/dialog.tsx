// Dialogs: the browser's own <dialog>, which keeps the focus inside and closes with Escape. ask(), askText() and choose()
// put a question from anywhere and wait for the answer; several questions wait for each other.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { ended } from '../lib/session'
import { Button, IconButton } from './button'
import { TextField } from './field'

export function Dialog({ title, onClose, children, wide, foot }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean; foot?: ComponentChildren }) {
  const place = useRef<HTMLDialogElement>(null)
  const id = useId()
  const typed = useRef(false)
  const pressed = useRef<EventTarget | null>(null)
  useEffect(() => {
    const before = document.activeElement
    return () => {
      place.current?.close() // until then nothing else can have the focus
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  // while somebody has to sign in again it makes room for that, and comes back with what was typed in it
  useEffect(() => {
    if (ended.value) place.current?.close()
    else place.current?.showModal()
  }, [ended.value])
  /** Beside it, and nowhere else: a selection that was dragged out of a field closes nothing, nor is anything lost that was typed. */
  const beside = (event: MouseEvent): void => {
    if (event.target === place.current && pressed.current === place.current && !typed.current) onClose()
  }
  return (
    <dialog ref={place} class={`dialog${wide ? ' dialog-wide' : ''}`} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose() }} onInput={() => (typed.current = true)} onPointerDown={(e) => (pressed.current = e.target)} onClick={beside}>
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        <div class="dialog-content">{children}</div>
        {foot && <footer>{foot}</footer>}
      </div>
    </dialog>
  )
}

/** A button that answers: it says what it does ("Delete it"), never "OK". */
export interface Choice {
  readonly value: string
  readonly title: string
  readonly danger?: boolean
}

interface Question {
  readonly id: number
  readonly title: string
  readonly text?: ComponentChildren
  readonly choices: readonly Choice[]
  readonly input?: { readonly label: string; readonly value: string; readonly hint?: string; readonly check?: (value: string) => string | undefined; readonly more?: ComponentChildren }
  readonly answer: (value: string | null) => void
}

/** The first is shown; the others wait until it is answered. */
const questions = signal<readonly Question[]>([])
let asked = 0

function put(what: Omit<Question, 'answer' | 'id'>): Promise<string | null> {
  return new Promise((resolve) => {
    const id = ++asked
    const answer = (value: string | null): void => {
      questions.value = questions.value.filter((q) => q.id !== id)
      resolve(value)
    }
    questions.value = [...questions.value, { ...what, id, answer }]
  })
}

interface Asking {
  title: string
  text?: ComponentChildren
}

/** Whether it shall be done. danger: it cannot be taken back, or leads somewhere unknown; Enter alone does not do it. */
export async function ask({ yes, danger, ...what }: Asking & { yes: string; danger?: boolean }): Promise<boolean> {
  return (await put({ ...what, choices: [{ value: 'yes', title: yes, danger: danger ?? false }] })) !== null
}

/** Which of several things; null if none. */
export function choose(what: Asking & { choices: readonly Choice[] }): Promise<string | null> {
  return put(what)
}

/** A text, or null if the question was closed. check says what is wrong with it; more: other fields below it, which keep what they are told themselves. */
export function askText({ label, value = '', hint, check, more, yes, ...what }: Asking & { yes: string; label: string; value?: string; hint?: string; check?: (value: string) => string | undefined; more?: ComponentChildren }): Promise<string | null> {
  return put({ ...what, choices: [{ value: '', title: yes }], input: { label, value, ...(hint ? { hint } : {}), ...(check ? { check } : {}), ...(more ? { more } : {}) } })
}

function Asked({ q }: { q: Question }) {
  const { choices, input } = q
  const [value, setValue] = useState(input?.value ?? '')
  const [tried, setTried] = useState(false)
  const wrong = input?.check?.(value)
  const say = (choice: Choice): void => (wrong ? setTried(true) : q.answer(input ? value : choice.value))
  const careful = choices.some((c) => c.danger)
  const submit = (event: Event): void => {
    event.preventDefault()
    if (choices[0]) say(choices[0])
  }
  return (
    <Dialog title={q.title} onClose={() => q.answer(null)} foot={<>
      <Button onClick={() => q.answer(null)} autofocus={careful && !input}>Cancel</Button>
      {choices.map((c, i) => <Button key={c.value} kind={c.danger ? 'danger' : i === choices.length - 1 ? 'primary' : 'plain'} onClick={() => say(c)} autofocus={!careful && !input && i === choices.length - 1}>{c.title}</Button>)}
    </>}>
      {q.text && <p>{q.text}</p>}
      {input && (
        <form onSubmit={submit}>
          <TextField label={input.label} value={value} onInput={setValue} hint={input.hint} error={tried ? wrong : undefined} autofocus />
          {input.more}
        </form>
      )}
    </Dialog>
  )
}

/** Where questions appear; once, in the shell. */
export function Asks() {
  const [q] = questions.value
  return q ? <Asked key={q.id} q={q} /> : null
}
