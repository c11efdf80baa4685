// What is said below a terminal about keys that were typed and went nowhere, also when it is connected again.
import type { LinkState } from './link'

/** Why what is typed goes nowhere. */
export const UNSENT: Readonly<Record<LinkState, string>> = {
  connecting: 'Not connected yet: what you typed last is not sent.',
  open: 'It took too long to connect: what you typed before is not sent.',
  away: 'Not connected: what you type is not sent.',
  ended: 'What you type goes nowhere.',
  gone: 'What you type goes nowhere.',
  refused: 'What you type is not sent.',
}

export const MAYBE = 'The connection broke: what you typed last may not have arrived.'
export const MISSED = 'Connected again. What you typed meanwhile was not sent.'

/** What is still to be said of it in the next state. */
export function noticeIn(next: LinkState, said: string): string {
  if (next === 'connecting') return ''
  if (next !== 'open' || said === MAYBE) return said
  return said === UNSENT.away ? MISSED : ''
}
