// Requests that must be done once however often they are sent. Each goes with a word that nobody else has; when its answer
// was lost, nobody knows whether it was done: whoever asks for the same again sends the same word, and gets what was made.
import { StockadeError } from 'stockade-client'

const REMEMBER_MS = 5 * 60_000 // who wants the same after that wants another one

/** crypto.randomUUID would do, but is not there where the page came over plain http. */
export function onceKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('')
}

/** The server said no: nothing was done. Anything else may mean that only the answer was lost. */
export function isRefusal(e: unknown): boolean {
  return e instanceof StockadeError && e.status >= 400 && e.status < 500 && e.status !== 408
}

interface Open {
  readonly wish: string
  readonly key: string
  readonly at: number
}

const open = new Map<string, Open>()

/** place: what it is about ("fork of abc"), where the last wish counts; wish: all that is asked for. */
export async function once<T>(place: string, wish: unknown, send: (key: string) => Promise<T>): Promise<T> {
  const text = JSON.stringify(wish) ?? ''
  const known = open.get(place)
  const mine = known?.wish === text && Date.now() - known.at < REMEMBER_MS ? known : { wish: text, key: onceKey(), at: Date.now() }
  open.set(place, mine)
  const forget = (): void => {
    if (open.get(place) === mine) open.delete(place)
  }
  try {
    const made = await send(mine.key)
    forget()
    return made
  } catch (e) {
    if (isRefusal(e)) forget()
    throw e
  }
}

/** It is known now how it is: the next request there is another one. */
export function settle(place: string): void {
  open.delete(place)
}
