// Policies as the server prints them: read into values, and the network part as rules. What a policy means as a whole the
// server says itself.

export type Value = string | Value[] | { [key: string]: Value }

/** One entry of network.allow. */
export interface Reach {
  host?: string
  cidr?: string
  ports: number[] | 'any' | 'usual'
  methods: string[]
  paths: string[]
  secret?: string
  private: boolean
  inspect: boolean
}

// --- reading

class Flow {
  #at = 0

  constructor(readonly text: string) {}

  value(): Value {
    this.#blanks()
    const c = this.text[this.#at]
    if (c === '[') return this.#list()
    if (c === '{') return this.#map()
    if (c === '"') return this.#quoted()
    const end = /[,\]}:](\s|$)|[\]}]/.exec(this.text.slice(this.#at))
    const word = end ? this.text.slice(this.#at, this.#at + end.index) : this.text.slice(this.#at)
    this.#at += word.length
    return word.trim()
  }

  #blanks(): void {
    while (this.text[this.#at] === ' ') this.#at++
  }

  #take(c: string): boolean {
    this.#blanks()
    if (this.text[this.#at] !== c) return false
    this.#at++
    return true
  }

  #quoted(): string {
    let found = ''
    for (this.#at++; this.#at < this.text.length && this.text[this.#at] !== '"'; this.#at++) {
      if (this.text[this.#at] === '\\') this.#at++
      found += this.text[this.#at] ?? ''
    }
    this.#at++
    return found
  }

  #list(): Value[] {
    const found: Value[] = []
    this.#at++
    while (this.#at < this.text.length && !this.#take(']')) {
      const from = this.#at
      found.push(this.value())
      if (!this.#take(',') && this.#at === from) this.#at++ // what makes no sense is passed over
    }
    return found
  }

  #map(): Record<string, Value> {
    const found: Record<string, Value> = {}
    this.#at++
    while (this.#at < this.text.length && !this.#take('}')) {
      const from = this.#at
      const key = this.value()
      if (typeof key === 'string' && this.#take(':')) found[key] = this.value()
      if (!this.#take(',') && this.#at === from) this.#at++
    }
    return found
  }
}

const LINE = /^( *)(- )?(?:([A-Za-z_][\w-]*):(?: +|$))?(.*)$/

interface Open {
  indent: number
  put: (value: Value) => void
  made?: Value[] | Record<string, Value>
}

/** Never throws: what is not understood is left out. */
export function parsePolicy(text: string): Record<string, Value> {
  const root: Record<string, Value> = {}
  const open: Open[] = [{ indent: -1, put: () => undefined, made: root }]
  for (const line of text.split('\n')) {
    const [, blanks = '', dash, key, rest = ''] = LINE.exec(line) ?? []
    if (!line.trim() || line.trimStart().startsWith('#')) continue
    while (open.length > 1 && (open[open.length - 1]?.indent ?? -1) >= blanks.length) open.pop()
    const top = open[open.length - 1]
    if (!top) continue
    if (dash) {
      if (!Array.isArray(top.made)) top.put((top.made = []))
      ;(top.made as Value[]).push(new Flow(key === undefined ? rest : `${key}: ${rest}`).value())
    } else if (key !== undefined) {
      if (top.made === undefined) top.put((top.made = {}))
      const into = top.made
      if (Array.isArray(into)) continue
      const value = rest.replace(/\s+#.*$/, '')
      if (value) into[key] = new Flow(value).value()
      else {
        into[key] = ''
        open.push({ indent: blanks.length, put: (v) => void (into[key] = v) })
      }
    }
  }
  return root
}

/** at(policy, 'network', 'allow') */
export function at(value: Value | undefined, ...path: string[]): Value | undefined {
  let found = value
  for (const key of path) {
    if (typeof found !== 'object' || Array.isArray(found)) return undefined
    found = Object.hasOwn(found, key) ? found[key] : undefined
  }
  return found
}

function texts(value: Value | undefined): string[] {
  if (Array.isArray(value)) return value.filter((v): v is string => typeof v === 'string')
  return typeof value === 'string' && value ? [value] : []
}

function text(value: Value | undefined): string | undefined {
  return typeof value === 'string' && value ? value : undefined
}

// --- the network part

export function reachOf(value: Value): Reach {
  const entry = typeof value === 'string' ? { host: value } : Array.isArray(value) ? {} : value
  const ports = entry['ports']
  const reach: Reach = {
    ports: ports === 'any' ? 'any' : ports === undefined ? 'usual' : texts(ports).map(Number),
    methods: texts(entry['methods']),
    paths: texts(entry['paths']),
    private: entry['private'] === 'true',
    inspect: entry['inspect'] === 'true',
  }
  const host = text(entry['host'])
  const cidr = text(entry['cidr'])
  const secret = text(entry['secret'])
  if (host) reach.host = host
  if (cidr) reach.cidr = cidr
  if (secret) reach.secret = secret
  return reach
}

export function rulesOf(policy: string): Reach[] {
  const found = at(parsePolicy(policy), 'network', 'allow')
  return Array.isArray(found) ? found.map(reachOf) : []
}

/** As the command line writes it: host, host:8443, 203.0.113.0/24:5432. undefined: it says more than this form can. */
export function shortForm(reach: Reach): string | undefined {
  if (reach.methods.length || reach.paths.length || reach.secret || reach.private || reach.inspect) return undefined
  const place = reach.host ?? reach.cidr
  if (!place) return undefined
  const ports = reach.ports === 'usual' ? '' : reach.ports === 'any' ? ':*' : `:${reach.ports.join(',')}`
  return place.includes(':') && ports ? `[${place}]${ports}` : place + ports
}

function list(words: string[], last = 'and'): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} ${last} ${words[words.length - 1] ?? ''}`
}

export function placeWords(reach: Reach): string {
  if (reach.host === '*') return 'any host by name'
  if (reach.host?.startsWith('*.')) return `every host below ${reach.host.slice(2)}`
  if (reach.cidr === '0.0.0.0/0') return 'any IPv4 address'
  if (reach.cidr === '::/0') return 'any IPv6 address'
  return reach.host ?? (reach.cidr?.replace(reach.cidr.includes(':') ? /\/128$/ : /\/32$/, '') || 'nothing')
}

/** What comes after the place: "ports 80 and 443; only GET". */
export function termsWords(reach: Reach): string {
  const words = [
    reach.ports === 'usual' ? 'web (ports 80 and 443)' : reach.ports === 'any' ? 'any port' : `port${reach.ports.length > 1 ? 's' : ''} ${list(reach.ports.map(String))}`,
  ]
  if (reach.methods.length) words.push(`only ${list(reach.methods)}`)
  if (reach.paths.length) words.push(`only ${list(reach.paths)}`)
  if (reach.secret) words.push(`the gate puts the secret ${reach.secret} in`)
  if (reach.private) words.push('also at a private address')
  if (reach.inspect) words.push('TLS is opened and looked at')
  return words.join('; ')
}

/** What a change of the list would do. */
export function compareRules(before: Reach[], after: Reach[]): { kept: Reach[]; added: Reach[]; removed: Reach[] } {
  const name = (r: Reach): string => JSON.stringify([r.host, r.cidr, r.ports, r.methods, r.paths, r.secret, r.private, r.inspect])
  const old = new Set(before.map(name))
  const now = new Set(after.map(name))
  return {
    kept: after.filter((r) => old.has(name(r))),
    added: after.filter((r) => !old.has(name(r))),
    removed: before.filter((r) => !now.has(name(r))),
  }
}
