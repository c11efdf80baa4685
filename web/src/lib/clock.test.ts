import { describe, expect, it } from 'vitest'
import { noteDate, serverNow } from './clock'
import { notePace, waitAsked } from './pace'

describe('the clock of the server', () => {
  it('is known once it was told, however wrong our own is', () => {
    expect(serverNow()).toBeUndefined()
    noteDate('nonsense')
    noteDate(null)
    expect(serverNow()).toBeUndefined()
    const server = Date.parse('2026-11-16T09:00:00Z')
    noteDate('Mon, 16 Nov 2026 09:00:00 GMT', server + 3_600_000)
    expect(Math.abs(serverNow(server + 3_600_000 + 5_000)! - server - 5_000)).toBeLessThanOrEqual(500)
  })
})

describe('the pace', () => {
  it('is what the server asks for', () => {
    notePace(200, '30', 0)
    expect(waitAsked(0)).toBe(0)
    notePace(429, '7', 0)
    expect(waitAsked(1_000)).toBe(6_000)
    notePace(503, null, 1_000)
    expect(waitAsked(1_000)).toBe(6_000)
    expect(waitAsked(8_000)).toBe(0)
    notePace(429, '86400', 10_000)
    expect(waitAsked(10_000)).toBe(60_000)
  })
})
