import { describe, expect, it } from 'vitest'
import { ago, bytes, count, dateTime, duration, isTime, nameOf, shortAddress, stateMeans, stateTone, stateWord } from './words'

describe('words', () => {
  it('says sizes', () => {
    expect([0, 1023, 1024, 1536, 10 * 1024 ** 2, 150 * 1024 ** 3].map(bytes)).toEqual(['0 B', '1023 B', '1 KiB', '1.5 KiB', '10 MiB', '150 GiB'])
    expect(bytes(-5)).toBe('0 B')
    expect(bytes(2 ** 60)).toBe('1024 PiB')
  })

  it('says how long', () => {
    expect([850, 4200, 59_999, 60_000, 185_000, 7_800_000, 273_600_000].map(duration)).toEqual(['850 ms', '4.2 s', '59 s', '1 min', '3 min 5 s', '2 h 10 min', '3 d 4 h'])
  })

  it('says when', () => {
    const now = Date.UTC(2026, 10, 16, 8)
    expect([0, 4, 30, 90, 7200, 86_400 * 3].map((s) => ago(now - s * 1000, now))).toEqual(['just now', 'just now', '30 s ago', '1 min ago', '2 h ago', '3 d ago'])
    expect(ago(now - 86_400_000 * 30, now)).toBe('2026-10-17')
    expect(dateTime(now)).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
  })

  it('has a word for times that are none', () => {
    for (const odd of [99_999_999_999_999_000, -9e15, NaN, Infinity]) {
      expect(isTime(odd)).toBe(false)
      expect(ago(odd, Date.now())).toBe('unknown time')
      expect(dateTime(odd)).toBe('unknown time')
    }
    expect(ago(-8.64e15, Date.now())).toMatch(/^-271821/)
  })

  it('counts', () => {
    expect([count(1, 'thing'), count(2, 'thing'), count(1234, 'sandbox', 'sandboxes')]).toEqual(['1 thing', '2 things', '1,234 sandboxes'])
  })

  it('names states, also those of a newer server', () => {
    expect(stateWord('running')).toBe('Running')
    expect(stateTone('quarantined')).toBe('bad')
    expect(stateWord('dreaming' as never)).toBe('dreaming')
    expect(stateTone('dreaming' as never)).toBe('plain')
    expect(stateMeans({ state: 'failed', reason: 'the disk was lost', persistent: true })).toContain('the disk was lost')
    expect(stateMeans({ state: 'running', reason: '', persistent: true })).toBe('')
    expect(stateMeans({ state: 'stopped', reason: '', persistent: true })).toContain('files are kept')
    expect(stateMeans({ state: 'stopped', reason: '', persistent: false })).toContain('files are gone')
  })

  it('names sandboxes and wallets', () => {
    expect(nameOf({ id: '0123456789abcdef', name: '' })).toBe('01234567')
    expect(nameOf({ id: '0123456789abcdef', name: 'mine' })).toBe('mine')
    expect(shortAddress('0x00112233445566778899aabbccddeeff00112233')).toBe('0x0011…2233')
    expect(shortAddress('uid:0')).toBe('uid:0')
  })
})
