// Something that is asked for, and may be loading, ready, or failed.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

export type Loaded<T> = { readonly reload: () => void } & (
  | { readonly state: 'loading'; readonly value: undefined; readonly error: undefined }
  /** error: asking again failed, and this is what was known before. */
  | { readonly state: 'ready'; readonly value: T; readonly error: unknown }
  | { readonly state: 'failed'; readonly value: undefined; readonly error: unknown }
)

/** Asks when it appears and whenever deps change. What is known stays while it is asked for again by reload(). */
export function useLoad<T>(fn: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[]): Loaded<T> {
  const [, draw] = useState(0)
  const at = useRef<{ state: 'loading' | 'ready' | 'failed'; value: T | undefined; error: unknown }>({ state: 'loading', value: undefined, error: undefined })
  const latest = useRef(fn)
  latest.current = fn
  const abort = useRef<AbortController>()

  const ask = useCallback((fresh: boolean) => {
    abort.current?.abort()
    const mine = (abort.current = new AbortController())
    if (fresh || at.current.state === 'failed') at.current = { state: 'loading', value: undefined, error: undefined }
    draw((n) => n + 1)
    latest.current(mine.signal).then(
      (value) => {
        if (mine.signal.aborted) return
        at.current = { state: 'ready', value, error: undefined }
        draw((n) => n + 1)
      },
      (error: unknown) => {
        if (mine.signal.aborted) return
        at.current = at.current.state === 'ready' ? { ...at.current, error } : { state: 'failed', value: undefined, error }
        draw((n) => n + 1)
      },
    )
  }, [])

  useEffect(() => {
    ask(true)
    return () => abort.current?.abort()
  }, deps)
  const reload = useCallback(() => ask(false), [ask])
  return { ...at.current, reload } as Loaded<T>
}
