// One screen: xterm with everything switched off that lets a program inside reach out of it. It never touches the
// clipboard or opens a link by itself, and asks nothing of the page but to draw.
import '@xterm/xterm/css/xterm.css'
import { FitAddon } from '@xterm/addon-fit'
import { SearchAddon } from '@xterm/addon-search'
import { Terminal as Xterm, type ITheme } from '@xterm/xterm'
import { nonce } from '../../../lib/nonce'
import { cleanTitle } from '../../../lib/safe-text'
import { Follow } from './follow'
import { keeperOf, refuseLinks } from './links'
import { Pump } from './pump'
import { Answers, cleanPaste, isTooMuch, linkOf, REPEATING, Tamer } from './tame'

const SCROLLBACK = 10_000
const TITLE_MS = 250
const BELL_MS = 1000

export interface ScreenListener {
  /** Typed, or an answer to a question of the program. */
  input(data: string): void
  size(rows: number, cols: number): void
  title(title: string): void
  bell(): void
  skipped(bytes: number): void
  /** Somebody wants to go where the program points. */
  link(url: URL): void
  found(index: number, count: number): void
  /** True: the page has used the key itself. */
  key(event: KeyboardEvent): boolean
}

const DARK: ITheme = {
  background: '#101418', foreground: '#d9dee4', cursor: '#d9dee4', cursorAccent: '#101418', selectionBackground: '#3b5b7f',
  black: '#1d242b', red: '#f0716b', green: '#7bc275', yellow: '#e0b35c', blue: '#6ea8e8', magenta: '#c792ea', cyan: '#5cc5c5', white: '#d9dee4',
  brightBlack: '#7d8995', brightRed: '#ff938d', brightGreen: '#9adb94', brightYellow: '#f2cd84', brightBlue: '#94c3f7', brightMagenta: '#dcb3f5', brightCyan: '#86dede', brightWhite: '#ffffff',
}

/** A terminal is dark in every theme; only how dark is the page's business. */
function theme(): ITheme {
  const background = getComputedStyle(document.documentElement).getPropertyValue('--terminal').trim()
  return /^#[0-9a-f]{6}$/i.test(background) ? { ...DARK, background, cursorAccent: background } : DARK
}

// Colours of single letters: xterm writes the attribute `style`, which our content security policy does not let through. The
// same goes by way of the object model, which it does. xterm takes no element of ours for this, so all spans do it.
HTMLSpanElement.prototype.setAttribute = function (key: string, value: string): void {
  if (key === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, key, value)
}

