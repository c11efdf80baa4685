// Old output: what a terminal had printed before anybody looked.

const NEWLINE = 10

/** What was printed before we came: up to `until`. If its beginning is cut off, so is its first line. */
export class Replay {
  #cut = false
  #on = false
  readonly #until: number
  readonly #tell: (on: boolean) => void

  constructor(until: number, tell: (on: boolean) => void) {
    this.#until = until
    this.#tell = tell
  }

  begin(at: number): void {
    if (at >= this.#until) return
    this.#cut = at > 0
    this.#on = true
    this.#tell(true)
  }

  trim(data: Uint8Array): Uint8Array {
    if (!this.#cut) return data
    this.#cut = false
    const end = data.indexOf(NEWLINE)
    return end < 0 || end > 4096 ? data : data.subarray(end + 1)
  }

  passed(at: number): void {
    if (at >= this.#until) this.end()
  }

  end(): void {
    if (!this.#on) return
    this.#on = false
    this.#tell(false)
  }
}
