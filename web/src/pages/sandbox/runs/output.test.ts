import { describe, expect, it } from 'vitest'
import { OutputLog } from './output'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const shown = (log: OutputLog): string[] => log.lines.map((l) => (l.error ? '!' : '') + l.text)

describe('what a run prints', () => {
  it('becomes lines, also if it comes in parts', () => {
    const log = new OutputLog()
    log.add(bytes('one\ntw'), false)
    log.add(bytes('o\nthree'), false)
    log.add(bytes('wrong\n'), true)
    expect(shown(log)).toEqual(['one', 'two', '!wrong', 'three'])
  })
  it('has no sequences in it, also if they are cut in two', () => {
    const log = new OutputLog()
    log.add(bytes('\u001b[1;31mred\u001b[0m \u001b]0;title\u0007\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\\u001b(Bx\n'), false)
    log.add(bytes('a\u001b[3'), false)
    log.add(bytes('1mb\u001b]0;ti'), false)
    log.add(bytes('tle\u0007c\n'), false)
    expect(shown(log)).toEqual(['red linkx', 'abc'])
  })
  it('does not wait for ever for the end of a sequence', () => {
    const log = new OutputLog()
    log.add(bytes(`\u001b]0;${'x'.repeat(10_000)}`), false)
    log.add(bytes('\nafter\n'), false)
    expect(shown(log).at(-1)).toBe('after')
  })
  it('shows what a progress bar says last', () => {
    const log = new OutputLog()
    log.add(bytes('10%\r50%\r100%\r\n'), false)
    log.add(bytes('1\r2'), false)
    expect(shown(log)).toEqual(['100%', '2'])
  })
  it('has an end', () => {
    const log = new OutputLog(100)
    for (let i = 0; i < 50; i++) log.add(bytes('line\n'.repeat(1000)), false)
    log.add(bytes('last\n'), false)
    expect(log.lines).toHaveLength(100)
    expect(log.dropped + log.lines.length).toBe(50_001)
    expect(shown(log).at(-1)).toBe('last')
    const long = new OutputLog(10)
    long.add(bytes('x'.repeat(1_000_000)), false)
    expect(long.lines.length).toBeLessThanOrEqual(11)
    expect(Math.max(...long.lines.map((l) => l.text.length))).toBeLessThanOrEqual(4000)
  })
  it('keeps characters together', () => {
    const log = new OutputLog()
    const euro = bytes('€\n')
    log.add(euro.subarray(0, 1), false)
    log.add(euro.subarray(1), false)
    expect(shown(log)).toEqual(['€'])
  })
})
