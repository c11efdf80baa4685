import { describe, expect, it } from 'vitest'
import { StockadeError, type LedgerEvent } from 'stockade-client'
import { CatchUp } from './catch-up'
import { live, matches, waitBefore } from './live'

describe('kinds of events', () => {
  it('knows families, single kinds, and everything', () => {
    expect(matches(['sandbox'], 'sandbox.start')).toBe(true)
    expect(matches(['sandbox.start'], 'sandbox.start')).toBe(true)
    expect(matches(['*'], 'net.deny')).toBe(true)
    expect(matches(['net', 'run.end'], 'run.start')).toBe(false)
    expect(matches(['sand'], 'sandbox.start')).toBe(false)
    expect(matches([], 'sandbox.start')).toBe(false)
  })
})

describe('a return', () => {
  it('is told when it happens, and not before', async () => {
    let told = 0
    live.returned.value++
    const stop = live.onReturned(() => told++)
    await Promise.resolve()
    expect(told).toBe(0)
    live.returned.value++
    await Promise.resolve()
    expect(told).toBe(1)
    stop()
    live.returned.value++
    await Promise.resolve()
    expect(told).toBe(1)
  })
})

describe('coming back', () => {
  const at = (ms: number): LedgerEvent => ({ seq: ms, kind: 'sandbox.start', data: { time: new Date(ms).toISOString() } })
  const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
  const make = () => {
    const told: (number | undefined)[] = []
    return { told, one: new CatchUp((n) => told.push(n), () => 10_000, 40) }
  }

  it('counts what was before, until it is quiet', async () => {
    const { told, one } = make()
    one.saw(at(1)) // nobody counts
    one.begin(true)
    for (let i = 1; i <= 5; i++) {
      await pause(15)
      one.saw(at(i))
    }
    expect(told).toEqual([])
    await pause(60)
    expect(told).toEqual([5])
  })
  it('ends with the first that is newer', () => {
    const { told, one } = make()
    one.begin(true)
    one.saw(at(9_000))
    one.saw(at(11_000))
    one.saw(at(9_500))
    expect(told).toEqual([1])
  })
  it('counts what happened last, though the clock is coarse', () => {
    const { told, one } = make()
    one.begin(true)
    one.saw(at(10_600))
    one.saw(at(11_500))
    expect(told).toEqual([1])
  })
  it('does not say that nothing was missed if that is not known', async () => {
    const { told, one } = make()
    one.begin(false)
    await pause(60)
    expect(told).toEqual([undefined])
  })
  it('goes on counting when it breaks once more', async () => {
    const { told, one } = make()
    one.begin(true)
    one.saw(at(1))
    one.begin(true)
    one.saw(at(2))
    await pause(60)
    expect(told).toEqual([2])
  })
  it('waits longer each time, and as long as the server wants', () => {
    expect(waitBefore(0, undefined, 0)).toBeLessThan(200)
    expect(waitBefore(20, undefined, 0)).toBeGreaterThan(3_000)
    expect(waitBefore(0, undefined, 9_000)).toBe(9_000)
    expect(waitBefore(0, new StockadeError(429, 'RATE_LIMITED', '', '', 12_000), 0)).toBe(12_000)
  })
})
