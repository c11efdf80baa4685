// What comes next, fetched while somebody still reads: the page of a sandbox and its terminals. Nothing waits for it, and
// what cannot be had now is asked for again when it is needed.

let begun = false

export function fetchAhead(): void {
  if (begun) return
  begun = true
  const fetch = (): void => {
    for (const part of [import('../pages/sandbox'), import('../pages/sandbox/terminals')]) part.catch(() => (begun = false))
  }
  // what is to be seen now comes first
  const idle = (window as Partial<Window>).requestIdleCallback
  if (idle) idle(fetch, { timeout: 500 })
  else setTimeout(fetch, 200)
}
