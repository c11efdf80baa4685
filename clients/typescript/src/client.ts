// The front door: signing in, sandboxes, snapshots, tokens for machines, events, and how the host is.
import { StockadeError } from './errors.js'
import { Http, isRedirect, objectOf, originOf, refusal, type Ask, type Body, type Options, type Params, type Query } from './http.js'
import { ledgerEvents, type EventOptions } from './ledger.js'
import { Profiles } from './profiles.js'
import { Sandbox } from './sandbox.js'
import { checkText } from './signin.js'
import type { CapabilityToken, Challenge, CreateOptions, Diff, Doctor, EventPage, EventSearch, GateNames, LedgerEvent, Pool, Sample, SandboxInfo, Session, Snapshot, State, WhoAmI } from './types.js'

/** Gives the EIP-191 signature of a wallet, 0x…: (text) => wallet.signMessage(text) with ethers. */
export type Signer = (message: string) => string | Promise<string>

type Answer = Record<string, unknown>

/**
 *     const client = new Client('https://api.example.org')
 *     await client.signIn(address, sign)
 *     const client = new Client(url, { token })     // a session's token, or a capability
 */
export class Client {
  readonly sandboxes: Sandboxes
  readonly snapshots: Snapshots
  readonly profiles: Profiles
  readonly tokens: Tokens
  readonly operator: Operator
  readonly #http: Http

