import { describe, expect, it } from 'vitest'
import { linePieces } from './shown'

describe('a line of output', () => {
  it('is itself, where nothing is odd', () => {
    expect(linePieces('plain')).toEqual([{ text: 'plain', odd: false }])
    expect(linePieces('')).toEqual([{ text: '', odd: false }])
    expect(linePieces('\ta ').map((p) => p.text).join('')).toBe('    a ')
  })

  it('is few pieces, however many control characters it has', () => {
    expect(linePieces('\u0001'.repeat(4000))).toEqual([{ text: 'U+0001 ×4000', odd: true }])
    const mixed = linePieces('\u0001\u0002'.repeat(2000))
    expect(mixed).toHaveLength(101)
    expect(mixed.at(-1)).toEqual({ text: '… and 3900 more pieces', odd: true })
    expect(linePieces('a\u0007'.repeat(2000))).toHaveLength(101)
  })
})
