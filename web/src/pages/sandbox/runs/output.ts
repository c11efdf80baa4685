// What a run has printed, as lines that can be shown: without the sequences that colour a terminal, bounded, and with a
// word for what was left out.

export interface OutputLine {
  readonly id: number
  readonly text: string
  readonly error: boolean
}

const LINES_MAX = 5000
const LINE_MAX = 4000 // characters; a longer one goes on in the next

// Sequences with an end: CSI, OSC and other strings, and single ones. What stays open at the end of a part waits.
const SEQUENCE = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-OQ-WYZ`-~\\]|\u009b[0-?]*[ -/]*[@-~]/g
const OPEN_END = /\u001b(?:\[[0-?]*[ -/]*|[\]PX^_][^\u0007\u001b]*\u001b?|[ -/]*)?$/
const OPEN_MAX = 4096

/** One of the two things that a run prints to. */
class Side {
  #decoder = new TextDecoder()
  #open = ''

  text(data: Uint8Array): string {
    let text = this.#open + this.#decoder.decode(data, { stream: true })
    this.#open = ''
    const open = OPEN_END.exec(text)
    if (open && open[0].length < OPEN_MAX) {
      this.#open = open[0]
      text = text.slice(0, open.index)
    }
    return text.replace(SEQUENCE, '')
  }
}

export class OutputLog {
  /** Lines that were left out at the beginning. */
  dropped = 0
  /** Bytes that are not kept any more by the server. */
  lost = 0
  #lines: OutputLine[] = []
  #sides = { out: new Side(), err: new Side() }
  #rest = { out: '', err: '' }
  #next = 1
  readonly #max: number

  constructor(max = LINES_MAX) {
    this.#max = max
  }

  add(data: Uint8Array, error: boolean): void {
    const side = error ? 'err' : 'out'
    const lines = (this.#rest[side] + this.#sides[side].text(data)).split('\n')
    this.#rest[side] = lines.pop() ?? ''
    for (const line of lines) this.#push(line, error)
    while (this.#rest[side].length > LINE_MAX) {
      this.#push(this.#rest[side].slice(0, LINE_MAX), error)
      this.#rest[side] = this.#rest[side].slice(LINE_MAX)
    }
    if (this.#lines.length > this.#max + 500) this.#trim()
  }

  #push(line: string, error: boolean): void {
    // a line that was drawn over is what it was last
    let text = line.endsWith('\r') ? line.slice(0, -1) : line
    text = text.slice(text.lastIndexOf('\r') + 1)
    for (let at = 0; at === 0 || at < text.length; at += LINE_MAX) this.#lines.push({ id: this.#next++, text: text.slice(at, at + LINE_MAX), error })
    if (this.#lines.length > 2 * this.#max + 1000) this.#trim()
  }

  #trim(): void {
    const over = this.#lines.length - this.#max
    if (over <= 0) return
    this.#lines = this.#lines.slice(over)
    this.dropped += over
  }

  /** As they are now, with what has no end yet. */
  get lines(): readonly OutputLine[] {
    this.#trim()
    const shown = [...this.#lines]
    if (this.#rest.out) shown.push({ id: -1, text: this.#rest.out.slice(this.#rest.out.lastIndexOf('\r') + 1), error: false })
    if (this.#rest.err) shown.push({ id: -2, text: this.#rest.err.slice(this.#rest.err.lastIndexOf('\r') + 1), error: true })
    return shown
  }

  get empty(): boolean {
    return this.#lines.length === 0 && !this.#rest.out && !this.#rest.err
  }

  get text(): string {
    return this.lines.map((l) => l.text).join('\n')
  }
}
