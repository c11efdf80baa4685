// Commands in a sandbox: what they print and how they end; terminals.
import { CommandFailed, StockadeError, StreamEnded } from './errors.js'
import { fill, withQuery, type Ask, type Http, type Params, type Query, type WebSocketLike } from './http.js'
import { events } from './sse.js'
import type { RunEvent, RunInfo, TerminalOptions } from './types.js'

const encoder = new TextEncoder()
const NOTHING = new Uint8Array(0)
const SEEN_MAX = 16 << 20
const QUEUE_MAX = 16 << 20 // bytes that have come and that nobody has read yet
const EVENT_COST = 256 // of one event, however little is in it

/** Text, or where it is no UTF-8 the same as base64 beside it. */
function bytesOf(value: Record<string, unknown>, name: string): Uint8Array {
  const base64 = value[`${name}_base64`]
  if (typeof base64 === 'string') return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
  return encoder.encode(String(value[name] ?? ''))
}

/** A run that has ended, with what it printed. */
export class Output {
  readonly info: RunInfo
  readonly stdout: Uint8Array
  readonly stderr: Uint8Array
  readonly truncated: boolean

  constructor(answer: Record<string, unknown>) {
    const { stdout: _o, stderr: _e, stdout_base64: _ob, stderr_base64: _eb, ...info } = answer
    this.info = info as unknown as RunInfo
    this.stdout = bytesOf(answer, 'stdout')
    this.stderr = bytesOf(answer, 'stderr')
    this.truncated = answer['truncated'] === true
  }

  get exitCode(): number | null {
    return this.info.exit_code
  }

  get text(): string {
    return new TextDecoder().decode(this.stdout)
  }

  /** Itself, if the command ended with 0. */
  check(): this {
    if (this.exitCode === 0) return this
    throw new CommandFailed(`ended with ${this.exitCode} (${this.info.reason}): ${new TextDecoder().decode(this.stderr).trim().split('\n').at(-1)}`)
  }
}

function runEvent(name: string, data: Record<string, unknown>): RunEvent {
  if (name === 'output') name = 'stdout' // a terminal has one
  if (name === 'stdout' || name === 'stderr') return { kind: name, data: bytesOf(data, 'data'), info: {} }
  return { kind: name as RunEvent['kind'], data: NOTHING, info: data }
}

/** It is asked for at once. A stream that is over before it said "exit" was cut. */
export function runEvents(http: Http, method: string, template: string, params: Params, ask: Ask): AsyncGenerator<RunEvent, void, undefined> {
  const response = http.open(method, template, params, ask)
  response.catch(() => undefined) // whoever iterates is told
  return told(response)
}

async function* told(response: Promise<Response>): AsyncGenerator<RunEvent, void, undefined> {
  for await (const event of events(await response)) {
    yield runEvent(event.name, event.data)
    if (event.name === 'exit') return
  }
  throw new StreamEnded('the stream was cut before the run ended')
}

/** A run, or a terminal, both ways. Leaving it does not end it: whoever attaches again finds it as it is. */
export interface Attachment extends AsyncIterable<RunEvent> {
  /** What is typed. */
  send(data: string | Uint8Array): Promise<void>
  resize(rows: number, cols: number): Promise<void>
  /** What was printed, up to the message in which the marker is complete. If more than the limit comes without it, this is closed. */
  readUntil(marker: string, limit?: number): Promise<string>
  close(): void
}

abstract class Attached {
  #seen = ''
  #decoder = new TextDecoder()
  #source: AsyncGenerator<RunEvent, void, undefined> | undefined

  protected abstract source(): AsyncGenerator<RunEvent, void, undefined>
  abstract close(): void

  [Symbol.asyncIterator](): AsyncGenerator<RunEvent, void, undefined> {
    return (this.#source ??= this.source())
  }

  async readUntil(marker: string, limit = SEEN_MAX): Promise<string> {
    const from = this[Symbol.asyncIterator]()
    for (let start = 0; ; ) {
      if (this.#seen.includes(marker, start)) {
        const seen = this.#seen
        this.#seen = ''
        return seen
      }
      if (this.#seen.length > limit) {
        const { length } = this.#seen
        this.#seen = ''
        this.close()
        throw new StreamEnded(`${length} characters came, and ${JSON.stringify(marker)} was not among them`)
      }
      start = Math.max(0, this.#seen.length - marker.length + 1)
      const { done, value } = await from.next()
      if (done) throw new StreamEnded(`it ended before it printed ${JSON.stringify(marker)}`)
      this.#seen += this.#decoder.decode(value.data, { stream: true })
    }
  }
}

/** Over a WebSocket, which is opened with a ticket, because it cannot send a token. */
class SocketAttachment extends Attached implements Attachment {
  #queue: { event: RunEvent; size: number }[] = []
  #queued = 0 // bytes in it
  #end: Error | 'exit' | undefined
  #wake: () => void = () => undefined
  readonly #socket: WebSocketLike
  readonly opened: Promise<void>

  constructor(socket: WebSocketLike) {
    super()
    this.#socket = socket
    socket.binaryType = 'arraybuffer'
    socket.addEventListener('message', (event) => this.#take(event.data))
    socket.addEventListener('close', (event) => this.#ended(new StreamEnded(`closed with ${event.code}`, event.code)))
    this.opened = new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve)
      socket.addEventListener('error', () => reject(new StreamEnded('the WebSocket could not be opened')))
    })
    this.opened.catch(() => undefined)
  }

  #ended(how: Error | 'exit'): void {
    this.#end ??= how
    this.#wake()
  }