/** The document, as xterm sees it: its style sheets get the page's nonce. */
function documentFor(): Document {
  const create = (name: string): HTMLElement => {
    const made = document.createElement(name)
    if (made instanceof HTMLStyleElement) made.nonce = nonce()
    return made
  }
  return new Proxy(document, {
    get(target, key) {
      if (key === 'createElement') return create
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
}

export class Screen {
  readonly #term: Xterm
  readonly #fit = new FitAddon()
  readonly #search = new SearchAddon()
  readonly #pump: Pump
  readonly #follow: Follow
  readonly #answers = new Answers()
  readonly #on: ScreenListener
  #tamer = new Tamer()
  #timers = new Set<ReturnType<typeof setTimeout>>()
  #bellAt = 0
  #title: string | undefined

  constructor(place: HTMLElement, on: ScreenListener, fontSize: number) {
    this.#on = on
    this.#term = new Xterm({
      allowProposedApi: true, // the search marks what it finds
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      documentOverride: documentFor(),
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
      fontSize,
      linkHandler: {
        activate: (_event, uri) => {
          const url = linkOf(uri)
          if (url) on.link(url)
        },
      },
      macOptionIsMeta: true,
      minimumContrastRatio: 4.5,
      scrollback: SCROLLBACK,
      theme: theme(),
    })
    this.#term.loadAddon(this.#fit)
    this.#term.loadAddon(this.#search)
    this.#guard()
    this.#pump = new Pump({ write: (data, done) => this.#term.write(this.#tamer.tame(data), done) }, (bytes) => on.skipped(bytes))
    this.#term.onData((data) => {
      this.#follow.back()
      on.input(data)
    })
    this.#term.onResize(({ rows, cols }) => on.size(rows, cols))
    this.#term.onTitleChange((title) => this.#retitle(title))
    this.#term.onBell(() => this.#ring())
    this.#search.onDidChangeResults(({ resultIndex, resultCount }) => on.found(resultIndex, resultCount))
    this.#term.attachCustomKeyEventHandler((event) => !on.key(event))
    this.#term.open(place)
    this.#follow = new Follow(this.#term, place.querySelector('.xterm-viewport') ?? place)
    place.addEventListener('paste', this.#pasted, true)
  }

  /** Handlers that come before xterm's own: true ends the matter. */
  #guard(): void {
    const { parser } = this.#term
    for (const id of REPEATING) parser.registerCsiHandler(id, (params) => isTooMuch(params))
    for (const id of [{ final: 'c' }, { prefix: '>', final: 'c' }, { final: 'n' }, { prefix: '?', final: 'n' }, { intermediates: '$', final: 'p' }, { prefix: '?', intermediates: '$', final: 'p' }])
      parser.registerCsiHandler(id, () => this.#answers.refuse())
    parser.registerDcsHandler({ intermediates: '$', final: 'q' }, () => this.#answers.refuse())
    for (const colour of [4, 10, 11, 12]) parser.registerOscHandler(colour, (data) => data.includes('?') && this.#answers.refuse())
    parser.registerOscHandler(8, refuseLinks(keeperOf(this.#term)))
    parser.registerOscHandler(52, () => true) // the clipboard is the reader's
  }

  #later(ms: number, fn: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      fn()
    }, ms)
    this.#timers.add(timer)
  }

  #retitle(title: string): void {
    const waiting = this.#title !== undefined
    this.#title = title
    if (waiting) return
    this.#later(TITLE_MS, () => {
      const last = this.#title ?? ''
      this.#title = undefined
      this.#on.title(cleanTitle(last))
    })
  }

  #ring(): void {
    const now = performance.now()
    if (now - this.#bellAt < BELL_MS) return
    this.#bellAt = now
    this.#on.bell()
  }

  readonly #pasted = (event: ClipboardEvent): void => {
    const text = event.clipboardData?.getData('text/plain')
    event.preventDefault()
    event.stopPropagation()
    if (text) this.#onPaste(text)
  }

  #onPaste: (text: string) => void = (text) => this.paste(text)

  /** Who is asked before something is pasted. */
  set onPaste(fn: (text: string) => void) {
    this.#onPaste = fn
  }

  /** The program takes what is pasted for what it is, and does not run it line by line. */
  get takesPaste(): boolean {
    return this.#term.modes.bracketedPasteMode
  }

  paste(text: string): void {
    this.#term.paste(cleanPaste(text))
  }

  write(data: Uint8Array): void {
    this.#pump.push(data)
  }

  /** From here on, what is written is old, or new. */
  replaying(on: boolean): void {
    if (on) this.#answers.replaying = true
    else this.#pump.mark(() => (this.#answers.replaying = false))
  }

  get selection(): string {
    return this.#term.getSelection()
  }

  get size(): { rows: number; cols: number } {
    return { rows: this.#term.rows, cols: this.#term.cols }
  }

  /** All that it shows and has shown, as far as it is kept. */
  get text(): string {
    const { active } = this.#term.buffer
    const lines: string[] = []
    for (let i = 0; i < active.length; i++) lines.push(active.getLine(i)?.translateToString(true) ?? '')
    return lines.join('\n')
  }

  focus(): void {
    this.#term.focus()
  }

  /** As many rows and columns as there is room for. */
  fit(): void {
    if (!this.#term.element?.clientWidth) return // it cannot be seen now
    const room = this.#fit.proposeDimensions()
    if (!room || !Number.isFinite(room.cols) || !Number.isFinite(room.rows)) return
    this.#term.resize(Math.max(2, Math.min(1000, room.cols)), Math.max(1, Math.min(1000, room.rows)))
  }

  /** The page's theme has changed, or the size of letters. */
  look(fontSize: number): void {
    this.#term.options.theme = theme()
    if (this.#term.options.fontSize === fontSize) return
    this.#term.options.fontSize = fontSize
    this.fit()
  }

  find(text: string, direction: 'next' | 'previous', incremental = false): void {
    if (!text) return this.#search.clearDecorations()
    this.#follow.leave()
    const decorations = { matchOverviewRuler: '#c58a1e', activeMatchColorOverviewRuler: '#e0b35c', matchBackground: '#6b5320', activeMatchBackground: '#c58a1e' }
    if (direction === 'next') this.#search.findNext(text, { decorations, incremental })
    else this.#search.findPrevious(text, { decorations })
  }

  endFind(): void {
    this.#search.clearDecorations()
    this.#term.clearSelection()
  }

  dispose(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#pump.close()
    this.#term.element?.parentElement?.removeEventListener('paste', this.#pasted, true)
    this.#term.dispose()
  }
}
