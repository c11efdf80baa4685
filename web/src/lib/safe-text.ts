// Text that comes from a sandbox, made visible: names with line breaks, controls, or characters that turn the reading
// direction around are shown as what they are. Nothing here is ever used to address a file again.

/** A piece of a text: as it is, or the code of something that cannot be seen. */
export interface Piece {
  text: string
  odd: boolean
}

// Controls, what turns the direction, what has no width, what stands for bytes that were no text, and lone halves of
// pairs. Variation selectors and the joiner of emoji stay as they are.
const ODD =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffd]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g

const WORDS: Record<number, string> = { 9: '\\t', 10: '\\n', 13: '\\r', 27: '\\e', 0xfffd: '�' }

function wordFor(odd: string): string {
  const code = odd.codePointAt(0) ?? 0
  return WORDS[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
}

/** The same thing many times over is one piece, with how often. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = []
  let at = 0
  let times = 1
  let before = ''
  for (const match of text.matchAll(ODD)) {
    const last = found[found.length - 1]
    if (match[0] === before && match.index === at && last) last.text = `${wordFor(before)} ×${++times}`
    else {
      if (match.index > at) found.push({ text: text.slice(at, match.index), odd: false })
      found.push({ text: wordFor(match[0]), odd: true })
      before = match[0]
      times = 1
    }
    at = match.index + match[0].length
  }
  if (at < text.length || found.length === 0) found.push({ text: text.slice(at), odd: false })
  // spaces at the ends cannot be seen either
  const first = found[0]
  if (first && !first.odd && /^\s/.test(first.text)) found.unshift({ text: '␠', odd: true }), (first.text = first.text.slice(1))
  const last = found[found.length - 1]
  if (last && !last.odd && /\s$/.test(last.text)) (last.text = last.text.slice(0, -1)), found.push({ text: '␠', odd: true })
  return found.filter((piece, i) => piece.text !== '' || (i === 0 && found.length === 1))
}

/** The same as one text, for titles, labels and dialogs. */
export function visible(text: string, limit = 300): string {
  if (text.length <= limit && text.search(ODD) < 0 && text.trim() === text) return text
  const few = text.length > 4 * limit ? `${text.slice(0, 2 * limit)}…${text.slice(-2 * limit)}` : text // the middle goes anyway
  const shown = pieces(few)
    .map((piece) => (piece.odd ? `‹${piece.text}›` : piece.text))
    .join('')
  return shorten(shown, limit)
}

/** JSON in which everything odd is written as an escape: it reads as what it is, and is the same JSON. */
export function visibleJson(json: string): string {
  const escape = (odd: string): string => odd.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  return json.replace(ODD, (odd) => (odd === '\n' ? odd : escape(odd)))
}

/** The middle of a long text is left out: the end of a name matters as much as its beginning. */
export function shorten(text: string, limit: number): string {
  const letters = Array.from(text)
  if (letters.length <= limit) return text
  const head = Math.ceil((limit - 1) / 2)
  return `${letters.slice(0, head).join('')}…${letters.slice(letters.length - (limit - 1 - head)).join('')}`
}

/** What a program says that it is called: one line, without anything odd, and not long. */
export function cleanTitle(title: string, limit = 60): string {
  return shorten(title.slice(0, 4096).replace(ODD, ' ').replace(/\s+/g, ' ').trim(), limit)
}
