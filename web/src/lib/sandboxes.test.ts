import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createSandbox, listing, loadSandboxes, notFreshSince, refreshSandbox, sandboxes, stopSandbox } from './sandboxes'
import { client, ended, session, type Session } from './session'
import { serverNow } from './clock'
import { waitAsked } from './pace'

const me: Session = { token: 't', owner: 'me', address: '', operator: false, expires_at_ms: 9e15, lasts_ms: 0, final: false }
const info = (id: string, state = 'running') => ({ id, name: id, owner: 'me', state, created_ms: 1, persistent: true })

interface Asked {
  what: string
  body: Record<string, unknown>
  authorization: string | null
  answer: (body: unknown, status?: number, headers?: Record<string, string>) => Promise<void>
  fail: () => void
}

let asked: Asked[] = []
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve))
const last = (): Asked => asked[asked.length - 1]!

beforeEach(() => {
  asked = []
  sandboxes.value = new Map()
  session.value = me
  ended.value = false
  vi.stubGlobal('location', { origin: 'http://here.test' })
  vi.stubGlobal('fetch', (url: string, init: RequestInit) =>
    new Promise<Response>((resolve, reject) => {
      asked.push({
        what: `${init.method} ${new URL(url).pathname}`,
        body: JSON.parse(String(init.body ?? '{}')) as Record<string, unknown>,
        authorization: new Headers(init.headers).get('Authorization'),
        answer: async (body, status = 200, headers = {}) => {
          resolve(new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } }))
          await turn()
          await turn()
        },
        fail: () => reject(new TypeError('fetch failed')),
      })
    }))
})
afterEach(() => vi.unstubAllGlobals())

describe('the list of sandboxes', () => {
  it('keeps what was made after it was asked for', async () => {
    const loading = loadSandboxes()
    const list = last()
    const made = createSandbox({ profile: 'low' })
    await last().answer(info('new'))
    await made
    await list.answer({ sandboxes: [info('old')], next_cursor: null })
    expect(await loading).toBe(true)
    expect([...sandboxes.value.keys()].sort()).toEqual(['new', 'old'])
  })
  it('is asked for once more by those who came while it was under way', async () => {
    const first = loadSandboxes()
    const second = loadSandboxes()
    expect(loadSandboxes()).toBe(second)
    expect(asked).toHaveLength(1)
    await asked[0]!.answer({ sandboxes: [], next_cursor: null })
    await first
    await turn()
    expect(asked).toHaveLength(2)
    await asked[1]!.answer({ sandboxes: [info('a')], next_cursor: null })
    await second
    expect(sandboxes.value.has('a')).toBe(true)
  })
  it('does not bring back what is gone, nor an older state', async () => {
    sandboxes.value = new Map([['a', info('a') as never]])
    const loading = loadSandboxes()
    const list = last()
    const gone = refreshSandbox('a')
    await last().answer({ error: 'no', code: 'NOT_FOUND' }, 404)
    expect(await gone).toBeUndefined()
    await list.answer({ sandboxes: [info('a')], next_cursor: null })
    await loading
    expect(sandboxes.value.has('a')).toBe(false)
  })
  it('has what only a single one tells, whichever answer comes first', async () => {
    const one = refreshSandbox('b')
    const single = last()
    const loading = loadSandboxes()
    await last().answer({ sandboxes: [info('b', 'stopped')], next_cursor: null })
    await loading
    await single.answer({ ...info('b'), cwd: '/home' })
    await one
    expect(sandboxes.value.get('b')).toMatchObject({ state: 'stopped', cwd: '/home' })
  })
  it('says since when it is not fresh, and slows down when it is asked to', async () => {
    const first = loadSandboxes()
    await last().answer({ sandboxes: [], next_cursor: null }, 200, { date: 'Mon, 16 Nov 2026 09:00:00 GMT' })
    await first
    expect(serverNow()).toBeDefined()
    expect(listing.value.state).toBe('ready')
    const second = loadSandboxes()
    await last().answer({ error: 'slower', code: 'RATE_LIMITED' }, 429, { 'retry-after': '5' })
    expect(await second).toBe(false)
    expect(notFreshSince.value).toBeDefined()
    expect(waitAsked()).toBeGreaterThan(3_000)
    const third = loadSandboxes()
    await last().answer({ sandboxes: [], next_cursor: null })
    await third
    expect(notFreshSince.value).toBeUndefined()
  })
})

describe('what is done', () => {
  it('goes with the same key again when the answer was lost', async () => {
    const first = createSandbox({ profile: 'low' })
    last().fail()
    await expect(first).rejects.toThrow('fetch failed')
    const key = last().body['key']
    expect(key).toMatch(/^[0-9a-f]{32}$/)
    const second = createSandbox({ profile: 'low' })
    expect(last().body['key']).toBe(key)
    await last().answer(info('c'))
    await second
    const third = createSandbox({ profile: 'low' })
    expect(last().body['key']).not.toBe(key)
    await last().answer(info('d'))
    await third
  })
  it('is another request once it is known how it is', async () => {
    const stop = stopSandbox(info('e') as never)
    const key = last().body['key']
    last().fail()
    await expect(stop).rejects.toThrow()
    expect(last().what).toBe('GET /api/sandboxes/e')
    await last().answer(info('e'))
    const again = stopSandbox(info('e') as never)
    expect(last().body['key']).not.toBe(key)
    await last().answer(info('e', 'stopped'))
    await again
    expect(sandboxes.value.get('e')?.state).toBe('stopped')
  })
  it('goes on with the same client and the newer token', async () => {
    const by = client()
    session.value = { ...me, token: 'newer' }
    expect(client()).toBe(by)
    const one = by.sandboxes.get('f')
    expect(last().authorization).toBe('Bearer newer')
    await last().answer(info('f'))
    await one
    session.value = { ...me, owner: 'you' }
    expect(client()).not.toBe(by)
  })
})
