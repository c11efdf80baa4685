// Stays at one terminal of a sandbox: attaches, and when the connection breaks attaches again from the byte where it was,
// for as long as the terminal is there. What is typed before the first connection is kept for a moment; what is typed while
// it is broken is not sent, and that is said.
import { StockadeError, StreamEnded, type Attachment, type RunEvent } from 'stockade-client'
import { Replay } from './replay'

export type LinkState =
  | 'connecting' // the first time, or anew with a newer token
  | 'open'
  | 'away' // it was open; tries again
  | 'ended' // the shell has ended
  | 'gone' // there is no such terminal any more
  | 'refused' // signed out, or not permitted any more

/** What is needed of a terminal. */
export interface Target {
  attach(from: { out?: number }): Promise<Attachment>
  /** Bytes that it has printed in all. */
  printed(): Promise<number>
  /** As whom it is attached now (a token); undefined: as nobody. */
  as?(): string | undefined
}

export interface LinkListener {
  data(bytes: Uint8Array): void
  /** Everything that was handed over since the last time this was true is old: the program does not wait for answers to it. */
  replaying(on: boolean): void
  state(state: LinkState, why?: unknown): void
  /** So many bytes are not kept any more. */
  lost(bytes: number): void
  /** What was typed last was not sent; maybe: or it was, and may not have arrived. */
  unsent(maybe: boolean): void
  ended(info: Record<string, unknown>): void
}

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 5000
const SEND_MAX = 32 << 10
const KEEP_MAX = 4 << 10 // of what is typed before it is there
const KEEP_MS = 10_000 // who typed something longer ago may not want it any more
const ATTACH_MS = 20_000

/** How long before the next attempt; a little different for everybody, or all come back at the same time. */
export function waitFor(attempt: number, random: () => number = Math.random): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(attempt, 10)) * (0.75 + random() / 2)
}

function isFinal(e: unknown): LinkState | undefined {
  if (e instanceof StockadeError) {
    if (e.status === 404 || e.code === 'NOT_FOUND') return 'gone'
    if (e.status === 401 || e.status === 403) return 'refused'
  }
  if (e instanceof StreamEnded && e.code === 1008) return 'refused'
  return undefined
}

export class Link {
  state: LinkState = 'connecting'
  #at: number | undefined // the next byte
  #attachment: Attachment | undefined
  #closed = false
  #attempt = 0
  #hurry: () => void = () => undefined
  #cut: () => void = () => undefined
  #size: [rows: number, cols: number] | undefined
  #typed: Uint8Array[] = [] // kept until it is there
  #typedAt = 0
  #sentAt = -Infinity
  /** When it was there last. */
  openedAt = 0
  readonly #target: Target
  readonly #on: LinkListener
  readonly #wait: (attempt: number) => number

  /** at: the byte to begin with; without it, what was shown last comes first. */
  constructor(target: Target, on: LinkListener, wait: (attempt: number) => number = waitFor, at?: number) {
    this.#at = at
    this.#target = target
    this.#on = on
    this.#wait = wait
  }

  /** Until it is closed, or the terminal has ended. */
  async run(): Promise<void> {
    while (!this.#closed) {
      const as = this.#target.as?.()
      let least = 0
      try {
        if (await this.#once()) return
      } catch (e) {
        this.#attachment = undefined
        const final = isFinal(e)
        if (final === 'refused' && !this.#closed && this.#isOther(as)) {
          this.#become('connecting')
          continue
        }
        if (final || this.#closed) return this.#become(final ?? this.state, e)
        if (this.state !== 'connecting') this.#become('away', e)
        if (e instanceof StockadeError) least = e.retryAfterMs ?? 0
      }
      await this.#pause(Math.max(least, this.#wait(this.#attempt++)))
    }
  }

  /** The session was renewed, or somebody signed in again: what was opened with the old token ends, and that is all. */
  #isOther(as: string | undefined): boolean {
    const now = this.#target.as?.()
    return now !== undefined && now !== as
  }

  /** Attaches once, and stays. True: it has ended. */
  async #once(): Promise<boolean> {
    const fresh = this.#at === undefined
    const timer = setTimeout(() => this.#cut(), ATTACH_MS)
    const [attachment, printed] = await this.#orCut(
      Promise.all([this.#target.attach(this.#at === undefined ? {} : { out: this.#at }), fresh ? this.#target.printed().catch(() => 0) : 0]),
      ([late]) => late.close(),
    ).finally(() => clearTimeout(timer))
    if (this.#closed) {
      attachment.close()
      return true
    }
    this.#attachment = attachment
    const replay = new Replay(fresh ? printed : 0, (on) => this.#on.replaying(on))
    const from = attachment[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { done, value } = await this.#orCut(from.next())
        if (done) break
        if (this.#closed) return true
        if (this.#take(value, replay)) return true
      }
    } finally {
      replay.end()
      attachment.close()
    }
    throw new StreamEnded('the connection is over')
  }

  /** Waits, unless that is cut short: a dead connection may take minutes to say so. late: what to do with it if it comes then. */
  #orCut<T>(what: Promise<T>, late: (value: T) => void = () => undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      let isCut = false
      this.#cut = () => {
        isCut = true
        reject(new StreamEnded('given up'))
      }
      what.then((value) => (isCut ? late(value) : resolve(value)), reject)
    })
  }

