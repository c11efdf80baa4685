// The shapes of answers. A server that is newer than this client may say more.

export interface Challenge {
  nonce: string
  message: string
  expires_at: number
  expires_at_ms: number
}

export interface Session {
  token: string
  address: string
  owner: string
  expires_at: number
  expires_at_ms: number
  expires: string
}

export interface WhoAmI {
  owner: string
  address: string
  operator: boolean
  jti: string
  expires_at_ms: number
}

export type State =
  | 'creating' | 'starting' | 'running' | 'paused' | 'stopping' | 'stopped' | 'quarantined' | 'failed' | 'deleting' | 'deleted'

export interface SandboxInfo {
  id: string
  owner: string
  name: string
  state: State
  reason: string
  profile: string
  driver: string
  /** How it came to be this one, in words; empty when nobody knows any more. */
  driver_why: string
  image: string
  persistent: boolean
  created_ms: number
  started_ms: number
  ended_ms: number
  used_ms: number
  /** Where commands begin; only when one sandbox was asked for. */
  cwd?: string
  policy?: string
}

export interface RunInfo {
  sandbox: string
  run: number
  /** Its arguments; of a line for a shell: /bin/sh, -lc and the line. */
  command?: string[]
  state: string
  reason: string
  exit_code: number | null
  signal: number | null
  tty: boolean
  started_ms: number
  ended_ms: number
  cpu_us: number
  memory_peak: number
  out_bytes: number
  err_bytes: number
}

export interface Usage {
  sandbox: string
  cpu_us: number
  memory: number
  memory_peak: number
  processes: number
  read_bytes: number | null
  write_bytes: number | null
  disk_used: number | null
  disk_size: number | null
}

export interface Process {
  pid: number
  parent: number
  uid: number
  state: string
  memory: number
  started_ms: number
  cpu_us: number
  command: string
}

export interface Entry {
  name: string
  kind: 'file' | 'folder' | 'link' | 'pipe' | 'socket' | 'device' | 'other'
  size: number
  mode: number
  mtime_ms: number
  uid: number
  gid: number
  target?: string
  /** Of a file, from stat: another one when it is changed. */
  etag?: string
}

export interface Change {
  change: 'made' | 'removed' | 'changed' | 'attributes' | 'moved' | 'lost'
  path: string
  to?: string
}

export interface SecretName {
  name: string
  given: boolean
}

export interface SshKey {
  fingerprint: string
  type: string
  username: string
  comment: string
  created_ms: number
}

export interface Snapshot {
  id: string
  name: string
  sandbox: string
  owner: string
  state: string
  created_ms: number
  bytes: number
  layers: number
  /** Where its files are inside. */
  root?: string | null
}

export interface Diff {
  added: number
  changed: number
  removed: number
  truncated: boolean
  changes: { change: string; path: string; kind?: string; size?: number }[]
}

export interface CapabilityToken {
  jti: string
  about: string
  created_at_ms: number
  expires_at_ms: number
  last_use_ms: number | null
  revoked: boolean
  grant: Record<string, unknown>
}

export interface LedgerEvent {
  seq: number
  kind: string
  data: Record<string, unknown>
}

/** started (info: where its output begins), stdout and stderr (data), lost (info: how much is missing), exit (info: the run). */
export interface RunEvent {
  kind: 'started' | 'stdout' | 'stderr' | 'lost' | 'exit'
  data: Uint8Array
  info: Record<string, unknown>
}

export interface CreateOptions {
  profile?: string
  /** A profile as YAML. */
  profile_text?: string
  name?: string
  overrides?: Record<string, string>
  allow?: string[]
  image?: string
  from_snapshot?: string
  memory_only?: boolean
  /** native, docker, gvisor, microvm or firecracker; without it the policy and the operator decide. */
  driver?: string
  secrets?: Record<string, string>
  /** Makes the request idempotent for a day. */
  key?: string
  owner?: string
}

export interface ExecOptions {
  cwd?: string
  env?: Record<string, string>
  stdin?: string
  timeout_ms?: number
  key?: string
}

export interface StartOptions extends Omit<ExecOptions, 'stdin'> {
  tty?: boolean
}

export interface TerminalOptions {
  /** Without one: a login shell. */
  command?: string
  cwd?: string
  rows?: number
  cols?: number
  env?: Record<string, string>
}

