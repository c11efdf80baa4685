// Stays with what is printed last, unless a person went elsewhere. When a program clears the screen and prints much at once,
// the browser moves the shorter page by itself, and xterm takes that for somebody who scrolled up: it would stay there.
import type { Terminal } from '@xterm/xterm'

const COASTS_MS = 1000 // after the last turn of a wheel or the last touch

const SCROLL_KEYS = ['PageUp', 'PageDown', 'Home', 'End']

export class Follow {
  #isAway = false
  #handUntil = 0 // until then it is a person who scrolls
  #pressed = false
  readonly #term: Terminal
  readonly #now: () => number

  /** viewport: what scrolls; xterm listens to it already. */
  constructor(term: Terminal, viewport: EventTarget, now: () => number = () => performance.now()) {
    this.#term = term
    this.#now = now
    const hand = (): void => void (this.#handUntil = now() + COASTS_MS)
    const key = (event: Event): void => {
      const { key, shiftKey } = event as KeyboardEvent
      if (shiftKey && SCROLL_KEYS.includes(key)) hand()
    }
    const place: EventTarget = term.element ?? viewport
    for (const kind of ['wheel', 'touchmove']) place.addEventListener(kind, hand, { capture: true, passive: true })
    place.addEventListener('keydown', key, { capture: true })
    place.addEventListener('pointerdown', () => (this.#pressed = true), { capture: true })
    for (const kind of ['pointerup', 'pointercancel', 'pointerleave']) place.addEventListener(kind, () => (this.#pressed = false), { capture: true })
    viewport.addEventListener('scroll', () => this.#scrolled())
  }

  /** Somebody wants to see another place. */
  leave(): void {
    this.#isAway = true
  }

  /** Somebody typed, and is where that shows. */
  back(): void {
    this.#isAway = false
  }

  #scrolled(): void {
    const { viewportY, baseY } = this.#term.buffer.active
    if (this.#pressed || this.#now() < this.#handUntil) {
      this.#isAway = viewportY < baseY
      if (!this.#pressed) this.#handUntil = this.#now() + COASTS_MS
    } else if (viewportY >= baseY) this.#isAway = false
    else if (!this.#isAway) this.#term.scrollToBottom()
  }
}
