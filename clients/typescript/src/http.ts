// Requests, with the platform's fetch.
import { StockadeError, StreamEnded } from './errors.js'

export type Params = Record<string, string | number>
export type Query = Record<string, string | number | boolean | undefined>
export type Body = Uint8Array | string | Blob | ReadableStream<Uint8Array>

/** What a browser's WebSocket has, and all that is needed of it. */
export interface WebSocketLike {
  binaryType: string
  send(data: string | Uint8Array<ArrayBuffer>): void
  close(code?: number): void
  addEventListener(type: 'open' | 'error', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { code: number }) => void): void
}

export interface Options {
  /** A session's token, or a capability. */
  token?: string
  /** http:// is for this machine alone, unless this says otherwise: the token could be read on the way. */
  insecureHttp?: boolean
  /** In place of the platform's. */
  fetch?: typeof fetch
  /** In place of the platform's; where there is none (Node before 22), terminals use events instead. */
  WebSocket?: new (url: string) => WebSocketLike
}

export interface Ask {
  query?: Query
  /** Sent as JSON; members that are undefined are left out. */
  json?: unknown
  data?: Body | undefined
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}

const JSON_MAX = 64 << 20

/** Of a URL that may have a secret in it: it is not repeated. */
export function originOf(url: string, what: string): string {
  let at: URL | undefined
  try {
    at = new URL(url)
  } catch {
    // said below
  }
  if ((at?.protocol !== 'http:' && at?.protocol !== 'https:') || at.username || at.password) throw new TypeError(`${what} is no http:// or https:// address, or has a user in it`)
  return at.origin
}

function isHere(origin: string): boolean {
  const { hostname } = new URL(origin)
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
}

/** The JSON object that an answer is; undefined if it is none. */
export async function objectOf(response: Response): Promise<Record<string, unknown> | undefined> {
  const decoder = new TextDecoder()
  const parts: string[] = []
  let size = 0
  for await (const chunk of chunks(response)) {
    size += chunk.length
    if (size > JSON_MAX) throw StockadeError.badAnswer(response.status, `the answer is larger than ${JSON_MAX >> 20} MiB`)
    parts.push(decoder.decode(chunk, { stream: true }))
  }
  return jsonObject(parts.join('') + decoder.decode())
}

export function jsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? (found as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** The same where nothing else will do. */
export async function json<T>(response: Response): Promise<T> {
  const found = await objectOf(response)
  if (found === undefined && response.status !== 204)
    throw StockadeError.badAnswer(response.status, `the answer (${response.status}, ${response.headers.get('content-type')?.slice(0, 100) ?? 'of no type'}) is not the JSON object that it should be`)
  return found as T
}

/** A browser does not show more of one than that it is one. */
export function isRedirect(response: Response): boolean {
  return response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400)
}

/** Why an answer is not what was asked for. */
export async function refusal(response: Response): Promise<StockadeError> {
  if (!isRedirect(response)) return StockadeError.of(response.status, await objectOf(response), response.headers.get('x-request-id') ?? '')
  await response.body?.cancel()
  return StockadeError.redirected(response.status, response.headers.get('location'))
}

/** /api/sandboxes/{sandbox} with its names replaced. What stands for a name stays one segment. */
export function fill(template: string, params: Params): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(params[name] ?? '')
    if (!value || value === '.' || value === '..') throw new TypeError(`'${value}' is no ${name}`)
    return encodeURIComponent(value)
  })
}

export function withQuery(path: string, query: Query = {}): string {
  const words = Object.entries(query).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${encodeURIComponent(String(v))}`]))
  return words.length ? `${path}?${words.join('&')}` : path
}

export class Http {
  token: string | undefined
  readonly origin: string
  readonly WebSocket: (new (url: string) => WebSocketLike) | undefined
  readonly #fetch: typeof fetch

  constructor(url: string, options: Options) {
    this.origin = originOf(url, 'the URL')
    if (this.origin.startsWith('http:') && !options.insecureHttp && !isHere(this.origin))
      throw new TypeError(`http:// to '${new URL(this.origin).hostname}': everybody on the way could read the token. Use https://, or say insecureHttp: true`)
    this.token = options.token
    // called as a function of nothing: browsers insist
    const own = options.fetch
    this.#fetch = own ? (...args) => own(...args) : (...args) => fetch(...args)
    this.WebSocket = options.WebSocket ?? (globalThis as { WebSocket?: new (url: string) => WebSocketLike }).WebSocket
  }

  /** A path as it is; the answer, whatever its status. */
  async send(method: string, path: string, ask: Ask = {}): Promise<Response> {
    const headers: Record<string, string> = { ...ask.headers }
    if (this.token) headers['Authorization'] ??= `Bearer ${this.token}`
    const init: RequestInit & { duplex?: 'half' } = { method, headers, redirect: 'manual', credentials: 'omit', cache: 'no-store' }
    if (ask.signal) init.signal = ask.signal
    if (ask.json !== undefined) {
      headers['Content-Type'] = 'application/json'
      init.body = JSON.stringify(ask.json)
    } else if (ask.data !== undefined) {
      headers['Content-Type'] = 'application/octet-stream'
      init.body = ask.data as BodyInit
      if (ask.data instanceof ReadableStream) init.duplex = 'half'
    }
    return this.#fetch(this.origin + path, init)
  }

  /** Asks, and returns the answer once its head is there; what was refused is thrown. */
  async open(method: string, template: string, params: Params = {}, ask: Ask = {}): Promise<Response> {
    const response = await this.send(method, withQuery(fill(template, params), ask.query), ask)
    if (response.status < 300 && !isRedirect(response)) return response
    throw await refusal(response)
  }

  /** The same with JSON, or nothing, both ways. */
  async call<T>(method: string, template: string, params: Params = {}, ask: Ask = {}): Promise<T> {
    return json<T>(await this.open(method, template, params, ask))
  }
}

/** The bytes of an answer, as they come. Whoever stops reading ends the connection. */
export async function* chunks(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  if (!response.body) return
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((e: unknown) => {
        if (e instanceof Error && e.name === 'AbortError') throw e
        throw new StreamEnded(`the answer was cut short: ${e instanceof Error ? e.message : String(e)}`)
      })
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
