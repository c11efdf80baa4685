import type { LedgerEvent } from 'stockade-client'
import { describe, expect, it } from 'vitest'
import { EventLog, NO_FILTER, rowOf } from './event-log'
import { eventWords } from './event-words'

const event = (seq: number, kind = 'net.use', data: Record<string, unknown> = { host: `h${seq}.test`, port: 443, count: 1, sent: 1, received: 2 }): LedgerEvent => ({
  seq,
  kind,
  data: { seq, time: '2026-01-02T03:04:05.678901Z', sandbox: '0123456789abcdef', actor: 'gate', kind, data },
})
const many = (from: number, count: number, kind?: string): LedgerEvent[] => Array.from({ length: count }, (_, i) => event(from + i, kind))

describe('the log of events', () => {
  it('keeps the newest, in order, and says how many it let go of', () => {
    const log = new EventLog(100)
    for (let i = 0; i < 50; i++) log.push(many(1 + i * 20, 20))
    expect(log.total).toBe(1000)
    expect(log.size).toBeGreaterThanOrEqual(100)
    expect(log.size).toBeLessThanOrEqual(125)
    expect(log.dropped).toBe(1000 - log.size)
    const seqs = log.view.map((r) => r.seq)
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b))
    expect(seqs[seqs.length - 1]).toBe(1000)
    expect(log.view.length).toBe(log.size)
  })

  it('takes none twice after a reconnect', () => {
    const log = new EventLog()
    expect(log.push(many(1, 10))).toBe(10)
    expect(log.push(many(6, 10))).toBe(5)
    expect(log.view.map((r) => r.seq)).toEqual(Array.from({ length: 15 }, (_, i) => i + 1))
  })

  it('filters what is there and what comes', () => {
    const log = new EventLog(10)
    log.push([event(1), event(2, 'net.deny', { host: 'evil.test', port: 80, reason: 'no-rule' }), event(3, 'run.end', { run: 1, reason: 'exited', status: 256 })])
    log.setFilter({ ...NO_FILTER, denialsOnly: true })
    expect(log.view.map((r) => r.seq)).toEqual([2])
    expect(log.push([event(4), event(5, 'dns.deny', { host: 'x.test', reason: 'no-rule' })])).toBe(1)
    expect(log.view.map((r) => r.seq)).toEqual([2, 5])
    log.setFilter({ ...NO_FILTER, kinds: new Set(['net']) })
    expect(log.view.map((r) => r.seq)).toEqual([1, 2, 4])
    log.setFilter({ ...NO_FILTER, kinds: new Set(['net.deny', 'run']) })
    expect(log.view.map((r) => r.seq)).toEqual([2, 3])
    log.setFilter({ ...NO_FILTER, text: 'EVIL' })
    expect(log.view.map((r) => r.seq)).toEqual([2])
    log.push(many(6, 30))
    expect(log.view).toEqual([]) // it is not kept any more, and so not shown
    log.setFilter(NO_FILTER)
    expect(log.view.length).toBe(log.size)
    expect(log.denials).toBe(2)
    expect(log.families.get('net')).toBe(33)
  })

  it('is quick enough for ten thousand a minute, many times over', () => {
    const log = new EventLog()
    const began = performance.now()
    for (let i = 0; i < 100; i++) log.push(many(1 + i * 1000, 1000))
    log.setFilter({ ...NO_FILTER, text: 'h99' })
    expect(log.total).toBe(100_000)
    expect(log.size).toBeLessThanOrEqual(25_000)
    expect(performance.now() - began).toBeLessThan(10_000)
  })

  it('has an end in bytes, too', () => {
    const log = new EventLog(20_000, 1 << 20)
    const path = `/${'x'.repeat(60_000)}`
    for (let i = 1; i <= 200; i++) log.push([event(i, 'file.write', { path })])
    expect(log.total).toBe(200)
    expect(log.size).toBeLessThan(10)
    expect(log.dropped).toBe(200 - log.size)
    expect(log.last?.seq).toBe(200)
    expect(log.view.length).toBe(log.size)
    expect(log.last?.text.length).toBeLessThanOrEqual(500)
    expect(log.last?.data['path']).toBe(path) // whole, for whoever opens it
  })

  it('does not let a sandbox turn its sentences around, or hide something in them', () => {
    const text = (kind: string, data: Record<string, unknown>): string => rowOf(event(1, kind, data)).text
    expect(text('net.deny', { host: 'a.test', port: 80, method: 'GET', path: '/x\u202etxt.cod\u2066' })).toBe('Refused GET a.test:80/x‹U+202E›txt.cod‹U+2066›')
    expect(text('file.write', { path: '/a\nFile removed: /b\u200b' })).toBe('File written: /a‹\\n›File removed: /b‹U+200B›')
    expect(text('run.start', { run: 1, command: ['/bin/sh', '-c', 'a\u001b[2K'] })).toBe('Run 1: a‹\\e›[2K')
    expect(text('brand.new', { odd: '\u202e' })).toBe('brand.new {"odd":"‹U+202E›"}')
    expect(rowOf({ seq: 1, kind: 'x', data: { actor: 'a\u202eb' } }).actor).toBe('a‹U+202E›b')
  })

  it('takes a row that makes no sense for what it is', () => {
    expect(rowOf({ seq: 1, kind: 'x.y', data: {} })).toMatchObject({ at: 0, actor: '', text: 'x.y', denied: false })
    expect(rowOf({ seq: 1, kind: 'net.deny', data: { data: 'text' } }).text).toBe('Refused an address')
  })
})

describe('events in words', () => {
  it('say what happened', () => {
    expect(eventWords('run.end', { run: 1, reason: 'exited', status: 14336 })).toBe('Run 1 ended with 56')
    expect(eventWords('run.end', { run: 1, reason: 'exited', status: 9 })).toBe('Run 1 was ended by signal 9')
    expect(eventWords('run.end', { run: 2, reason: 'time' })).toBe('Run 2 ended: time')
    expect(eventWords('run.start', { run: 1, command: ['/bin/sh', '-lc', 'echo hi'] })).toBe('Run 1: echo hi')
    expect(eventWords('run.start', { run: 1, command: ['ls', '-l'] })).toBe('Run 1: ls -l')
    expect(eventWords('net.use', { host: 'a.test', port: 443, count: 2, sent: 100, received: 2048 })).toBe('Reached a.test:443: 100 B out, 2 KiB in (2 times)')
    expect(eventWords('net.deny', { host: 'a.test', port: 80, method: 'GET', path: '/x' })).toBe('Refused GET a.test:80/x')
    expect(eventWords('sandbox.policy', { allow: [] })).toBe('May reach from now on: nothing')
  })
  it('keep markup as text, and take any shape', () => {
    expect(eventWords('file.write', { path: '<img src=x onerror=alert(1)>' })).toBe('File written: <img src=x onerror=alert(1)>')
    expect(eventWords('brand.new', { a: 1 })).toBe('brand.new {"a":1}')
    expect(eventWords('constructor', {})).toBe('constructor')
    for (const odd of [{ command: 7 }, { command: [null, {}] }, { host: {} }, { allow: 'x' }, { status: 'x' }])
      for (const kind of ['run.start', 'run.end', 'net.deny', 'net.use', 'sandbox.policy']) expect(() => eventWords(kind, odd)).not.toThrow()
  })
})
