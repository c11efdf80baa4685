// A folder that is looked at: its list, and what changes in it while one looks. A flood of changes is a few new lists.
import { useEffect, useRef, useState } from 'preact/hooks'
import { StockadeError, type Entry, type SandboxInfo } from 'stockade-client'
import { client } from '../../../lib/session'
import { untilVisible, whileVisible } from '../../../lib/visible'

const SOON_MS = 150
const APART_MS = 1500 // between two lists
const AGAIN_MS = 3000 // before watching anew

export interface Folder {
  path: string
  state: 'loading' | 'ready' | 'failed'
  entries: readonly Entry[]
  error?: unknown
  /** Changes appear by themselves. */
  live: boolean
}

/** When to ask again, if something changed now and the last answer came then. */
function nextLook(now: number, last: number): number {
  return Math.max(SOON_MS, last + APART_MS - now)
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    stop.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}

/** Calls changed() a little after anything changes in a folder, until it is stopped; watching() tells whether it works. */
export async function follow(sandbox: SandboxInfo, path: string, stop: AbortSignal, changed: () => void, watching: (on: boolean) => void = () => undefined): Promise<void> {
  for (let first = true; !stop.aborted; first = false) {
    await untilVisible(stop)
    const seen = whileVisible(stop)
    try {
      const changes = await client().sandboxes.of(sandbox).files.watch(path, { signal: seen.signal })
      watching(true)
      if (!first) changed() // whatever happened in between
      for await (const _ of changes) changed()
    } catch (e) {
      if (e instanceof StockadeError && e.status !== 429 && e.status < 500 && e.status !== 0) return watching(false)
    } finally {
      seen.end()
    }
    watching(false)
    await pause(seen.signal.aborted ? 0 : AGAIN_MS, stop)
  }
}

export function useFolder(sandbox: SandboxInfo, path: string): Folder & { reload: () => void } {
  const [folder, setFolder] = useState<Folder>(unread(path))
  const ask = useRef<() => void>(() => undefined)

  useEffect(() => {
    const stop = new AbortController()
    let last = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    let asking = false
    const look = async (): Promise<void> => {
      if (asking) return later()
      asking = true
      try {
        const entries = await client().sandboxes.of(sandbox).files.list(path)
        if (!stop.signal.aborted) setFolder((f) => ({ path, state: 'ready', entries, live: f.live }))
      } catch (error) {
        if (!stop.signal.aborted) setFolder((f) => (f.state === 'ready' && !isGone(error) ? { ...f, error } : { path, state: 'failed', entries: [], error, live: false }))
      }
      asking = false
      last = Date.now()
    }
    const later = (): void => {
      if (timer || stop.signal.aborted) return
      timer = setTimeout(() => {
        timer = undefined
        void look()
      }, nextLook(Date.now(), last))
    }
    ask.current = () => void look()
    setFolder(unread(path))
    void look()
    void follow(sandbox, path, stop.signal, later, (live) => !stop.signal.aborted && setFolder((f) => ({ ...f, live })))
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [sandbox.id, path])
  // what is known of another folder is not shown for this one, not even for a moment
  return { ...(folder.path === path ? folder : unread(path)), reload: () => ask.current() }
}

function unread(path: string): Folder {
  return { path, state: 'loading', entries: [], live: false }
}

function isGone(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof StockadeError && error.status === 404)
}
