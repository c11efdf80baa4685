import { describe, expect, it } from 'vitest'
import { MAYBE, MISSED, noticeIn, UNSENT } from './notice'

describe('what is said about keys that went nowhere', () => {
  it('outlives the break that it tells of', () => {
    expect(noticeIn('away', MAYBE)).toBe(MAYBE)
    expect(noticeIn('open', MAYBE)).toBe(MAYBE)
    expect(noticeIn('open', UNSENT.away)).toBe(MISSED)
  })

  it('is over where something else begins', () => {
    expect(noticeIn('connecting', MAYBE)).toBe('')
    for (const said of ['', UNSENT.connecting, '3 kB of output are not kept any more.']) expect(noticeIn('open', said)).toBe('')
  })
})
