// Asking less when the server says that it is too much. What runs by itself (polls, streams) waits until it may go on;
// what a person does is tried all the same, and says why it was refused.

const USUAL_MS = 1_000
const LONGEST_MS = 60_000

let until = 0

/** From the head of an answer. */
export function notePace(status: number, retryAfter: string | null, now = Date.now()): void {
  if (status !== 429 && status !== 503) return
  const seconds = Number(retryAfter ?? 0)
  until = Math.max(until, now + Math.min(LONGEST_MS, seconds > 0 ? seconds * 1000 : USUAL_MS))
}

/** How long what runs by itself should wait; 0: it may ask. */
export function waitAsked(now = Date.now()): number {
  return Math.max(0, until - now)
}
