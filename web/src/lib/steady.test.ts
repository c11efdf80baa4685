import { describe, expect, it } from 'vitest'
import { steadyResponse, steadySocket, untilSilent } from './steady'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('a stream', () => {
  it('comes through whole', async () => {
    const body = new ReadableStream<Uint8Array>({
      async start(to) {
        for (const part of ['a', 'b', 'c']) {
          await pause(5)
          to.enqueue(bytes(part))
        }
        to.close()
      },
    })
    const response = steadyResponse(new Response(body, { headers: { 'content-type': 'text/event-stream' } }), 1000)
    expect(await response.text()).toBe('abc')
  })
  it('is given up when it is silent, and only while somebody waits', async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({ start: (to) => to.enqueue(bytes(':\n\n')), cancel: () => void (cancelled = true) })
    const reader = untilSilent(body, 20).getReader()
    await pause(40)
    expect((await reader.read()).value).toEqual(bytes(':\n\n'))
    await expect(reader.read()).rejects.toThrow('silent')
    expect(cancelled).toBe(true)
  })
  it('may be silent if it never said that it would not be', async () => {
    const body = new ReadableStream<Uint8Array>({
      async start(to) {
        to.enqueue(bytes('event: x\n'))
        await pause(60)
        to.enqueue(bytes('late'))
        to.close()
      },
    })
    expect(await new Response(untilSilent(body, 10)).text()).toBe('event: x\nlate')
  })
  it('is let alone if it is none', () => {
    const plain = new Response('{}')
    expect(steadyResponse(plain)).toBe(plain)
  })
})

class Fake extends EventTarget {
  readyState = 1
  bufferedAmount = 0
  binaryType = ''
  stuck = false
  closed = false
  send(data: string | Uint8Array): void {
    if (this.stuck) this.bufferedAmount += data.length
  }
  close(): void {
    this.closed = true
  }
}

describe('a socket', () => {
  const make = (): Fake & { codes: number[] } => {
    const made = new (steadySocket(Fake as never, 20))('ws://x') as unknown as Fake & { codes: number[] }
    made.codes = []
    made.addEventListener('close', (event) => made.codes.push((event as Event & { code: number }).code))
    return made
  }
  it('stays while what is sent goes', async () => {
    const socket = make()
    socket.send('abc')
    await pause(30)
    socket.stuck = true
    socket.send('a'.repeat(100))
    for (let i = 0; i < 4; i++) {
      await pause(15)
      socket.bufferedAmount -= 20
    }
    expect(socket.closed).toBe(false)
    socket.bufferedAmount = 0
  })
  it('is closed, and says so at once, when nothing goes', async () => {
    const socket = make()
    socket.send('went')
    socket.stuck = true
    socket.send('a')
    await pause(60)
    expect(socket.closed).toBe(true)
    expect(socket.codes).toEqual([1006])
  })
  it('does not swallow what cannot be sent', () => {
    const socket = make()
    socket.readyState = 2
    expect(() => socket.send('a')).toThrow('closed')
  })
})
