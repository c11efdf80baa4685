import { describe, expect, it } from 'vitest'
import { windowOf } from './virtual-list'

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
