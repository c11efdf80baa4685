// What a hostile program prints, made harmless for a page that draws it: letters with thousands of marks on top of them,
// and sequences that ask for more work than any screen has lines. Everything else stays as it is.

const MARKS_MAX = 16 // on one letter; scripts that stack them need a handful
const REPEAT_MAX = 10_000 // more lines or columns than any screen has

// What has no width and piles up in one cell: marks, joiners, selectors, the second halves of Hangul syllables.
const MARK = /[\p{M}\p{Cf}\u1160-\u11ff]/u
const MARKS = new RegExp(`${MARK.source}+`, 'gu')

/** Cuts piles of marks, also those that come in several parts. */
export class Tamer {
  #decoder = new TextDecoder()
  #pile = 0 // marks at the end of what came before

  tame(data: Uint8Array): string {
    const text = this.#decoder.decode(data, { stream: true })
    if (!MARK.test(text)) {
      if (text) this.#pile = 0
      return text
    }
    let last = 0
    const tamed = text.replace(MARKS, (pile, at: number) => {
      const before = at === 0 ? this.#pile : 0
      const letters = Array.from(pile)
      if (at + pile.length === text.length) last = before + letters.length
      return letters.slice(0, Math.max(0, MARKS_MAX - before)).join('')
    })
    this.#pile = last
    return tamed
  }
}

/** Sequences whose first number says how often something is done: [intermediates, final]. */
export const REPEATING: { intermediates?: string; final: string }[] = [
  ...['@', 'I', 'L', 'M', 'P', 'S', 'T', 'Z', 'b'].map((final) => ({ final })),
  ...['@', 'A'].map((final) => ({ intermediates: ' ', final })),
  ...['}', '~'].map((final) => ({ intermediates: "'", final })),
]

export function isTooMuch(params: (number | number[])[]): boolean {
  return params.some((p) => typeof p === 'number' && p > REPEAT_MAX)
}

/** Questions of a program to its terminal are answered, but not more than so many in a second, and never old ones. */
export class Answers {
  replaying = false
  #second = 0
  #count = 0
  readonly #most: number
  readonly #now: () => number

  constructor(most = 50, now: () => number = () => performance.now()) {
    this.#most = most
    this.#now = now
  }

  /** Whether the next question is to be left without an answer. */
  refuse(): boolean {
    if (this.replaying) return true
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#count = 0
    }
    return ++this.#count > this.#most
  }
}

/** What is pasted is typed: nothing in it may be a key that nobody pressed. */
export function cleanPaste(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')
}

/** A link that a program printed: only what a browser opens as a page. */
export function linkOf(uri: string): URL | null {
  try {
    const url = new URL(uri)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : null
  } catch {
    return null
  }
}
