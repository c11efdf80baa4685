// Between what a terminal prints and the screen: a bounded queue. The screen takes what it can draw; if a program prints
// faster than that, the oldest bytes that nobody has seen yet are left out, and counted. Memory has an end, and the page
// stays alive.

const QUEUE_MAX = 4 << 20
const PIECE_MAX = 64 << 10 // at a time: between two of them the page can do something else
const AHEAD_MAX = 256 << 10 // handed to the screen and not drawn yet

/** CAN ends a sequence that was cut in two; then plain letters. */
const AFTER_GAP = new Uint8Array([0x18, 0x1b, 0x5b, 0x30, 0x6d])

export interface Sink {
  /** Draws it, some time; done is called afterwards. */
  write(data: Uint8Array, done: () => void): void
}

type Item = { data: Uint8Array } | { mark: () => void }

export class Pump {
  /** Bytes that were left out in all. */
  skipped = 0
  #queue: Item[] = []
  #queued = 0
  #ahead = 0
  #gap = false
  #closed = false
  readonly #sink: Sink
  readonly #onSkip: (bytes: number) => void
  readonly #queueMax: number

  constructor(sink: Sink, onSkip: (bytes: number) => void = () => undefined, queueMax = QUEUE_MAX) {
    this.#sink = sink
    this.#onSkip = onSkip
    this.#queueMax = queueMax
  }

  /** Bytes that wait. */
  get queued(): number {
    return this.#queued
  }

  push(data: Uint8Array): void {
    if (this.#closed || data.length === 0) return
    this.#queue.push({ data })
    this.#queued += data.length
    if (this.#queued > this.#queueMax) this.#skip()
    this.#drain()
  }

  /** Calls fn once everything before it is on the screen. Marks are never left out. */
  mark(fn: () => void): void {
    if (this.#closed) return
    this.#queue.push({ mark: fn })
    this.#drain()
  }

  close(): void {
    this.#closed = true
    this.#queue = []
    this.#queued = 0
  }

  /** Down to half, from the oldest on. */
  #skip(): void {
    let left = 0
    const kept: Item[] = []
    for (const item of this.#queue) {
      if ('mark' in item) {
        kept.push(item)
        continue
      }
      const surplus = this.#queued - left - (this.#queueMax >> 1)
      if (surplus <= 0) {
        kept.push(item)
        continue
      }
      const drop = Math.min(item.data.length, surplus)
      left += drop
      if (drop < item.data.length) kept.push({ data: item.data.subarray(drop) })
    }
    this.#queue = kept
    this.#queued -= left
    this.skipped += left
    this.#gap = true
    this.#onSkip(left)
  }

  #drain(): void {
    while (!this.#closed && this.#ahead < AHEAD_MAX) {
      const next = this.#queue[0]
      if (!next) return
      if ('mark' in next) {
        this.#queue.shift()
        this.#hand(new Uint8Array(0), next.mark)
        continue
      }
      if (this.#gap) {
        this.#gap = false
        this.#hand(AFTER_GAP)
      }
      if (next.data.length <= PIECE_MAX) this.#queue.shift()
      else this.#queue[0] = { data: next.data.subarray(PIECE_MAX) }
      const piece = next.data.subarray(0, PIECE_MAX)
      this.#queued -= piece.length
      this.#hand(piece)
    }
  }

  #hand(data: Uint8Array, then?: () => void): void {
    const cost = data.length + 1
    this.#ahead += cost
    this.#sink.write(data, () => {
      this.#ahead -= cost
      then?.()
      this.#drain()
    })
  }
}
