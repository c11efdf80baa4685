// After a break: counts what happened before the connection was there again, and says when all of it has come, which is
// when something newer comes, or nothing for a moment.
import type { LedgerEvent } from 'stockade-client'
import { serverNow } from './clock'

const QUIET_MS = 500
const LONGEST_MS = 10_000
const SLACK_MS = 1_000 // the server tells its clock in whole seconds, and an answer is under way for a while

export class CatchUp {
  #until: number | undefined // the moment of the return, of the server's clock
  #count = 0
  #known = false
  #quiet: ReturnType<typeof setTimeout> | undefined
  #longest: ReturnType<typeof setTimeout> | undefined
  readonly #done: (missed: number | undefined) => void
  readonly #clock: () => number | undefined
  readonly #quietMs: number

  constructor(done: (missed: number | undefined) => void, clock: () => number | undefined = serverNow, quietMs = QUIET_MS) {
    this.#done = done
    this.#clock = clock
    this.#quietMs = quietMs
  }

  /** The connection is there again. known: it goes on from where it was, so that what was missed comes. */
  begin(known: boolean): void {
    const before = this.#until === undefined ? 0 : this.#count // it broke again while this went on
    this.end()
    this.#until = (this.#clock() ?? Infinity) + SLACK_MS
    this.#known = known
    this.#count = before
    this.#longest = setTimeout(() => this.#finish(), LONGEST_MS)
    this.#wait()
  }

  saw(event: LedgerEvent): void {
    if (this.#until === undefined) return
    const at = Date.parse(String(event.data['time'] ?? ''))
    if (at >= this.#until) return this.#finish()
    this.#count++
    this.#wait()
  }

  end(): void {
    clearTimeout(this.#quiet)
    clearTimeout(this.#longest)
    this.#until = undefined
    this.#count = 0
  }

  #wait(): void {
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => this.#finish(), this.#quietMs)
  }

  #finish(): void {
    const found = this.#known ? this.#count : undefined
    this.end()
    this.#done(found)
  }
}
