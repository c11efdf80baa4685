import { describe, expect, it } from 'vitest'
import { Newest, weightOf } from './newest'

describe('the newest of what comes', () => {
  it('are so many', () => {
    const kept = new Newest<number>(100, () => 1)
    let dropped = 0
    for (let i = 1; i <= 1000; i++) {
      kept.add(i)
      dropped += kept.trim()
    }
    expect(kept.items.length).toBeGreaterThanOrEqual(100)
    expect(kept.items.length).toBeLessThanOrEqual(125)
    expect(dropped + kept.items.length).toBe(1000)
    expect(kept.last).toBe(1000)
  })

  it('and so many bytes', () => {
    const kept = new Newest<number>(100, (n) => n, 100)
    for (const n of [10, 20, 30, 40]) kept.add(n)
    expect(kept.trim()).toBe(0)
    kept.add(25)
    expect(kept.trim()).toBe(3)
    expect(kept.items).toEqual([40, 25])
    kept.add(500) // alone too much
    kept.trim()
    expect(kept.items).toEqual([])
    kept.add(1)
    expect(kept.trim()).toBe(0)
    kept.clear()
    expect(kept.items).toEqual([])
  })

  it('weigh what they are', () => {
    expect(weightOf('x'.repeat(1000))).toBeGreaterThan(2000)
    expect(weightOf({ a: ['x'.repeat(1000)], b: null, c: 1 })).toBeGreaterThan(2000)
    expect(weightOf(undefined)).toBeLessThan(100)
  })
})
