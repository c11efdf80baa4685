// One sandbox, and what can be done with it.
import { Files } from './files.js'
import { fill, type Ask, type Http, type Params } from './http.js'
import { ledgerEvents, type EventOptions } from './ledger.js'
import { Output, Run, Terminals, runEvents } from './runs.js'
import type { ExecOptions, LedgerEvent, PolicyInfo, Process, RunEvent, RunInfo, SandboxInfo, SecretName, Snapshot, SshKey, StartOptions, Usage, UsageHistory } from './types.js'

/** A line for a shell, or a list of arguments. */
export type Command = string | string[]

const PORT = ['ANY', '/api/sandboxes/{sandbox}/port/{port}/{rest}'] as const

function commandOf(command: Command): { command: string } | { argv: string[] } {
  return typeof command === 'string' ? { command } : { argv: command }
}

/** `info` is what was known when it was asked for last; refresh() asks again. */
export class Sandbox {
  readonly id: string
  readonly files: Files
  readonly terminals: Terminals
  readonly #http: Http
  readonly #at: Params

  constructor(http: Http, public info: SandboxInfo) {
    this.#http = http
    this.id = info.id
    this.#at = { sandbox: info.id }
    this.files = new Files(http, info.id)
    this.terminals = new Terminals(http, info.id)
  }

  // --- its life

  async refresh(): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('GET', '/api/sandboxes/{sandbox}', this.#at))
  }

  /** With everything in it; force: also if it runs. */
  async delete(options: { force?: boolean; key?: string } = {}): Promise<void> {
    await this.#http.call('DELETE', '/api/sandboxes/{sandbox}', this.#at, { query: { ...options } })
  }

