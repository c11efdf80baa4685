import { describe, expect, it } from 'vitest'
import { Answers, cleanPaste, isTooMuch, linkOf, Tamer } from './tame'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('what a hostile program prints', () => {
  it('leaves text of all scripts alone', () => {
    for (const text of ['plain', 'é ñ ü', 'e\u0301', 'हिन्दी', 'ก็ที่', '👩‍👩‍👧‍👦', 'שָׁלוֹם', '\u001b[31mred\u001b[0m\r\n']) expect(new Tamer().tame(bytes(text))).toBe(text)
  })
  it('cuts piles of marks', () => {
    expect(new Tamer().tame(bytes(`e${'\u0301'.repeat(100_000)}x`))).toBe(`e${'\u0301'.repeat(16)}x`)
    expect(new Tamer().tame(bytes(`e${'\u200d'.repeat(100)}x`))).toHaveLength(18)
  })
  it('also if they come one by one', () => {
    const tamer = new Tamer()
    let seen = tamer.tame(bytes('e'))
    for (let i = 0; i < 1000; i++) seen += tamer.tame(bytes('\u0301'))
    expect(seen).toHaveLength(17)
    expect(tamer.tame(bytes('e\u0301'))).toBe('e\u0301')
    expect(tamer.tame(bytes('x'))).toBe('x')
    expect(tamer.tame(bytes('\u0301'))).toBe('\u0301')
  })
  it('puts characters together that come in two parts', () => {
    const tamer = new Tamer()
    const [a, b, c] = bytes('€')
    expect(tamer.tame(new Uint8Array([a!, b!])) + tamer.tame(new Uint8Array([c!]))).toBe('€')
  })
  it('knows what is more than any screen has', () => {
    expect(isTooMuch([2147483647])).toBe(true)
    expect(isTooMuch([1, 5000])).toBe(false)
    expect(isTooMuch([])).toBe(false)
    expect(isTooMuch([[99999999]])).toBe(false)
  })
})

describe('answers to a program', () => {
  it('are given, with an end, and not to old questions', () => {
    let now = 0
    const answers = new Answers(3, () => now)
    expect([1, 2, 3, 4, 5].map(() => answers.refuse())).toEqual([false, false, false, true, true])
    now = 1000
    expect(answers.refuse()).toBe(false)
    answers.replaying = true
    expect(answers.refuse()).toBe(true)
  })
})

describe('what is pasted', () => {
  it('has no keys in it', () => {
    expect(cleanPaste('ls\r\n\u001b[201~rm -rf /\u0003\tx\u009b')).toBe('ls\n[201~rm -rf /\tx')
  })
})

describe('links that a program prints', () => {
  it('lead to pages, or nowhere', () => {
    expect(linkOf('https://example.org/x')?.hostname).toBe('example.org')
    for (const bad of ['javascript:alert(1)', 'file:///etc/passwd', 'data:text/html,x', 'ssh://x', 'nonsense', '']) expect(linkOf(bad)).toBeNull()
  })
})