  #take(data: unknown): void {
    if (this.#end) return
    const size = EVENT_COST + (typeof data === 'string' ? data.length : (data as ArrayBuffer).byteLength)
    // a WebSocket cannot be told to wait
    if (this.#queued + size > QUEUE_MAX) return this.#broken(new StreamEnded(`more than ${QUEUE_MAX >> 20} MiB came that nobody read`))
    try {
      this.#put(data, size)
    } catch {
      return this.#broken(StockadeError.badAnswer(0, 'a message of the WebSocket is not what it should be'))
    }
    this.#wake()
  }

  #broken(why: Error): void {
    this.#ended(why)
    this.close()
  }

  #put(data: unknown, size: number): void {
    const push = (event: RunEvent): void => {
      this.#queue.push({ event, size })
      this.#queued += size
    }
    if (typeof data !== 'string') return push({ kind: 'stdout', data: new Uint8Array(data as ArrayBuffer), info: {} })
    for (const [name, value] of Object.entries(JSON.parse(data) as Record<string, Record<string, unknown>>)) {
      if (name === 'refused') this.#ended(StockadeError.of(0, value))
      else if (name === 'error_output') push(runEvent('stderr', value))
      else push(runEvent('lost' in value ? 'lost' : name, value))
      if (name === 'exit') this.#ended('exit')
    }
  }

  protected override async *source(): AsyncGenerator<RunEvent, void, undefined> {
    for (;;) {
      const next = this.#queue.shift()
      if (next) {
        this.#queued -= next.size
        yield next.event
      } else if (this.#end === 'exit') return
      else if (this.#end) throw this.#end
      else await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }

  async send(data: string | Uint8Array): Promise<void> {
    this.#socket.send(typeof data === 'string' ? encoder.encode(data) : new Uint8Array(data))
  }

  async resize(rows: number, cols: number): Promise<void> {
    this.#socket.send(JSON.stringify({ resize: [rows, cols] }))
  }

  close(): void {
    this.#socket.close(1000)
  }
}

/** As events one way and requests the other, for where there is no WebSocket. */
class EventAttachment extends Attached implements Attachment {
  readonly #abort: AbortController
  readonly #from: AsyncGenerator<RunEvent, void, undefined>

  constructor(
    from: AsyncGenerator<RunEvent, void, undefined>,
    abort: AbortController,
    readonly send: (data: string | Uint8Array) => Promise<void>,
    readonly resize: (rows: number, cols: number) => Promise<void>,
  ) {
    super()
    this.#from = from
    this.#abort = abort
  }

  protected override source(): AsyncGenerator<RunEvent, void, undefined> {
    return this.#from
  }

  close(): void {
    this.#abort.abort()
  }
}

/** The same, once it is known to have begun. */
async function begun(from: AsyncGenerator<RunEvent, void, undefined>): Promise<AsyncGenerator<RunEvent, void, undefined>> {
  const first = await from.next()
  return (async function* () {
    if (first.done) return
    yield first.value
    yield* from
  })()
}

/** null where a WebSocket is not to be had: no such thing here, or a capability, which gets no tickets. */
async function openSocket(http: Http, method: string, template: string, params: Params, query: Query): Promise<Attachment | null> {
  if (!http.WebSocket || method !== 'GET' || http.token?.startsWith('stockade-cap1.')) return null
  const path = fill(template, params)
  const { ticket } = await http.call<{ ticket: string }>('POST', '/api/auth/ticket', {}, { json: { path } })
  const attachment = new SocketAttachment(new http.WebSocket(http.origin.replace(/^http/, 'ws') + withQuery(path, { ...query, ticket })))
  await attachment.opened
  return attachment
}

/** One command, running or not. */
export class Run {
  readonly #http: Http
  readonly #at: Params

  constructor(http: Http, sandbox: string, readonly number: number) {
    this.#http = http
    this.#at = { sandbox, run: number }
  }

  info(): Promise<RunInfo> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/runs/{run}', this.#at)
  }

  /** What it has printed so far, as far as it is kept. */
  async logs(): Promise<Output> {
    return new Output(await this.#http.call('GET', '/api/sandboxes/{sandbox}/runs/{run}/logs', this.#at))
  }

  /** What is kept of it, and then what it prints, until it ends. */
  follow(signal?: AbortSignal): AsyncGenerator<RunEvent, void, undefined> {
    return runEvents(this.#http, 'GET', '/api/sandboxes/{sandbox}/runs/{run}/logs', this.#at, { query: { follow: true }, signal })
  }

  /** What it prints from these offsets on; without them from now on. */
  stream(from: { out?: number; err?: number } = {}, signal?: AbortSignal): AsyncGenerator<RunEvent, void, undefined> {
    return runEvents(this.#http, 'GET', '/api/sandboxes/{sandbox}/runs/{run}/stream', this.#at, { query: { ...from }, signal })
  }

  /** Both ways. */
  async attach(from: { out?: number; err?: number } = {}): Promise<Attachment> {
    const socket = await openSocket(this.#http, 'GET', '/api/sandboxes/{sandbox}/runs/{run}/ws', this.#at, { ...from })
    if (socket) return socket
    const abort = new AbortController()
    return new EventAttachment(await begun(this.stream(from, abort.signal)), abort, (data) => this.input(textOf(data)), async () => undefined)
  }

  async signal(signal: number | string): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/runs/{run}/signal', this.#at, { json: { signal } })
  }

  async input(data: string): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/runs/{run}/input', this.#at, { json: { data } })
  }

  /** Kills everything that belongs to it. */
  cancel(): Promise<RunInfo> {
    return this.#http.call('POST', '/api/sandboxes/{sandbox}/runs/{run}/cancel', this.#at, { json: {} })
  }

  /** Until it has ended. */
  async wait(): Promise<RunInfo> {
    for await (const event of this.follow()) if (event.kind === 'exit') return event.info as unknown as RunInfo
    throw new StreamEnded('the stream was cut before the run ended')
  }
}

function textOf(data: string | Uint8Array): string {
  return typeof data === 'string' ? data : new TextDecoder().decode(data)
}

/** A shell with a terminal of its own, which is there until it is closed, whoever looks at it. */
export class Terminal {
  readonly #http: Http
  readonly #at: Params

  constructor(http: Http, sandbox: string, readonly id: string, readonly title: string) {
    this.#http = http
    this.#at = { sandbox, run: id }
  }

  /** First comes what it showed last, or everything since the offset `out`. By WebSocket, or by events where there is none. */
  async attach(from: { out?: number; transport?: 'websocket' | 'events' } = {}): Promise<Attachment> {
    const query = from.out === undefined ? {} : { out: from.out }
    const socket = from.transport === 'events' ? null : await openSocket(this.#http, 'GET', '/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/ws', this.#at, query)
    if (socket) return socket
    if (from.transport === 'websocket') throw new StreamEnded('there is no WebSocket here')
    const abort = new AbortController()
    return new EventAttachment(await begun(this.stream(query, abort.signal)), abort, (data) => this.input(textOf(data)), (rows, cols) => this.resize(rows, cols))
  }

  stream(from: { out?: number } = {}, signal?: AbortSignal): AsyncGenerator<RunEvent, void, undefined> {
    return runEvents(this.#http, 'GET', '/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/stream', this.#at, { query: { ...from }, signal })
  }

  async input(data: string): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/live/terminal/sessions/{run}/input', this.#at, { json: { data } })
  }

  async resize(rows: number, cols: number): Promise<void> {
    await this.#http.call('PATCH', '/api/sandboxes/{sandbox}/live/terminal/sessions/{run}', this.#at, { json: { rows, cols } })
  }

  /** Ends it, with everything that runs in it. */
  async close(): Promise<void> {
    await this.#http.call('DELETE', '/api/sandboxes/{sandbox}/live/terminal/sessions/{run}', this.#at)
  }
}

export class Terminals {
  readonly #http: Http
  readonly #sandbox: string

  constructor(http: Http, sandbox: string) {
    this.#http = http
    this.#sandbox = sandbox
  }

  async create(options: TerminalOptions = {}): Promise<Terminal> {
    const made = await this.#http.call<{ session_id: string; title: string }>('POST', '/api/sandboxes/{sandbox}/live/terminal/sessions', { sandbox: this.#sandbox }, { json: options })
    return new Terminal(this.#http, this.#sandbox, made.session_id, made.title)
  }

  /** One that is known already; nothing is asked. */
  of(id: string, title = ''): Terminal {
    return new Terminal(this.#http, this.#sandbox, id, title)
  }

  async list(): Promise<Terminal[]> {
    const found = await this.#http.call<{ sessions: { session_id: string; title: string }[] }>('GET', '/api/sandboxes/{sandbox}/live/terminal/sessions', { sandbox: this.#sandbox })
    return found.sessions.map((s) => new Terminal(this.#http, this.#sandbox, s.session_id, s.title))
  }
}
