// Uploads: a few at a time, streamed by the browser from the disk, each with its progress, each to be cancelled. A file
// appears in the sandbox whole or not at all.
import { signal, type Signal } from '@preact/signals'
import { StockadeError } from 'stockade-client'

const AT_ONCE = 2
const LISTED_MAX = 500 // what has ended is forgotten beyond that
const SHOW_MS = 100

export interface Source {
  /** Relative to where it goes: "photos/1.jpg". */
  path: string
  /** null: a folder that is empty. */
  file: File | null
}

export interface Upload {
  readonly id: number
  readonly path: string
  readonly size: number
  readonly sent: number
  readonly state: 'waits' | 'sends' | 'done' | 'failed' | 'cancelled'
  readonly error?: unknown
}

/** Sends a file; tells how much has gone. */
export type Send = (path: string, file: File, progress: (sent: number) => void, stop: AbortSignal) => Promise<void>
export type MakeFolder = (path: string) => Promise<void>
export type SignedIn = (stop: AbortSignal) => Promise<void>

export class Uploads {
  /** In the order in which they were added. Many changes are one new list, a few times a second. */
  readonly list: Signal<readonly Upload[]> = signal([])
  readonly #all = new Map<number, Upload>()
  readonly #send: Send
  readonly #makeFolder: MakeFolder
  readonly #signedIn: SignedIn | undefined
  readonly #jobs = new Map<number, { file: File | null; stop: AbortController }>()
  readonly #folders = new Map<string, Promise<void>>()
  #queue: number[] = [] // those that wait
  #head = 0
  #next = 1
  #working = 0
  #showing: ReturnType<typeof setTimeout> | undefined

  /** signedIn: waits until somebody is, when the server says that nobody is. */
  constructor(send: Send, makeFolder: MakeFolder, signedIn?: SignedIn) {
    this.#send = send
    this.#makeFolder = makeFolder
    this.#signedIn = signedIn
  }

  /** Everything is put below a folder. */
  add(folder: string, sources: readonly Source[]): void {
    this.#forget(LISTED_MAX)
    for (const { path, file } of sources) {
      const id = this.#next++
      this.#jobs.set(id, { file, stop: new AbortController() })
      this.#all.set(id, { id, path: folder === '/' ? `/${path}` : `${folder}/${path}`, size: file?.size ?? 0, sent: 0, state: 'waits' })
      this.#queue.push(id)
    }
    this.#work()
    this.#show()
  }

  cancel(id: number): void {
    this.#cancel(id)
    this.#show()
  }

  cancelAll(): void {
    for (const id of [...this.#jobs.keys()]) this.#cancel(id)
    this.#show()
  }

  #cancel(id: number): void {
    this.#jobs.get(id)?.stop.abort()
    if (this.#all.get(id)?.state === 'waits') this.#change(id, { state: 'cancelled' })
  }

  retry(id: number): void {
    this.#again([id])
  }

  /** All that failed. */
  retryAll(): void {
    this.#again([...this.#all.values()].filter((u) => u.state === 'failed').map((u) => u.id))
  }

  #again(ids: readonly number[]): void {
    for (const id of ids) {
      const job = this.#jobs.get(id)
      const at = this.#all.get(id)
      if (!job || !at || !isOver(at)) continue
      this.#jobs.set(id, { file: job.file, stop: new AbortController() })
      this.#change(id, { state: 'waits', sent: 0, error: undefined })
      this.#queue.push(id)
    }
    this.#work()
    this.#show()
  }

  /** Forgets what has ended. */
  clear(): void {
    this.#forget(0)
    this.#show()
  }

  /** Of what has ended, so many are still shown. */
  #forget(most: number): void {
    const ended = [...this.#all.values()].filter(isOver)
    for (const { id } of ended.slice(0, Math.max(0, ended.length - most))) {
      this.#all.delete(id)
      this.#jobs.delete(id)
    }
  }

  #change(id: number, to: Partial<Upload>): void {
    const at = this.#all.get(id)
    if (!at) return
    this.#all.set(id, { ...at, ...to })
    this.#showing ??= setTimeout(() => this.#show(), SHOW_MS)
  }

  #show(): void {
    clearTimeout(this.#showing)
    this.#showing = undefined
    this.list.value = [...this.#all.values()]
  }

  #take(): Upload | undefined {
    while (this.#head < this.#queue.length) {
      const found = this.#all.get(this.#queue[this.#head++] ?? 0)
      if (found?.state === 'waits') return found
    }
    this.#queue = []
    this.#head = 0
    return undefined
  }

  #work(): void {
    while (this.#working < AT_ONCE) {
      const next = this.#take()
      if (!next) return
      this.#change(next.id, { state: 'sends' })
      this.#working++
      void this.#one(next).finally(() => {
        this.#working--
        this.#work()
      })
    }
  }

  async #one(upload: Upload): Promise<void> {
    const job = this.#jobs.get(upload.id)
    if (!job) return
    const { file, stop: { signal: stop } } = job
    const progress = (sent: number): void => this.#change(upload.id, { sent })
    try {
      const slash = upload.path.lastIndexOf('/')
      await this.#patiently(() => this.#folder(file ? upload.path.slice(0, slash) : upload.path), stop)
      if (file) await this.#patiently(() => this.#send(upload.path, file, progress, stop), stop)
      this.#change(upload.id, { state: 'done', sent: upload.size })
      this.#jobs.delete(upload.id)
    } catch (error) {
      this.#change(upload.id, stop.aborted ? { state: 'cancelled' } : { state: 'failed', error })
    }
  }

  /** Each folder is made once. One that is there already is fine. */
  #folder(path: string): Promise<void> {
    if (path === '' || path === '/') return Promise.resolve()
    let making = this.#folders.get(path)
    if (!making) {
      making = this.#makeFolder(path).finally(() => this.#folders.delete(path))
      this.#folders.set(path, making)
    }
    return making
  }

  /** Again and again while it is too much at once for the server, which says when to come back, or nobody is signed in. */
  async #patiently(fn: () => Promise<void>, stop: AbortSignal): Promise<void> {
    for (;;) {
      if (stop.aborted) throw new DOMException('cancelled', 'AbortError')
      try {
        return await fn()
      } catch (e) {
        if (!(e instanceof StockadeError)) throw e
        if (e.status === 401 && this.#signedIn) await this.#signedIn(stop)
        else if (e.status === 429) await pause(Math.min(60_000, e.retryAfterMs ?? 1000), stop)
        else throw e
      }
    }
  }
}

function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      stop.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    stop.addEventListener('abort', done, { once: true })
  })
}

export function isOver(u: Upload): boolean {
  return u.state === 'done' || u.state === 'failed' || u.state === 'cancelled'
}

export function totals(list: readonly Upload[]): { size: number; sent: number; open: number; failed: number } {
  const sum = { size: 0, sent: 0, open: 0, failed: 0 }
  for (const u of list) {
    if (u.state === 'failed') sum.failed++
    if (u.state === 'cancelled' || u.state === 'failed') continue
    sum.size += u.size
    sum.sent += u.sent
    if (!isOver(u)) sum.open++
  }
  return sum
}

const RANKS: readonly Upload['state'][] = ['sends', 'failed', 'waits', 'cancelled', 'done']

/** Some of them: what is at work or failed first. */
export function mostWanted(list: readonly Upload[], most: number): Upload[] {
  const found: Upload[] = []
  for (const state of RANKS)
    for (const u of list) {
      if (found.length >= most) return found
      if (u.state === state) found.push(u)
    }
  return found
}