/** What a sandbox with a policy may do. */
export interface Summary {
  /** Sentence by sentence, made from the policy. */
  summary: string[]
  /** The same sentences under their titles. */
  sections: { title: string; sentences: string[] }[]
  /** Bytes, milliseconds, thousandths of a processor; null: no limit. */
  limits: Record<'cpus_thousandths' | 'memory' | 'processes' | 'files' | 'disk' | 'output' | 'run_ms' | 'idle_ms' | 'lifetime_ms' | 'cpu_ms' | 'egress', number | null>
  /** What can be reached, as in `allow`. */
  network: string[]
  /** Programs that may be executed; null: any that it sees. */
  programs: string[] | null
  secrets: string[]
  /** The whole policy, in the notation of a profile. */
  effective: Record<string, unknown>
}

export interface Profile extends Partial<Summary> {
  name: string
  about: string
  builtin: boolean
  /** Taken when none is named. */
  standard: boolean
  /** false: it cannot be used here; error says why. */
  ok: boolean
  error?: string
  hint?: string | null
  extends?: string | null
  sealed?: boolean
}

export interface ProfileKey {
  key: string
  type: 'number' | 'boolean' | 'choice' | 'text' | 'list' | 'entries' | 'map'
  /** What a value looks like, in words. */
  form: string
  unit?: 'count' | 'bytes' | 'bytes/s' | 'ms' | 'cpus' | 'money'
  min?: string
  max?: string
  min_value?: number
  max_value?: number
  choices?: string[]
  enforced: boolean
  about: string
}

export interface ProfileWishes {
  profile?: string
  profile_text?: string
  overrides?: Record<string, string>
  allow?: string[]
  image?: string
  memory_only?: boolean
}

export interface ProfileProblem {
  /** overrides.KEY, allow.N, profile, profile_text, image; empty: the wishes as a whole. */
  field: string
  code: string
  error: string
  hint: string | null
}

export type ProfileCheck =
  | ({ ok: true; profile: string; persistent: boolean; cwd: string } & Summary)
  | { ok: false; problems: ProfileProblem[] }

/** Of one sandbox. */
export interface PolicyInfo {
  id: string
  profile: string
  /** The policy as the text of a profile. */
  effective: string
  /** The profile of that name as it is now; null, with error, where there is none. */
  asked: { profile: string; policy: Record<string, unknown> | null; error?: string }
  differs: { key: string; asked: unknown; effective: unknown }[]
  described: Summary
  network: boolean
  driver: string
  held: boolean
}

/** What a sandbox used at one moment; null where the host does not say. */
export interface Sample {
  at_ms: number
  /** Since it was made. */
  cpu_us: number | null
  memory: number | null
  io_read: number | null
  io_write: number | null
  /** As its gate has told; null: it has no network. */
  net_in: number | null
  net_out: number | null
  processes: number | null
  disk: number | null
}

export interface UsageHistory {
  sandbox: string
  running: boolean
  every_ms: number
  limits: Record<'cpus_thousandths' | 'memory' | 'disk' | 'cpu_ms' | 'egress', number | null>
  samples: Sample[]
}

export interface EventSearch {
  /** An id or a name; of one that was deleted within a day, the id. */
  sandbox?: string
  /** Families ("net") and single kinds ("run.start"). */
  kinds?: string[]
  text?: string
  since_ms?: number
  until_ms?: number
  before?: number
  limit?: number
  /** Everybody's: operators only. */
  all?: boolean
}

export interface EventPage {
  events: LedgerEvent[]
  next: number | null
  looked: number
}

/** One mechanism that sandboxes are made of. */
export interface Fact {
  name: string
  /** Of `drivers`: one that is offered, or not. */
  group: string
  state: 'ok' | 'limited' | 'missing'
  needed_for_low: boolean
  detail: string
  /** What is lost without it; empty where it works. */
  cost: string
  /** What changes that; empty where nothing does. */
  fix: string
}

export interface Doctor {
  /** Sandboxes of the profile low can run. */
  low: boolean
  uid: number
  facts: Fact[]
}

export interface Pool {
  ready: number
  size: number
  making: boolean
  kinds: { profile: string; driver: string; ready: number }[]
}

export interface GateNames {
  names: { host: string; allowed: number; denied: number; sent: number; received: number; reason: string | null }[]
  more: boolean
  next: number | null
  looked: number
}
