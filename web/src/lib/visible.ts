// Streams are only kept open while somebody can see the page: a browser has few connections to one server, and several
// tabs share them.

const HIDDEN_MS = 10_000 // a glance at another tab costs nothing

/** Resolves when the page can be seen, or is not wanted any more. */
export function untilVisible(stop: AbortSignal): Promise<void> {
  if (document.visibilityState === 'visible' || stop.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.visibilityState !== 'visible' && !stop.aborted) return
      document.removeEventListener('visibilitychange', look)
      resolve()
    }
    document.addEventListener('visibilitychange', look)
    stop.addEventListener('abort', look, { once: true })
  })
}

/** Aborted with `stop`, or when the page has been hidden for a while. end(): it is not needed any more. */
export function whileVisible(stop: AbortSignal): { signal: AbortSignal; end: () => void } {
  const own = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const abort = (): void => own.abort()
  const look = (): void => {
    clearTimeout(timer)
    if (document.visibilityState === 'hidden') timer = setTimeout(abort, HIDDEN_MS)
  }
  document.addEventListener('visibilitychange', look)
  stop.addEventListener('abort', abort, { once: true })
  if (stop.aborted) abort()
  return {
    signal: own.signal,
    end: () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
      stop.removeEventListener('abort', abort)
    },
  }
}