  constructor(url: string, options: Options = {}) {
    this.#http = new Http(url, options)
    this.sandboxes = new Sandboxes(this.#http)
    this.snapshots = new Snapshots(this.#http)
    this.profiles = new Profiles(this.#http)
    this.tokens = new Tokens(this.#http)
    this.operator = new Operator(this.#http)
  }

  /** A route that has no method here: call('GET', '/api/sandboxes/{sandbox}', { sandbox }). JSON, or nothing, both ways. */
  call<T>(method: string, template: string, params: Params = {}, ask: Pick<Ask, 'query' | 'json' | 'signal'> = {}): Promise<T> {
    return this.#http.call(method, template, params, ask)
  }

  // --- sign-in

  get token(): string | undefined {
    return this.#http.token
  }

  /** Another one of the same person: what is asked from now on, by everything that this client made, goes with it. */
  set token(token: string | undefined) {
    this.#http.token = token
  }

  challenge(address?: string): Promise<Challenge> {
    return this.#http.call('POST', '/api/auth/challenge', {}, { json: { address } })
  }

  /** With a wallet. The text names this server and is good once; one that does not is never signed. plainText: the older text, which names no server, is signed too. */
  async signIn(address: string, sign: Signer, options: { plainText?: boolean } = {}): Promise<Session> {
    const challenge = await this.challenge(address)
    const text = checkText(challenge, this.#http.origin, address, options.plainText ?? false)
    return this.#session({ nonce: challenge.nonce, signature: await sign(text) })
  }

  /** With the link that `stockade up` prints, or its code. A link of another server is not shown to this one. */
  async signInWithLink(link: string): Promise<Session> {
    if (/^[\w.~-]+$/.test(link)) return this.#session({ link })
    if (originOf(link, 'the link') !== this.#http.origin) throw new TypeError(`the link is not one of ${this.#http.origin}`)
    const code = /^#link=(.+)$/.exec(new URL(link).hash)?.[1]
    if (!code) throw new TypeError('this is not a link that signs anybody in')
    return this.#session({ link: code })
  }

  async #session(json: Record<string, string>): Promise<Session> {
    const session = await this.#http.call<Session>('POST', '/api/auth/session', {}, { json })
    this.#http.token = session.token
    return session
  }

  /** Another session before this one ends, until twelve hours after the sign-in; the client goes on with it. */
  async renew(): Promise<Session> {
    const session = await this.#http.call<Session>('POST', '/api/auth/session/renew', {}, { json: {} })
    this.#http.token = session.token
    return session
  }

  /** Revokes the session; everything that it opened is cut within a second. */
  async signOut(): Promise<void> {
    await this.#http.call('DELETE', '/api/auth/session')
    this.#http.token = undefined
  }

  whoami(): Promise<WhoAmI> {
    return this.#http.call('GET', '/api/auth/whoami')
  }

  /** For one stream, once, within 30 seconds: ?ticket= where no header can be sent (EventSource, a link). */
  async ticket(path: string): Promise<string> {
    return (await this.#http.call<{ ticket: string }>('POST', '/api/auth/ticket', {}, { json: { path } })).ticket
  }

  // --- the host

  /** {status, checks, …}, also if it is not well. */
  health(): Promise<Answer> {
    return this.#condition('GET', '/health')
  }

  /** {status, …}, also if no sandbox could be had now. */
  ready(): Promise<Answer> {
    return this.#condition('GET', '/readyz')
  }

  async #condition(method: string, path: string): Promise<Answer> {
    const response = await this.#http.send(method, path)
    if (isRedirect(response)) throw await refusal(response)
    const found = await objectOf(response)
    if (typeof found?.['status'] === 'string') return found
    throw StockadeError.of(response.status, found, response.headers.get('x-request-id') ?? '')
  }

  /** In Prometheus' text form. */
  async metrics(): Promise<string> {
    return (await this.#http.open('GET', '/metrics')).text()
  }

  capabilities(): Promise<Answer> {
    return this.#http.call('GET', '/api/capabilities')
  }

  openapi(): Promise<Answer> {
    return this.#http.call('GET', '/api/openapi.json')
  }

  /** Where the ledger's chain stands. */
  checkpoint(): Promise<{ seq: number; hash: string }> {
    return this.#http.call('GET', '/api/ledger/checkpoint')
  }

  /** What was provisioned for one, oldest first; pages are fetched as they are needed. */
  provisions(page = 100): AsyncGenerator<Answer, void, undefined> {
    return pages(this.#http, 'GET', '/api/provisions', 'provisions', { limit: page })
  }

  provision(call: string): Promise<Answer> {
    return this.#http.call('GET', '/api/provisions/{call}', { call })
  }

  // --- events

  /** What happens to one's sandboxes. Goes on by itself when the connection breaks; a refusal is thrown. */
  events(options: EventOptions = {}): AsyncGenerator<LedgerEvent, void, undefined> {
    return ledgerEvents(this.#http, 'GET', '/api/events', {}, options)
  }

  /** Looks back, newest first; next is `before` of the next page, and null where there is no more. A page may be empty. */
  searchEvents(search: EventSearch = {}): Promise<EventPage> {
    return this.#http.call('GET', '/api/events/search', {}, { query: { ...search, kinds: search.kinds?.join(',') } })
  }
}

async function* pages<T = Answer>(http: Http, method: string, template: string, member: string, query: Query): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined
  do {
    const found = await http.call<Answer>(method, template, {}, { query: { ...query, cursor } })
    yield* found[member] as T[]
    cursor = (found['next_cursor'] as string | null | undefined) ?? undefined
  } while (cursor)
}

export class Sandboxes {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** A new one, which runs. */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.#http, await this.#http.call('POST', '/api/sandboxes', {}, { json: options }))
  }

  /** Oldest first; pages are fetched as they are needed. */
  async *list(options: { state?: State; all?: boolean; page?: number } = {}): AsyncGenerator<Sandbox, void, undefined> {
    const query = { state: options.state, all: options.all, limit: options.page ?? 100 }
    for await (const info of pages<SandboxInfo>(this.#http, 'GET', '/api/sandboxes', 'sandboxes', query)) yield new Sandbox(this.#http, info)
  }

  /** One that is known already; nothing is asked. */
  of(info: SandboxInfo): Sandbox {
    return new Sandbox(this.#http, info)
  }

  /** What several used of late, by id: the last samples, oldest first. For lists. */
  async usage(ids: string[]): Promise<Record<string, Sample[]>> {
    return (await this.#http.call<{ usage: Record<string, Sample[]> }>('POST', '/api/usage', {}, { json: { sandboxes: ids } })).usage
  }

  /** By its id, or its name. */
  async get(sandbox: string): Promise<Sandbox> {
    return new Sandbox(this.#http, await this.#http.call('GET', '/api/sandboxes/{sandbox}', { sandbox }))
  }
}

export class Snapshots {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  async list(options: { sandbox?: string; all?: boolean } = {}): Promise<Snapshot[]> {
    return (await this.#http.call<{ snapshots: Snapshot[] }>('GET', '/api/snapshots', {}, { query: { ...options } })).snapshots
  }

  /** Forks of it stay. */
  async delete(snapshot: string): Promise<void> {
    await this.#http.call('DELETE', '/api/snapshots/{snapshot}', { snapshot })
  }

  /** What differs between it and another snapshot, or a stopped sandbox. */
  diff(snapshot: string, to: string): Promise<Diff> {
    return this.#http.call('GET', '/api/snapshots/{snapshot}/diff', { snapshot }, { query: { to } })
  }

  /** Its files as a tar.zst; the body is a stream. */
  export(snapshot: string): Promise<Response> {
    return this.#http.open('GET', '/api/snapshots/{snapshot}/export', { snapshot })
  }

  /** A file as it was then, by its path in the sandbox; or a folder, as JSON (`{entries}`). Its body is a stream. */
  open(snapshot: string, path: string): Promise<Response> {
    return this.#http.open('GET', '/api/snapshots/{snapshot}/files', { snapshot }, { query: { path } })
  }

  import(archive: Body, options: { name?: string; profile?: string; size?: number } = {}): Promise<Snapshot> {
    return this.#http.call('POST', '/api/snapshots/import', {}, { query: { ...options }, data: archive })
  }
}

/** Capabilities: tokens for machines, for named verbs on named resources. */
export class Tokens {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** The token. It is shown this once. */
  async create(verbs: string[], resources: string[], options: { expires_in?: number; about?: string } = {}): Promise<string> {
    return (await this.#http.call<{ token: string }>('POST', '/api/capabilities/tokens', {}, { json: { verbs, resources, ...options } })).token
  }

  async list(): Promise<CapabilityToken[]> {
    return (await this.#http.call<{ tokens: CapabilityToken[] }>('GET', '/api/capabilities/tokens')).tokens
  }

  /** With everything that was narrowed from it. */
  async revoke(jti: string): Promise<void> {
    await this.#http.call('DELETE', '/api/capabilities/tokens/{jti}', { jti })
  }
}

/** For operators: wallets that act for all owners. */
export class Operator {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  health(): Promise<Answer> {
    return this.#http.call('GET', '/api/operator/health')
  }

  /** How busy the host is, and what was promised of it. */
  load(): Promise<Record<string, number | null>> {
    return this.#http.call('GET', '/api/operator/load')
  }

  /** What the host can enforce, as `stockade doctor` says. */
  doctor(): Promise<Doctor> {
    return this.#http.call('GET', '/api/operator/doctor')
  }

  /** The latest report that `stockade verify` left on the host; NOT_FOUND if there is none. */
  verify(): Promise<Answer> {
    return this.#http.call('GET', '/api/operator/verify')
  }

  /** The same as a page of HTML. */
  async verifyPage(): Promise<string> {
    return (await this.#http.open('GET', '/api/operator/verify/report')).text()
  }

  /** Sandboxes that wait for somebody to want them. */
  pool(): Promise<Pool> {
    return this.#http.call('GET', '/api/operator/pool')
  }

  /** What gates let pass and refused of late, by name. */
  gate(options: { since_ms?: number; limit?: number } = {}): Promise<GateNames> {
    return this.#http.call('GET', '/api/operator/gate', {}, { query: { ...options } })
  }

  owners(): Promise<Answer> {
    return this.#http.call('GET', '/api/operator/owners')
  }

  /** Everybody's, oldest first; pages are fetched as they are needed. */
  async *sandboxes(options: { state?: State; page?: number } = {}): AsyncGenerator<Sandbox, void, undefined> {
    const query = { state: options.state, limit: options.page ?? 100 }
    for await (const info of pages<SandboxInfo>(this.#http, 'GET', '/api/operator/sandboxes', 'sandboxes', query)) yield new Sandbox(this.#http, info)
  }
}
