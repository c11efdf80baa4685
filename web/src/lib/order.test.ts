import { describe, expect, it } from 'vitest'
import { Order, mergeList } from './order'

describe('answers that overtake each other', () => {
  it('the one that was asked for later counts', () => {
    const order = new Order()
    const first = order.now()
    const second = order.now()
    expect(order.learn('a', second)).toBe(true)
    expect(order.learn('a', first)).toBe(false)
    expect(order.learn('b', first)).toBe(true)
    expect(order.learn('b', second)).toBe(true)
  })
  it('an older list keeps what was made and leaves out what was deleted since', () => {
    const order = new Order()
    const asked = order.now()
    order.learn('made', order.now())
    order.learn('gone', order.now())
    order.learn('changed', order.now())
    const now = new Map([['made', { n: 1 }], ['changed', { n: 2 }], ['left', { n: 3 }]])
    const found = new Map([['gone', { n: 0 }], ['changed', { n: 0 }], ['other', { n: 4 }]])
    const next = mergeList(now, found, (id) => order.isNewer(id, asked))
    order.learnAll(asked)
    expect(Object.fromEntries(next)).toEqual({ made: { n: 1 }, changed: { n: 2 }, other: { n: 4 } })
  })
  it('a list is newer than what was asked for before it', () => {
    const order = new Order()
    const early = order.now()
    const list = order.now()
    order.learnAll(list)
    expect(order.learn('a', early)).toBe(false)
    expect(order.learn('a', order.now())).toBe(true)
  })
  it('keeps what lists do not tell', () => {
    const next = mergeList<{ n: number; cwd?: string }>(new Map([['a', { n: 1, cwd: '/w' }]]), new Map([['a', { n: 2 }]]), () => false)
    expect(next.get('a')).toEqual({ n: 2, cwd: '/w' })
  })
})
