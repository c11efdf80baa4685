// The output of one run, as it comes. Reading waits for the page: who draws slowly reads slowly, and the server is told so
// by the connection itself. When that breaks it is taken up again from the byte where it was.
import { useEffect, useRef, useState } from 'preact/hooks'
import { StockadeError, type RunInfo, type SandboxInfo } from 'stockade-client'
import { client } from '../../../lib/session'
import { untilVisible, whileVisible } from '../../../lib/visible'
import { waitFor } from '../terminal/link'
import { OutputLog } from './output'

const DRAW_MS = 80
const AT_ONCE = 512 << 10 // bytes between two drawings

export interface Following {
  log: OutputLog
  /** Counts up with each drawing. */
  version: number
  state: 'loading' | 'live' | 'away' | 'ended' | 'failed'
  info: RunInfo | undefined
  error: unknown
}

function frame(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, DRAW_MS))
}

export function useFollow(sandbox: SandboxInfo, run: number): Following {
  const log = useRef(new OutputLog())
  const [now, setNow] = useState<Omit<Following, 'log'>>({ version: 0, state: 'loading', info: undefined, error: undefined })

  useEffect(() => {
    const stop = new AbortController()
    log.current = new OutputLog()
    const at = { out: 0, err: 0 }
    let begun = false
    const set = (to: Partial<Following>): void => {
      if (!stop.signal.aborted) setNow((old) => ({ ...old, ...to, version: old.version + 1 }))
    }
    set({ state: 'loading', info: undefined, error: undefined })
    const once = async (seen: AbortSignal): Promise<void> => {
      const one = client().sandboxes.of(sandbox).run(run)
      // the first time all that is kept; later what came since
      const events = begun ? one.stream(at, seen) : one.follow(seen)
      let drawn = Date.now()
      let since = 0
      let timer: ReturnType<typeof setTimeout> | undefined
      try {
        for await (const event of events) {
          if (event.kind === 'started') {
            begun = true
            at.out = Number(event.info['out'] ?? at.out)
            at.err = Number(event.info['err'] ?? at.err)
            set({ state: 'live', error: undefined })
          } else if (event.kind === 'lost') {
            const bytes = Number(event.info['bytes'] ?? 0)
            log.current.lost += bytes
            if (event.info['lost'] === 'stderr' || event.info['lost'] === 'err') at.err += bytes
            else at.out += bytes
          } else if (event.kind === 'exit') {
            return set({ state: 'ended', info: event.info as unknown as RunInfo })
          } else {
            begun = true
            log.current.add(event.data, event.kind === 'stderr')
            at[event.kind === 'stderr' ? 'err' : 'out'] += event.data.length
            since += event.data.length
          }
          if (since > AT_ONCE || Date.now() - drawn > DRAW_MS) {
            set({ state: 'live' })
            await frame()
            drawn = Date.now()
            since = 0
          } else timer ??= setTimeout(() => { timer = undefined; set({}) }, DRAW_MS)
        }
      } finally {
        clearTimeout(timer)
        set({})
      }
    }
    void (async () => {
      for (let attempt = 0; !stop.signal.aborted; attempt++) {
        await untilVisible(stop.signal)
        const seen = whileVisible(stop.signal)
        try {
          return await once(seen.signal)
        } catch (error) {
          if (stop.signal.aborted) return
          if (seen.signal.aborted) continue // nobody looks
          if (error instanceof StockadeError && error.status >= 400 && error.status < 500 && error.status !== 429) return set({ state: 'failed', error })
          set({ state: 'away', error })
        } finally {
          seen.end()
        }
        await new Promise((resolve) => setTimeout(resolve, waitFor(attempt)))
      }
    })()
    return () => stop.abort()
  }, [sandbox.id, run])
  return { log: log.current, ...now }
}
