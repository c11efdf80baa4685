// A line that a run printed, as what it is: codes stand for what cannot be seen, and no line is more work than a page can do.
import '../../../style/odd-name.css'
import { useMemo } from 'preact/hooks'
import { pieces, type Piece } from '../../../lib/safe-text'

const PIECES_MAX = 100

/** Pieces of a line; those that are too many are only counted. */
export function linePieces(text: string, most = PIECES_MAX): Piece[] {
  const all = pieces(text.replaceAll('\t', '    ')).map((p) => (p.odd && p.text === '␠' ? { text: ' ', odd: false } : p))
  return all.length <= most ? all : [...all.slice(0, most), { text: `… and ${all.length - most} more pieces`, odd: true }]
}

export function Shown({ text }: { text: string }) {
  const all = useMemo(() => linePieces(text), [text])
  return <>{all.map((p, i) => (p.odd ? <span key={i} class="odd-piece">{p.text}</span> : p.text))}</>
}
