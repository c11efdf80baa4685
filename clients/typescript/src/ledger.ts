// What happened, from the ledger.
import { StockadeError, StreamEnded } from './errors.js'
import type { Http, Params } from './http.js'
import { events } from './sse.js'
import type { LedgerEvent } from './types.js'

const PATIENCE_MS = 60_000 // without a connection, before it is given up

export interface EventOptions {
  /** From after this number on. Without it: from now on, or with follow: false all that has happened. */
  after?: number
  /** Families ('sandbox') or single ones ('sandbox.start'). */
  kinds?: string[]
  /** true unless said otherwise: goes on for ever, also when the connection breaks. */
  follow?: boolean
  signal?: AbortSignal
  /** Told each time the connection is there (true), and each time it is not, or not any more. */
  onConnection?: (there: boolean) => void
  /** How long without a connection before it is given up; a minute unless said otherwise. */
  patienceMs?: number
}

/** It is asked for at once. */
export function ledgerEvents(http: Http, method: string, template: string, params: Params, options: EventOptions): AsyncGenerator<LedgerEvent, void, undefined> {
  const follow = options.follow ?? true
  const connect = (last: number | undefined): Promise<Response> => {
    const query = { kinds: options.kinds?.join(',') || undefined, follow: follow ? undefined : false, from: follow || last !== undefined ? undefined : 0 }
    const headers: Record<string, string> = last === undefined ? {} : { 'Last-Event-ID': String(last) }
    return http.open(method, template, params, { query, headers, signal: options.signal })
  }
  const first = connect(options.after)
  first.catch(() => undefined) // whoever iterates is told
  return listen(first, connect, options, follow)
}

async function* listen(first: Promise<Response>, connect: (last: number | undefined) => Promise<Response>, options: EventOptions, follow: boolean): AsyncGenerator<LedgerEvent, void, undefined> {
  let last = options.after
  let response: Promise<Response> | undefined = first
  let brokenSince: number | undefined
  for (;;) {
    try {
      const stream = await (response ?? connect(last))
      options.onConnection?.(true)
      for await (const event of events(stream)) {
        brokenSince = undefined
        if (event.name === 'end') return
        last = Number(event.data['seq'])
        yield { seq: last, kind: event.name, data: event.data }
      }
      throw new StreamEnded('the stream was cut')
    } catch (e) {
      const now = Date.now()
      response = undefined
      brokenSince ??= now
      options.onConnection?.(false)
      // a refusal, also of a session that has ended meanwhile, is the listener's business
      if (e instanceof StockadeError || options.signal?.aborted || !follow || now - brokenSince > (options.patienceMs ?? PATIENCE_MS)) throw e
      const wait = Math.min(100 + (now - brokenSince) / 4, 5000)
      await new Promise((resolve) => setTimeout(resolve, wait))
    }
  }
}
