import { describe, expect, it } from 'vitest'
import { tabStop, windowOf } from './virtual-list'

describe('what of a long list is drawn', () => {
  it('is what is seen, and a little more', () => {
    expect(windowOf(1000, 50, 0, 500)).toEqual([0, 16])
    expect(windowOf(1000, 50, 5000, 500)).toEqual([94, 116])
    expect(windowOf(1000, 50, 49_500, 500)).toEqual([984, 1000])
  })

  it('stays inside the list, also when that has become short', () => {
    expect(windowOf(3, 50, 0, 500)).toEqual([0, 3])
    expect(windowOf(3, 50, 20_000, 500)).toEqual([3, 3])
    expect(windowOf(0, 50, 0, 500)).toEqual([0, 0])
  })
})

describe('the row that Tab leads to', () => {
  it('is the one that was used last, while it is drawn', () => {
    expect(tabStop(0, ...windowOf(1000, 50, 0, 500))).toBe(0)
    expect(tabStop(104, ...windowOf(1000, 50, 5000, 500))).toBe(104)
  })

  it('is always one that is drawn', () => {
    expect(tabStop(0, ...windowOf(1000, 50, 5000, 500))).toBe(100) // the first that is seen
    expect(tabStop(900, ...windowOf(1000, 50, 5000, 500))).toBe(115)
    for (const count of [0, 1, 5, 40, 1000])
      for (const top of [0, 60, 700, 49_500])
        for (const active of [0, 3, 39, 999]) {
          const [first, end] = windowOf(count, 50, Math.min(top, Math.max(0, count * 50 - 500)), 500)
          const stop = tabStop(active, first, end)
          if (count) expect(stop >= first && stop < end, `${stop} of ${first} to ${end}`).toBe(true)
          else expect(stop).toBe(0)
        }
  })
})
