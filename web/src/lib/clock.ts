// The server's clock, as its answers tell it: a browser's own may be wrong by hours.

let ahead: number | undefined // the server's, in milliseconds

/** From the head of an answer. */
export function noteDate(date: string | null, now = Date.now()): void {
  const at = Date.parse(date ?? '')
  if (!Number.isNaN(at)) ahead = at + 500 - now // whole seconds are told
}

/** undefined: nothing was told yet. */
export function serverNow(now = Date.now()): number | undefined {
  return ahead === undefined ? undefined : now + ahead
}