  #take(event: RunEvent, replay: Replay): boolean {
    if (event.kind === 'started') {
      const out = event.info['out']
      if (typeof out === 'number') {
        replay.begin(out)
        this.#at = out
      } else this.#at ??= 0
      this.#attempt = 0
      this.openedAt = Date.now()
      this.#become('open')
      this.#sendTyped()
      if (this.#size) void this.#attachment?.resize(...this.#size).catch(() => undefined)
    } else if (event.kind === 'lost') {
      const bytes = Number(event.info['bytes'] ?? 0)
      this.#at = (this.#at ?? 0) + bytes
      this.#on.lost(bytes)
    } else if (event.kind === 'exit') {
      replay.end()
      this.#on.ended(event.info)
      this.#become('ended')
      return true
    } else {
      this.#at = (this.#at ?? 0) + event.data.length
      const data = replay.trim(event.data)
      if (data.length) this.#on.data(data)
      replay.passed(this.#at)
    }
    return false
  }

  #become(state: LinkState, why?: unknown): void {
    if (this.#closed) return
    const isCut = state === 'away' && this.state === 'open'
    this.state = state
    this.#on.state(state, why)
    if (isCut && Date.now() - this.#sentAt < KEEP_MS) this.#on.unsent(true)
    if (state !== 'connecting' && state !== 'open' && this.#typed.length) {
      this.#typed = []
      this.#on.unsent(false)
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#hurry = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** The next byte that comes; undefined before anything came. */
  get at(): number | undefined {
    return this.#at
  }

  /** The network seems to be back: tries now. */
  nudge(): void {
    this.#hurry()
  }

  /** The connection may be dead though nobody closed it: another one, from the byte where it was. */
  again(): void {
    this.#cut()
    this.#hurry()
  }

  /** False: there is no connection, and nothing was sent, nor will it be. */
  send(data: string | Uint8Array): boolean {
    if (this.#closed) return false
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    if (this.state === 'connecting') return this.#keep(bytes)
    const to = this.#attachment
    if (this.state !== 'open' || !to) return false
    this.#sentAt = Date.now()
    const failed = (): void => this.#on.unsent(true)
    for (let at = 0; at < bytes.length; at += SEND_MAX) void to.send(bytes.subarray(at, at + SEND_MAX)).catch(failed)
    return true
  }

  #keep(bytes: Uint8Array): boolean {
    const now = Date.now()
    if (this.#typed.length && now - this.#typedAt > KEEP_MS) this.#typed = []
    if (this.#typed.reduce((sum, b) => sum + b.length, bytes.length) > KEEP_MAX) return false
    if (!this.#typed.length) this.#typedAt = now
    this.#typed.push(bytes)
    return true
  }

  #sendTyped(): void {
    const typed = this.#typed
    this.#typed = []
    if (!typed.length) return
    if (Date.now() - this.#typedAt > KEEP_MS) this.#on.unsent(false)
    else for (const bytes of typed) this.send(bytes)
  }

  resize(rows: number, cols: number): void {
    this.#size = [rows, cols]
    if (this.state === 'open') void this.#attachment?.resize(rows, cols).catch(() => undefined)
  }

  /** Leaves; the terminal goes on without us. */
  close(): void {
    this.#closed = true
    this.#attachment?.close()
    this.#cut()
    this.#hurry()
  }
}
