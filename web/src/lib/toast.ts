// What is to be said in a corner of the page: plain words, errors with their hint, and things that can still be undone.
// ui/toast.tsx shows it. Time stands still while somebody points at it or has the focus in it.
import { signal } from '@preact/signals'
import { StockadeError } from 'stockade-client'

export interface Toast {
  readonly id: number
  readonly tone: 'plain' | 'error'
  readonly text: string
  readonly hint: string
  readonly undo?: { readonly label: string; readonly act: () => void }
}

const PLAIN_MS = 4_000
const ERROR_MS = 12_000
const MOST = 4 // that only say something; what can be undone stays until its time is over

export const toasts = signal<readonly Toast[]>([])

/** Runs once; can be held. */
class Countdown {
  #timer: ReturnType<typeof setTimeout> | undefined
  #since = 0

  constructor(
    private left: number,
    private readonly over: () => void,
  ) {
    this.go()
  }

  go(): void {
    if (this.#timer !== undefined) return
    this.#since = Date.now()
    this.#timer = setTimeout(this.over, this.left)
  }

  hold(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.left = Math.max(1_000, this.left - (Date.now() - this.#since)) // nobody is hurried who has just looked
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

const clocks = new Map<number, Countdown>()
let held = false
let count = 0

function show(ms: number, what: Omit<Toast, 'id'>, over?: () => void): number {
  const id = ++count
  const all = [...toasts.value, { id, ...what }]
  const plain = all.filter((t) => !t.undo)
  const surplus = new Set(plain.slice(0, Math.max(0, plain.length - MOST)))
  for (const { id: gone } of surplus) forget(gone)
  toasts.value = all.filter((t) => !surplus.has(t))
  const clock = new Countdown(ms, () => {
    forget(id)
    hide(id)
    over?.()
  })
  clocks.set(id, clock)
  if (held) clock.hold()
  return id
}

function forget(id: number): void {
  clocks.get(id)?.stop()
  clocks.delete(id)
}

/** Takes it from view. What was to happen when its time is over happens all the same. */
export function hide(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id)
  if (!toasts.value.length) hold(false)
}

/** Somebody looks at them: time stands still, or goes on. */
export function hold(on: boolean): void {
  held = on
  for (const clock of clocks.values()) on ? clock.hold() : clock.go()
}

/** An error in words: [what, next step]. */
export function inWords(e: unknown): [string, string] {
  if (e instanceof StockadeError) return [sentence(e.message || e.code), sentence(e.hint)]
  if (e instanceof TypeError && /fetch|network|load failed/i.test(e.message)) return ['The server cannot be reached.', 'It may not have been done: look when the connection is back, and try again.']
  return [e instanceof Error ? sentence(e.message) : 'Something went wrong.', '']
}

export function sentence(text: string): string {
  const whole = text.trim()
  if (!whole) return ''
  const first = whole[0]!.toUpperCase() + whole.slice(1)
  return /[.!?:…]$/.test(first) ? first : `${first}.`
}

export interface UndoOptions {
  ms?: number
  label?: string
  /** Its time is over, and it was not undone. */
  over?: () => void
}

export const toast = {
  say(text: string): void {
    show(PLAIN_MS, { tone: 'plain', text, hint: '' })
  },
  error(e: unknown): void {
    const [text, hint] = inWords(e)
    // said already: it is said anew, for its whole time, and still stands there once
    const said = toasts.value.find((t) => t.tone === 'error' && t.text === text)
    if (said) forget(said.id)
    toasts.value = toasts.value.filter((t) => t !== said)
    show(ERROR_MS, { tone: 'error', text, hint })
  },
  /** Can be undone for some seconds, longer while somebody looks at it. Returns how to take it away before, as if it had never been. */
  undo(text: string, undo: () => unknown, options: UndoOptions = {}): () => void {
    const end = (): void => {
      forget(id)
      hide(id)
    }
    const act = (): void => {
      end()
      void Promise.resolve(undo()).catch((e: unknown) => toast.error(e))
    }
    const id = show(options.ms ?? 6_000, { tone: 'plain', text, hint: '', undo: { label: options.label ?? 'Undo', act } }, options.over)
    return end
  },
}
