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

  /** viewport: what scrolls; xterm listens to it already. everywhere: where a pointer that left the terminal is let go. */
  constructor(term: Terminal, viewport: EventTarget, now: () => number = () => performance.now(), everywhere: EventTarget = window) {
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
    // who selects may leave the terminal on the way, that scrolls it; of a scroll bar that is let go browsers may say nothing
    const release = (): void => void (this.#pressed = false)
    const press = (): void => {
      this.#pressed = true
      for (const kind of ['pointerup', 'pointercancel']) everywhere.addEventListener(kind, release, { capture: true, once: true })
    }
    place.addEventListener('pointerdown', press, { capture: true })
    place.addEventListener('pointermove', (event) => (event as PointerEvent).buttons === 0 && release(), { capture: true, passive: true })
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
