// The newest of what comes, in bounded memory: no more than so many, and no more than so many bytes together. Each knows
// about how much it takes.

export const BYTES_MAX = 32 << 20

/** About how many bytes a value takes. */
export function weightOf(value: unknown): number {
  if (typeof value === 'string') return 24 + 2 * value.length
  if (typeof value !== 'object' || value === null) return 8
  let sum = 40
  for (const [key, inside] of Object.entries(value)) sum += 2 * key.length + weightOf(inside)
  return sum
}

export class Newest<T> {
  #items: T[] = []
  #bytes = 0

  constructor(
    readonly capacity: number,
    private readonly weight: (item: T) => number,
    private readonly bytesMax = BYTES_MAX,
  ) {}

  get items(): readonly T[] {
    return this.#items
  }

  get last(): T | undefined {
    return this.#items[this.#items.length - 1]
  }

  /** Call trim() when a batch is in. */
  add(item: T): void {
    this.#items.push(item)
    this.#bytes += this.weight(item)
  }

  /** By a quarter at a time, so that it costs nothing on average. Returns how many are let go of. */
  trim(): number {
    if (this.#items.length <= this.capacity * 1.25 && this.#bytes <= this.bytesMax) return 0
    const before = this.#items.length
    let from = before
    let sum = 0
    for (; from > 0 && before - from < this.capacity; from--) {
      const more = this.weight(this.#items[from - 1] as T)
      if (sum + more > this.bytesMax * 0.75) break
      sum += more
    }
    this.#items = this.#items.slice(from)
    this.#bytes = sum
    return from
  }

  clear(): void {
    this.#items = []
    this.#bytes = 0
  }
}
