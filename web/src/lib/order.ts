// Which of two answers about the same things is newer. Answers overtake each other: a list that was asked for before
// something was made does not have it, and does not mean that it is gone.

export class Order {
  #clock = 0
  #floor = 0 // everything was asked for then
  #known = new Map<string, number>()

  /** This moment: before asking, or when something is known without asking. */
  now(): number {
    return ++this.#clock
  }

  /** More is known about it than what was asked for at that moment. */
  isNewer(id: string, at: number): boolean {
    return Math.max(this.#floor, this.#known.get(id) ?? 0) > at
  }

  /** Something asked for at that moment is known now; false: it is old already. */
  learn(id: string, at: number): boolean {
    if (this.isNewer(id, at)) return false
    this.#known.set(id, at)
    return true
  }

  /** All of them are known, as of that moment. */
  learnAll(at: number): void {
    this.#floor = Math.max(this.#floor, at)
    for (const [id, known] of this.#known) if (known <= this.#floor) this.#known.delete(id)
  }
}

/** A list as it was at some moment, with what was learned since about single ones, also that they are gone. */
export function mergeList<T>(now: ReadonlyMap<string, T>, found: ReadonlyMap<string, T>, isNewer: (id: string) => boolean): Map<string, T> {
  const next = new Map<string, T>()
  for (const [id, info] of found) {
    const known = now.get(id)
    if (!isNewer(id)) next.set(id, known ? { ...known, ...info } : info)
    else if (known) next.set(id, known)
  }
  for (const [id, info] of now) if (!found.has(id) && isNewer(id)) next.set(id, info)
  return next
}
