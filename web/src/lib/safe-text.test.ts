import { describe, expect, it } from 'vitest'
import { cleanTitle, pieces, shorten, visible, visibleJson } from './safe-text'

describe('names from a sandbox', () => {
  it('leaves ordinary names alone, whatever their script', () => {
    for (const name of ['notes.txt', 'größe.c', 'файл', '写真.png', 'שלום', '👩‍💻.md', 'a b'])
      expect(pieces(name)).toEqual([{ text: name, odd: false }])
  })
  it('shows line breaks, escapes and bells as codes', () => {
    expect(visible('a\nb')).toBe('a‹\\n›b')
    expect(visible('\u001b[31mred\u0007')).toBe('‹\\e›[31mred‹U+0007›')
    expect(visible('\u009b1m')).toBe('‹U+009B›1m')
  })
  it('does not let a name turn its own reading direction around', () => {
    expect(visible('photo\u202egnp.exe')).toBe('photo‹U+202E›gnp.exe')
    expect(pieces('\u2066x\u2069').map((p) => p.odd)).toEqual([true, false, true])
  })
  it('shows what has no width, and spaces at the ends', () => {
    expect(visible('pay\u200bpal')).toBe('pay‹U+200B›pal')
    expect(visible(' x ')).toBe('‹␠›x‹␠›')
    expect(visible(' ')).toBe('‹␠›')
    expect(visible('')).toBe('')
  })
  it('shows bytes that were no text, and halves of pairs', () => {
    expect(visible('\ufffd')).toBe('‹�›')
    expect(visible('\ud800x')).toBe('‹U+D800›x')
    expect(visible('\u{e0041}')).toBe('‹U+E0041›')
  })
  it('says how often, where one thing comes many times', () => {
    expect(pieces('\u0001'.repeat(4000))).toEqual([{ text: 'U+0001 ×4000', odd: true }])
    expect(visible('a\n\nb\n')).toBe('a‹\\n ×2›b‹\\n›')
    expect(visible('\u0001\u0002\u0001')).toBe('‹U+0001›‹U+0002›‹U+0001›')
    expect(visible('\u0001x\u0001')).toBe('‹U+0001›x‹U+0001›')
  })
  it('writes JSON that reads as what it is, and is the same', () => {
    const value = { path: 'a\u202eb\u200b\u{e0041}\n"\u0007', list: [1] }
    const shown = visibleJson(JSON.stringify(value, null, 2))
    expect(shown).toContain('a\\u202eb\\u200b')
    expect(shown).not.toMatch(/[\u202e\u200b]/)
    expect(JSON.parse(shown)).toEqual(value)
  })
  it('keeps markup as the text that it is', () => {
    expect(visible('<img src=x onerror=alert(1)>')).toBe('<img src=x onerror=alert(1)>')
  })
  it('cuts long names in the middle', () => {
    expect(shorten('abcdefghij', 5)).toBe('ab…ij')
    expect(Array.from(visible('x'.repeat(255), 40))).toHaveLength(40)
    expect(shorten('👩👩👩👩', 3)).toBe('👩…👩')
  })
})

describe('titles of programs', () => {
  it('are one short line', () => {
    expect(cleanTitle('  vim\n\u001b]0;x\u0007 <b>  ')).toBe('vim ]0;x <b>')
    expect(Array.from(cleanTitle('A'.repeat(100_000)))).toHaveLength(60)
    expect(cleanTitle('\u202eevil')).toBe('evil')
  })
})
