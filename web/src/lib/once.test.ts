import { describe, expect, it } from 'vitest'
import { StockadeError } from 'stockade-client'
import { once, onceKey, settle } from './once'

describe('a request that is done once', () => {
  const failing = (keys: string[], e: unknown) => (key: string): Promise<never> => (keys.push(key), Promise.reject(e))
  const fine = (keys: string[]) => async (key: string): Promise<string> => (keys.push(key), 'made')

  it('has a word of its own', () => {
    expect(onceKey()).toMatch(/^[0-9a-f]{32}$/)
    expect(onceKey()).not.toBe(onceKey())
  })
  it('is the same one when its answer was lost', async () => {
    const keys: string[] = []
    await expect(once('a', { x: 1 }, failing(keys, new TypeError('fetch failed')))).rejects.toThrow()
    await expect(once('a', { x: 1 }, failing(keys, new StockadeError(503, 'BUSY', '')))).rejects.toThrow()
    expect(await once('a', { x: 1 }, fine(keys))).toBe('made')
    expect(new Set(keys).size).toBe(1)
    await once('a', { x: 1 }, fine(keys)) // done before: this is another one
    expect(new Set(keys).size).toBe(2)
  })
  it('is another one when something else is wished, or it was refused, or it is known how it is', async () => {
    const keys: string[] = []
    const lost = new TypeError('fetch failed')
    await once('b', 1, failing(keys, lost)).catch(() => undefined)
    await once('b', 2, failing(keys, lost)).catch(() => undefined)
    await once('b', 1, failing(keys, new StockadeError(409, 'CONFLICT', ''))).catch(() => undefined)
    await once('b', 1, failing(keys, lost)).catch(() => undefined)
    settle('b')
    await once('b', 1, fine(keys))
    await once('c', 1, fine(keys))
    expect(new Set(keys).size).toBe(6)
  })
})
