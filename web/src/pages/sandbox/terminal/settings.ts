// How terminals look, for all of them and kept by the browser; and what their programs call themselves.
import { signal } from '@preact/signals'

const KEY = 'stockade.terminal.font'
const SMALLEST = 9
const LARGEST = 28
const USUAL = 14

export function parseFontSize(text: string | null): number {
  const size = Number(text ?? '')
  return text && Number.isInteger(size) ? Math.max(SMALLEST, Math.min(LARGEST, size)) : USUAL
}

export const fontSize = signal(parseFontSize(typeof localStorage === 'undefined' ? null : localStorage.getItem(KEY)))

export function changeFontSize(by: number): void {
  fontSize.value = parseFontSize(String(fontSize.value + by))
  localStorage.setItem(KEY, String(fontSize.value))
}

/** By session id. */
export const titles = signal<ReadonlyMap<string, string>>(new Map())

export function setTitle(session: string, title: string): void {
  if ((titles.value.get(session) ?? '') === title) return
  const next = new Map(titles.value)
  if (title) next.set(session, title)
  else next.delete(session)
  titles.value = next
}