  async stop(options: { key?: string } = {}): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/stop', this.#at, { json: options }))
  }

  async resume(options: { driver?: string; key?: string } = {}): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/resume', this.#at, { json: options }))
  }

  async pause(options: { key?: string } = {}): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/pause', this.#at, { json: options }))
  }

  async unpause(options: { key?: string } = {}): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/unpause', this.#at, { json: options }))
  }

  /** Frozen, cut off, and kept as evidence. */
  async quarantine(reason?: string): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/quarantine', this.#at, { json: { reason } }))
  }

  policy(): Promise<PolicyInfo> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/policy', this.#at)
  }

  /** All that can be reached from now on. */
  async allow(hosts: string[]): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('PATCH', '/api/sandboxes/{sandbox}/policy', this.#at, { json: { allow: hosts } }))
  }

  /** More than can be reached now; the rules that there are stay. */
  async allowMore(hosts: string[]): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('PATCH', '/api/sandboxes/{sandbox}/policy', this.#at, { json: { add: hosts } }))
  }

  /** What policy() would say after allow(hosts), or after allowMore(hosts); nothing is changed. */
  tryNetwork(change: { allow: string[] } | { add: string[] }): Promise<PolicyInfo> {
    return this.#http.call('PATCH', '/api/sandboxes/{sandbox}/policy', this.#at, { json: { ...change, check: true } })
  }

  usage(): Promise<Usage> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/usage', this.#at)
  }

  /** What it used over the last minutes, oldest first. It is measured while somebody asks; the first answer may be empty. */
  usageHistory(options: { since_ms?: number } = {}): Promise<UsageHistory> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/usage/history', this.#at, { query: { ...options } })
  }

  async processes(): Promise<Process[]> {
    return (await this.#http.call<{ processes: Process[] }>('GET', '/api/sandboxes/{sandbox}/processes', this.#at)).processes
  }

  // --- commands

  /** Runs a command and waits for its end. Platforms give an answer up that does not begin for minutes (Node: five): use execStream for those. */
  async exec(command: Command, options: ExecOptions = {}): Promise<Output> {
    return new Output(await this.#http.call('POST', '/api/sandboxes/{sandbox}/exec', this.#at, { json: { ...commandOf(command), ...options } }))
  }

  /** The same, told while it runs; the last event is "exit". */
  execStream(command: Command, options: Omit<ExecOptions, 'key'> = {}, signal?: AbortSignal): AsyncGenerator<RunEvent, void, undefined> {
    return runEvents(this.#http, 'POST', '/api/sandboxes/{sandbox}/exec', this.#at, { json: { ...commandOf(command), ...options, stream: true }, signal })
  }

  /** Runs a command in the background. */
  async start(command: Command, options: StartOptions = {}): Promise<Run> {
    const made = await this.#http.call<{ run: number }>('POST', '/api/sandboxes/{sandbox}/exec', this.#at, { json: { ...commandOf(command), ...options, background: true } })
    return new Run(this.#http, this.id, made.run)
  }

  /** Newest first. */
  async runs(options: { before?: number; max?: number } = {}): Promise<RunInfo[]> {
    return (await this.#http.call<{ runs: RunInfo[] }>('GET', '/api/sandboxes/{sandbox}/runs', this.#at, { query: { ...options } })).runs
  }

  run(number: number): Run {
    return new Run(this.#http, this.id, number)
  }

  // --- ports

  /** What something listens on inside. */
  async ports(): Promise<number[]> {
    const found = await this.#http.call<{ ports: Record<string, number> }>('GET', '/api/sandboxes/{sandbox}/ports', this.#at)
    return Object.keys(found.ports).map(Number).sort((a, b) => a - b)
  }

  /** Where the port answers to whoever brings the token. */
  portUrl(port: number, path = '/'): string {
    return this.#http.origin + this.#portPath(port, path)
  }

  /** As fetch would have it: a path with .. in it could lead to the API itself, and the token goes with it. */
  #portPath(port: number, path: string): string {
    const prefix = fill(PORT[1].replace('{rest}', ''), { ...this.#at, port })
    const { pathname, search } = new URL(this.#http.origin + prefix + path.replace(/^\/+/, ''))
    const plain = (path.split(/[?#]/)[0] ?? '').replace(/%2e/gi, '.').replace(/%2f|%5c|\\/gi, '/')
    if (!pathname.startsWith(prefix) || plain.split('/').includes('..')) throw new TypeError("a path below a port has no '..'")
    return pathname + search
  }

  /** Whatever answers there, with its own status; redirects are not followed. */
  async portRequest(method: string, port: number, path = '/', ask: Pick<Ask, 'data' | 'headers' | 'signal'> = {}): Promise<Response> {
    return this.#http.send(method, this.#portPath(port, path), ask)
  }

  /** A link that opens the port in a browser's tab, once, within 30 seconds; domain is ports_domain of the server. */
  async tabUrl(port: number, domain: string): Promise<string> {
    const { ticket } = await this.#http.call<{ ticket: string }>('POST', '/api/auth/ticket', {}, { json: { path: `//${port}-${this.id}` } })
    const at = new URL(this.#http.origin)
    return `${at.protocol}//${port}-${this.id}.${domain}${at.port ? `:${at.port}` : ''}/.stockade/open?ticket=${ticket}`
  }

  // --- SSH

  /** Whoever has the private key may come in: ssh -p PORT ID@HOST. publicKey: one line of a .pub file. */
  async addSshKey(publicKey: string, username?: string): Promise<SshKey> {
    const made = await this.#http.call<{ result: SshKey }>('POST', '/api/sandboxes/{sandbox}/ssh', this.#at, { json: { public_key: publicKey, username } })
    return made.result
  }

  /** Its sessions are cut. */
  async removeSshKey(key: { public_key: string } | { fingerprint: string }): Promise<void> {
    await this.#http.call('DELETE', '/api/sandboxes/{sandbox}/ssh', this.#at, { json: key })
  }

  async sshKeys(): Promise<SshKey[]> {
    return (await this.#http.call<{ keys: SshKey[] }>('GET', '/api/sandboxes/{sandbox}/ssh', this.#at)).keys
  }

  /** Whom `ssh` names, and where. */
  sshUser(): Promise<{ username: string; listen: string[] }> {
    return this.#http.call('GET', '/api/sandboxes/{sandbox}/ssh/user', this.#at)
  }

  // --- secrets

  /** Their names; nobody gets a value. */
  async secrets(): Promise<SecretName[]> {
    return (await this.#http.call<{ secrets: SecretName[] }>('GET', '/api/sandboxes/{sandbox}/secrets', this.#at)).secrets
  }

  /** From now on, without a restart. */
  async giveSecrets(secrets: Record<string, string>): Promise<void> {
    await this.#http.call('POST', '/api/sandboxes/{sandbox}/secrets', this.#at, { json: { secrets } })
  }

  async wipeSecrets(): Promise<void> {
    await this.#http.call('DELETE', '/api/sandboxes/{sandbox}/secrets', this.#at)
  }

  // --- snapshots

  snapshot(options: { name?: string; key?: string } = {}): Promise<Snapshot> {
    return this.#http.call('POST', '/api/sandboxes/{sandbox}/snapshot', this.#at, { json: options })
  }

  /** Puts its disk back; it is stopped first, and runs afterwards. */
  async rollback(snapshot: string, options: { key?: string } = {}): Promise<SandboxInfo> {
    return (this.info = await this.#http.call('POST', '/api/sandboxes/{sandbox}/rollback', this.#at, { json: { snapshot, ...options } }))
  }

  /** Another one, which begins with the files that this one has now. */
  async fork(options: { name?: string; driver?: string; key?: string } = {}): Promise<Sandbox> {
    return new Sandbox(this.#http, await this.#http.call('POST', '/api/sandboxes/{sandbox}/fork', this.#at, { json: options }))
  }

  // --- what happened

  /** As Client.events, of this sandbox alone. */
  events(options: EventOptions = {}): AsyncGenerator<LedgerEvent, void, undefined> {
    return ledgerEvents(this.#http, 'GET', '/api/sandboxes/{sandbox}/events', this.#at, options)
  }

  /** All that the ledger says about it, or about one run, with signatures: `stockade ledger verify FILE` checks it. */
  async evidence(run?: number): Promise<string> {
    const response = run === undefined
      ? await this.#http.open('GET', '/api/sandboxes/{sandbox}/evidence', this.#at)
      : await this.#http.open('GET', '/api/sandboxes/{sandbox}/evidence/{run}', { ...this.#at, run })
    return response.text()
  }
}
