import { describe, expect, it } from 'vitest'
import { hunks, lineDiff, type DiffLine } from './line-diff'

const apply = (lines: DiffLine[], side: 'gone' | 'new'): string[] => lines.filter((l) => l.kind === 'same' || l.kind === side).map((l) => l.text)
const signs = (before: string, after: string): string =>
  lineDiff(before, after)
    .lines.map((l) => ({ same: ' ', gone: '-', new: '+' })[l.kind] + l.text)
    .join('|')

describe('lines of two texts', () => {
  it('tells what came and went', () => {
    expect(signs('a\nb\nc\n', 'a\nx\nc\n')).toBe(' a|-b|+x| c')
    expect(signs('', 'a\n')).toBe('+a')
    expect(signs('a\n', '')).toBe('-a')
    expect(signs('', '')).toBe('')
    expect(signs('a\nb\nc\na\nb\nb\na', 'c\nb\na\nb\na\nc').match(/[-+]/g)).toHaveLength(5)
  })
  it('gives both texts back, whatever they are', () => {
    let seed = 7
    const random = (n: number): number => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n
    for (let turn = 0; turn < 300; turn++) {
      const text = (): string[] => Array.from({ length: random(30) }, () => 'abc'[random(3)]!)
      const [a, b] = [text(), text()]
      const { lines, coarse } = lineDiff(a.join('\n'), b.join('\n'))
      expect(coarse).toBe(false)
      expect(apply(lines, 'gone')).toEqual(a)
      expect(apply(lines, 'new')).toEqual(b)
    }
  })
  it('numbers the lines of both sides', () => {
    expect(lineDiff('a\nb', 'b').lines.map((l) => [l.before, l.after])).toEqual([[1, 0], [2, 1]])
  })
  it('gives up on texts that have nothing in common, and says so', () => {
    const many = (letter: string): string => Array.from({ length: 50 }, (_, i) => letter + i).join('\n')
    const { lines, coarse } = lineDiff(many('a'), many('b'), 10)
    expect(coarse).toBe(true)
    expect(apply(lines, 'gone')).toHaveLength(50)
    expect(apply(lines, 'new')).toHaveLength(50)
  })
  it('gives up on few edits that take steps without end', () => {
    // two lines in turn, and now and then one of them twice: whatever is left out or put in, it goes on for long, everywhere
    let seed = 7
    const random = (n: number): number => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % n
    const text = (): string => Array.from({ length: 600 }, (_, i) => (i % 2 ? 'b\na\n' : 'a\nb\n').repeat(50 + random(100))).join('')
    const [before, after] = [text(), text()]
    const { lines, coarse } = lineDiff(before, after)
    expect(coarse).toBe(true)
    expect(apply(lines, 'gone').join('\n')).toBe(before.trimEnd())
    expect(lineDiff('a\nb\nc', 'b\nc\na', 10, 100).coarse).toBe(false)
    expect(lineDiff('a\nb\nc', 'b\nc\na', 10, 3).coarse).toBe(true)
  })
  it('shows only the neighbourhood of changes', () => {
    const text = Array.from({ length: 40 }, (_, i) => `line ${i}`)
    const other = text.map((l, i) => (i === 20 ? 'else' : l))
    const shown = hunks(lineDiff(text.join('\n'), other.join('\n')).lines, 2)
    expect(shown[0]).toBe(18)
    expect(shown[shown.length - 1]).toBe(17)
    expect(shown).toHaveLength(2 + 2 + 2 + 2)
  })
})
