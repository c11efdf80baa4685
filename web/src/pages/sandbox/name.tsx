// A name from a sandbox, shown as what it is: nothing in it is markup, turns the reading direction, or hides.
import '../../style/odd-name.css'
import { pieces, shorten, visible } from '../../lib/safe-text'

export function Name({ text, limit = 120 }: { text: string; limit?: number }) {
  const all = pieces(text)
  const plain = all.length === 1 && !all[0]?.odd
  return (
    <bdi class="odd-name" title={visible(text)}>
      {plain ? shorten(text, limit) : all.slice(0, limit).map((piece, i) => (piece.odd ? <span key={i} class="odd-piece">{piece.text}</span> : <bdi key={i}>{shorten(piece.text, limit)}</bdi>))}
    </bdi>
  )
}
