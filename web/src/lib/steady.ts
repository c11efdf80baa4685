// Connections that nobody closed and that are dead all the same (a network that is gone, a computer that slept): they are
// given up, so that it is noticed and said.
import type { WebSocketLike } from 'stockade-client'

const SILENT_MS = 40_000 // a server that is there says so every 15 seconds
const STUCK_MS = 5_000 // nothing of what was sent has gone

const COLON = 0x3a // begins a comment, which says that somebody is there and nothing else

/** The same bytes. Once the other end has shown that it says now and then that it is there: an error if it does not. */
export function untilSilent(body: ReadableStream<Uint8Array>, ms = SILENT_MS): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let beats = false
  return new ReadableStream<Uint8Array>(
    {
      async pull(to) {
        let timer: ReturnType<typeof setTimeout> | undefined
        const silence = new Promise<never>((_, reject) => {
          if (beats) timer = setTimeout(() => reject(new TypeError('network: the connection is silent')), ms)
        })
        try {
          const { done, value } = await Promise.race([reader.read(), silence])
          if (done) return to.close()
          beats ||= value[0] === COLON
          to.enqueue(value)
        } catch (e) {
          void reader.cancel().catch(() => undefined)
          throw e
        } finally {
          clearTimeout(timer)
        }
      },
      cancel: (why) => reader.cancel(why),
    },
    { highWaterMark: 0 }, // who reads slowly is not silent
  )
}

/** An answer that is a stream of events is watched; all others are as they are. */
export function steadyResponse(response: Response, ms?: number): Response {
  if (!response.ok || !response.body || !response.headers.get('content-type')?.startsWith('text/event-stream')) return response
  return new Response(untilSilent(response.body, ms), { status: response.status, statusText: response.statusText, headers: response.headers })
}

interface Socket extends WebSocketLike {
  readonly readyState: number
  readonly bufferedAmount: number
  dispatchEvent(event: Event): boolean
}

const OPEN = 1

/** A WebSocket that closes itself when what is sent does not go, and throws what cannot be sent. */
export function steadySocket(Base: new (url: string) => Socket, ms = STUCK_MS): new (url: string) => WebSocketLike {
  return class extends Base {
    #sent = 0
    #gone = 0
    #timer: ReturnType<typeof setTimeout> | undefined

    override send(data: string | Uint8Array<ArrayBuffer>): void {
      if (this.readyState !== OPEN) throw new Error('the connection is closed')
      if (!this.#timer) this.#gone = this.#sent - this.bufferedAmount
      super.send(data)
      this.#sent += data.length
      this.#timer ??= setTimeout(() => this.#look(), ms)
    }

    #look(): void {
      this.#timer = undefined
      if (this.readyState !== OPEN || this.bufferedAmount === 0) return
      const gone = this.#sent - this.bufferedAmount
      const moves = gone > this.#gone
      this.#gone = gone
      if (moves) this.#timer = setTimeout(() => this.#look(), ms)
      else this.#cut()
    }

    /** A browser would wait for the other end to agree. */
    #cut(): void {
      this.dispatchEvent(Object.assign(new Event('close'), { code: 1006 }))
      this.close()
    }
  }
}
