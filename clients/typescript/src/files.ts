// Files of a sandbox.
import { StreamEnded } from './errors.js'
import { json, type Body, type Http, type Params } from './http.js'
import { events } from './sse.js'
import type { Change, Entry } from './types.js'

/** First and last byte; without the last, to the end. */
export type Span = [first: number, last?: number]

export class Files {
  readonly #http: Http
  readonly #at: Params

  constructor(http: Http, sandbox: string) {
    this.#http = http
    this.#at = { sandbox }
  }

  /** What is in a folder. */
  async list(path: string): Promise<Entry[]> {
    const response = await this.#http.open('GET', '/api/sandboxes/{sandbox}/files', this.#at, { query: { path } })
    if (!isFolder(response)) {
      await response.body?.cancel()
      throw new TypeError(`'${path}' is no folder`)
    }
    return (await json<{ entries: Entry[] }>(response)).entries
  }

  /** A file; its body is a stream. */
  async open(path: string, span?: Span): Promise<Response> {
    const headers: Record<string, string> = span ? { Range: `bytes=${span[0]}-${span[1] ?? ''}` } : {}
    const response = await this.#http.open('GET', '/api/sandboxes/{sandbox}/files', this.#at, { query: { path }, headers })
    if (!isFolder(response)) return response
    await response.body?.cancel()
    throw new TypeError(`'${path}' is a folder`)
  }

  async read(path: string, span?: Span): Promise<Uint8Array> {
    return new Uint8Array(await (await this.open(path, span)).arrayBuffer())
  }

  async readText(path: string): Promise<string> {
    return (await this.open(path)).text()
  }

  /** Writes a file: it appears whole or not at all. */
  async write(path: string, data: Body, mode?: number): Promise<number> {
    return (await this.put(path, data, { mode })).bytes
  }

  /** The same. With the etag that stat or writing gave: only if the file is still what it was, else CHANGED (412). */
  put(path: string, data: Body, options: { mode?: number | undefined; etag?: string | undefined } = {}): Promise<{ bytes: number; etag?: string }> {
    const { mode, etag } = options
    const query = { path, mode: mode?.toString(8).padStart(4, '0') }
    return this.#http.call('PUT', '/api/sandboxes/{sandbox}/files', this.#at, { query, data, headers: etag ? { 'If-Match': `"${etag}"` } : {} })
  }

  async remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    await this.#http.call('DELETE', '/api/sandboxes/{sandbox}/files', this.#at, { query: { path, recursive: options.recursive } })
  }

  stat(path: string): Promise<Entry> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/files/stat', this.#at, { query: { path } })
  }

  async move(path: string, to: string): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/files/move', this.#at, { json: { path, to } })
  }

  async makeFolder(path: string, options: { mode?: number; recursive?: boolean } = {}): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/files/folder', this.#at, { json: { path, ...options } })
  }

  /** Everything below a folder, as a tar archive; its body is a stream. */
  tar(path: string): Promise<Response> {
    return this.#http.open('GET', '/api/sandboxes/{sandbox}/files/archive', this.#at, { query: { path } })
  }

  /** Unpacks a tar archive below a folder. Nothing in it can lead outside. */
  async untar(path: string, archive: Body): Promise<number> {
    const taken = await this.#http.call<{ bytes: number }>('PUT', '/api/sandboxes/{sandbox}/files/archive', this.#at, { query: { path }, data: archive })
    return taken.bytes
  }

  /** What changes below a folder, for as long as one listens. Once this is there, nothing later is missed. */
  async watch(path: string, options: { recursive?: boolean; signal?: AbortSignal } = {}): Promise<AsyncGenerator<Change, void, undefined>> {
    const response = await this.#http.open('GET', '/api/sandboxes/{sandbox}/files/watch', this.#at, { query: { path, recursive: options.recursive }, signal: options.signal })
    const stream = events(response)
    const first = await stream.next()
    if (first.done || first.value.name !== 'opened') throw new StreamEnded('the stream was cut before it began')
    return (async function* () {
      for await (const event of stream) yield event.data as unknown as Change
    })()
  }
}

/** A file that happens to be JSON is sent as an attachment; a list of a folder is not. */
function isFolder(response: Response): boolean {
  return (response.headers.get('content-type') ?? '').startsWith('application/json') && !response.headers.has('content-disposition')
}
