import { describe, expect, it } from 'vitest'
import { departed, lostByDeparture, onDeparture } from './departure'
import { due } from './renewal'
import { ended, parseSession, refused, session, untilSignedIn, type Session } from './session'

const kept: Session = { token: 't', owner: 'o', address: '0xA', operator: true, expires_at_ms: 7, lasts_ms: 60, final: false }

describe('the kept session', () => {
  it('is read if it is whole', () => {
    expect(parseSession(JSON.stringify(kept))).toEqual(kept)
    expect(parseSession(JSON.stringify({ ...kept, operator: 'yes' }))?.operator).toBe(false)
    expect(parseSession('{"token":"t","owner":"o","expires_at_ms":7}')).toEqual({ ...kept, address: '', operator: false, lasts_ms: 0 })
  })

  it('is nobody if it is anything else', () => {
    for (const text of [null, '', '{', '7', 'null', '[]', '{"token":7}', '{"token":"t"}']) expect(parseSession(text)).toBeNull()
  })

  it('ends when its own token is refused, and no older one', () => {
    session.value = kept
    refused('older')
    expect(ended.value).toBe(false)
    refused('t')
    expect(ended.value).toBe(true)
  })

  it('can be waited for', async () => {
    let there = false
    const waits = untilSignedIn(new AbortController().signal, 't').then(() => (there = true))
    ended.value = false // the same token again
    await Promise.resolve()
    expect(there).toBe(false)
    session.value = { ...kept, token: 'u' }
    await waits
    const stop = new AbortController()
    const never = untilSignedIn(stop.signal, 'u')
    stop.abort()
    await never
    session.value = null
  })
})

describe('renewal', () => {
  const hour = 3_600_000
  const fresh = { ...kept, expires_at_ms: 10 * hour, lasts_ms: hour }
  it('is due ten minutes before the end, of the clock of the server', () => {
    expect(due(fresh, undefined)).toBe('nothing')
    expect(due(fresh, 9 * hour)).toBe('nothing')
    expect(due(fresh, 10 * hour - 600_000)).toBe('renew')
    expect(due(fresh, 10 * hour)).toBe('over')
  })
  it('is due at half time where sessions are short', () => {
    const short = { ...kept, expires_at_ms: 20_000, lasts_ms: 20_000 }
    expect(due(short, 5_000)).toBe('nothing')
    expect(due(short, 10_000)).toBe('renew')
  })
  it('is not asked for again once it was refused', () => {
    expect(due({ ...fresh, final: true }, 10 * hour - 1)).toBe('nothing')
    expect(due({ ...fresh, final: true }, 10 * hour)).toBe('over')
  })
})

describe('a departure', () => {
  it('tells what would be lost, and drops it', () => {
    let uploads = 2
    const forget = onDeparture({ lost: () => (uploads ? `${uploads} uploads` : ''), drop: () => (uploads = 0) })
    expect(lostByDeparture()).toEqual(['2 uploads'])
    departed()
    expect(lostByDeparture()).toEqual([])
    forget()
  })
})
