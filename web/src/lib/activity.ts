// The events of one sandbox, from its beginning and as they come, in batches a few times a second. Reading is given up for a
// moment now and then, so that a flood does not freeze the page: the connection waits, nothing is lost.
import { signal } from '@preact/signals'
import { StockadeError, type Client, type LedgerEvent, type SandboxInfo } from 'stockade-client'
import { breather } from './breathe'
import { waitAsked } from './pace'
import { untilSignedIn } from './session'
import { untilVisible, whileVisible } from './visible'
import { Newest, weightOf } from './newest'
import { EventLog, type Filter, type Row } from './event-log'

const BATCH_MS = 150
const AGAIN_MS = 3_000

export type Follow = 'beginning' | 'live' | 'broken' | 'over'

export class Activity {
  readonly log: EventLog
  /** Counts up with each batch that is there to be shown. */
  readonly version = signal(0)
  readonly state = signal<Follow>('beginning')
  readonly error = signal<unknown>(undefined)
  /** What is shown stands still, while events are still gathered. */
  readonly paused = signal(false)
  readonly waiting = signal(0)
  readonly #held: Newest<LedgerEvent>
  #fresh: LedgerEvent[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #abort = new AbortController()

  constructor(readonly client: Client, readonly info: SandboxInfo, capacity?: number) {
    this.log = new EventLog(capacity)
    this.#held = new Newest(this.log.capacity, (event) => weightOf(event.data))
    void this.#read()
  }

  async #read(): Promise<void> {
    const { signal: stop } = this.#abort
    const breathe = breather()
    while (!stop.aborted) {
      // a page that nobody sees takes no connection from those that are seen
      await untilVisible(stop)
      const seen = whileVisible(stop)
      const onConnection = (there: boolean): void => void (stop.aborted || (this.state.value = there ? 'live' : 'broken'))
      const token = this.client.token
      let wait = AGAIN_MS
      try {
        for await (const event of this.client.sandboxes.of(this.info).events({ after: this.#last(), signal: seen.signal, onConnection, patienceMs: Infinity })) {
          this.#take(event)
          const turn = breathe()
          if (turn) await turn
        }
      } catch (e) {
        if (stop.aborted) return
        if (seen.signal.aborted) continue
        this.state.value = 'broken'
        this.error.value = e
        const status = e instanceof StockadeError ? e.status : 0
        if (status === 403 || status === 404) return // asking again changes nothing
        wait = status === 401 ? 0 : Math.max(AGAIN_MS, waitAsked(), e instanceof StockadeError ? (e.retryAfterMs ?? 0) : 0)
        if (status === 401) await untilSignedIn(stop, token)
      } finally {
        seen.end()
      }
      await new Promise((resolve) => setTimeout(resolve, wait))
    }
  }

  #last(): number {
    const newest = this.#fresh[this.#fresh.length - 1] ?? this.#held.last
    return newest?.seq ?? this.log.last?.seq ?? 0
  }

  #take(event: LedgerEvent): void {
    if (this.error.peek() !== undefined) this.error.value = undefined
    this.#fresh.push(event)
    this.#timer ??= setTimeout(() => this.#flush(), BATCH_MS)
  }

  #flush(): void {
    this.#timer = undefined
    const batch = this.#fresh
    this.#fresh = []
    if (this.paused.peek()) {
      for (const event of batch) this.#held.add(event)
      this.#held.trim()
      this.waiting.value += batch.length
      return
    }
    this.log.push(batch)
    this.version.value++
  }

  pause(on: boolean): void {
    this.paused.value = on
    if (on) return
    this.log.push(this.#held.items)
    this.#held.clear()
    this.waiting.value = 0
    this.version.value++
  }

  filter(to: Filter): void {
    this.log.setFilter(to)
    this.version.value++
  }

  get rows(): readonly Row[] {
    return this.log.view
  }

  end(): void {
    this.#abort.abort()
    clearTimeout(this.#timer)
    this.state.value = 'over'
  }
}
