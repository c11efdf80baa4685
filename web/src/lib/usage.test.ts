import { describe, expect, it } from 'vitest'
import type { Sample } from 'stockade-client'
import { cpuOf, isMeasured, levelOf, mergeSamples, nextList, rateOf } from './usage'

const sample = (at_ms: number, more: Partial<Sample> = {}): Sample => ({ at_ms, cpu_us: null, memory: null, io_read: null, io_write: null, net_in: null, net_out: null, processes: null, disk: null, ...more })

describe('usage over time', () => {
  it('is merged in order, none twice, no more than fits', () => {
    const old = [sample(1), sample(2)]
    expect(mergeSamples(old, [sample(4), sample(2), sample(3)]).map((s) => s.at_ms)).toEqual([1, 2, 3, 4])
    expect(mergeSamples(old, [sample(2)])).toBe(old)
    expect(mergeSamples(old, [sample(3), sample(4)], 2).map((s) => s.at_ms)).toEqual([3, 4])
  })
  it('counters become rates, with gaps where they began again', () => {
    const samples = [sample(0, { cpu_us: 0 }), sample(1000, { cpu_us: 500_000 }), sample(3000, { cpu_us: 2_500_000 }), sample(4000, { cpu_us: 100 }), sample(5000), sample(6000, { cpu_us: 200 })]
    expect(cpuOf(samples)).toEqual({ at: [1000, 3000, 4000, 5000, 6000], values: [0.5, 1, null, null, null] })
    expect(rateOf([sample(0, { io_read: 0 }), sample(0, { io_read: 5 })], 'io_read').values).toEqual([null])
  })
  it('is asked for seldom in lists, and never before the server wants it', () => {
    expect(nextList([1, 5], 0)).toBeLessThan(5_000)
    expect(nextList([2, 5], 0)).toBe(15_000)
    expect(nextList([0], 30_000)).toBe(30_000)
  })
  it('says what is not measured', () => {
    expect(isMeasured(rateOf([sample(0), sample(1)], 'net_in'))).toBe(false)
    expect(levelOf([sample(0, { memory: 2048 }), sample(1)], 'memory', 1 / 1024)).toEqual({ at: [0, 1], values: [2, null] })
  })
})
