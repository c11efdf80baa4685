import { describe, expect, it } from 'vitest'
import { pathOf } from './sparkline'

describe('a sparkline', () => {
  it('goes from the left to the right, high is up', () => {
    expect(pathOf([0, 1], 80, 20, 1)).toBe('M0.0 19.0L80.0 1.0')
    expect(pathOf([5, 1], 80, 20, 1)).toBe('M0.0 1.0L80.0 1.0') // no higher than the box
  })
  it('has gaps where nothing is known, and is not there for nothing', () => {
    expect(pathOf([0, null, 1, NaN, 1, 0], 50, 10, 1)).toBe('M0.0 9.0M20.0 1.0M40.0 1.0L50.0 9.0')
    expect(pathOf([1], 80, 20, 1)).toBe('')
    expect(pathOf([], 80, 20, 1)).toBe('')
  })
})
