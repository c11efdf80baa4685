import { describe, expect, it } from 'vitest'
import { readSome } from './bounded'

/** A body that never ends, and counts what was taken of it. */
function endless(): { response: Response; taken: () => number; cancelled: () => boolean } {
  let taken = 0
  let cancelled = false
  const body = new ReadableStream<Uint8Array>({
    pull(to) {
      taken += 1000
      to.enqueue(new Uint8Array(1000).fill(65))
    },
    cancel() {
      cancelled = true
    },
  })
  return { response: new Response(body, { headers: { 'Content-Length': '5' } }), taken: () => taken, cancelled: () => cancelled }
}

describe('reading with an end', () => {
  it('takes all of what is small', async () => {
    expect(await readSome(new Response('hello'), 5)).toEqual({ bytes: new TextEncoder().encode('hello'), whole: true })
    expect(await readSome(new Response(''), 5)).toEqual({ bytes: new Uint8Array(0), whole: true })
    expect(await readSome(new Response(null), 5)).toEqual({ bytes: new Uint8Array(0), whole: true })
  })

  it('takes no more than it wants, whatever the server said', async () => {
    const one = endless()
    const { bytes, whole } = await readSome(one.response, 2500)
    expect(bytes).toHaveLength(2500)
    expect(whole).toBe(false)
    expect(one.cancelled()).toBe(true)
    expect(one.taken()).toBeLessThan(10_000)
  })
})
