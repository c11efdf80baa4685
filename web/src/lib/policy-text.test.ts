import { describe, expect, it } from 'vitest'
import { at, compareRules, parsePolicy, placeWords, reachOf, rulesOf, shortForm, termsWords } from './policy-text'

const TEXT = `profile: 1
name: web
sealed: false
isolation:
  at_least: container
  prefer: []
files:
  workspace:
    path: /home/agent
    size: 1GiB
    inodes: 200k
  read: [/usr, "/opt/a b"]
  write:
    - /home/agent
    - {path: /tmp, size: 256MiB, inodes: 32k}
  hide: []
network:
  allow:
    - {host: known.test}
    - {host: "*.wide.test", ports: any}
    - {host: api.test, ports: [443, 8443], methods: [GET, POST], paths: ["/v1/*", "/a,b]"], secret: API_KEY}
    - {cidr: "2001:db8::/32", ports: [5432], private: true}
tools:
  exec: [/usr]
  call: []
limits:
  cpus: 2
  memory: 2GiB
time:
  run: 1h
budget:
  cpu: 2h
user:
  root: none
env:
  GREETING: "say \\"hi\\": [now]"
  PLAIN: x
secrets: [API_KEY]
shm: 64MiB
`

describe('a policy as the server prints it', () => {
  const policy = parsePolicy(TEXT)

  it('is read with its sections, lists and quotes', () => {
    expect(at(policy, 'name')).toBe('web')
    expect(at(policy, 'files', 'workspace', 'size')).toBe('1GiB')
    expect(at(policy, 'files', 'read')).toEqual(['/usr', '/opt/a b'])
    expect(at(policy, 'files', 'write')).toEqual(['/home/agent', { path: '/tmp', size: '256MiB', inodes: '32k' }])
    expect(at(policy, 'files', 'hide')).toEqual([])
    expect(at(policy, 'env')).toEqual({ GREETING: 'say "hi": [now]', PLAIN: 'x' })
    expect(at(policy, 'shm')).toBe('64MiB')
    expect(at(policy, 'nothing', 'here')).toBeUndefined()
    expect(at(policy, 'constructor')).toBeUndefined()
  })

  it('has its rules in order', () => {
    const rules = rulesOf(TEXT)
    expect(rules.map(placeWords)).toEqual(['known.test', 'every host below wide.test', 'api.test', '2001:db8::/32'])
    expect(rules[2]).toEqual({ host: 'api.test', ports: [443, 8443], methods: ['GET', 'POST'], paths: ['/v1/*', '/a,b]'], secret: 'API_KEY', private: false, inspect: false })
    expect(rules.map(shortForm)).toEqual(['known.test', '*.wide.test:*', undefined, undefined])
  })

  it('never throws, whatever the text is', () => {
    for (const text of ['', '[', '- {', 'a: {b: [', 'a:\n  - {host: "x', '{{{{', ': :', 'a: ]', 'a: [,,}', '\t- x', 'network:\n  allow:\n    - ]']) {
      expect(() => parsePolicy(text)).not.toThrow()
      expect(() => rulesOf(text)).not.toThrow()
    }
    for (let i = 0; i < TEXT.length; i += 7) expect(() => rulesOf(TEXT.slice(0, i) + TEXT.slice(i + 3))).not.toThrow()
  })
})

describe('the short form', () => {
  const short = (entry: Record<string, string | string[]>): string | undefined => shortForm(reachOf(entry))
  it('says the same, or is not there', () => {
    expect(short({ host: 'a.test' })).toBe('a.test')
    expect(short({ host: 'a.test', ports: ['22', '80'] })).toBe('a.test:22,80')
    expect(short({ cidr: '203.0.113.0/24', ports: ['5432'] })).toBe('203.0.113.0/24:5432')
    expect(short({ cidr: '2001:db8::/32', ports: ['443'] })).toBe('[2001:db8::/32]:443')
    expect(short({ cidr: '2001:db8::/32' })).toBe('2001:db8::/32')
    for (const more of [{ methods: ['GET'] }, { paths: ['/'] }, { secret: 'X' }, { private: 'true' }, { inspect: 'true' }]) expect(short({ host: 'a.test', ...more })).toBeUndefined()
  })
  it('has words', () => {
    expect(termsWords(reachOf({ host: 'a' }))).toBe('web (ports 80 and 443)')
    expect(termsWords(reachOf({ host: 'a', ports: ['22'] }))).toBe('port 22')
    expect(termsWords(reachOf({ host: 'a', ports: 'any', private: 'true' }))).toBe('any port; also at a private address')
  })
})

it('a change is told apart', () => {
  const [a, b, c] = [reachOf('a.test'), reachOf('b.test'), reachOf({ host: 'a.test', ports: ['1'] })]
  expect(compareRules([a, b], [b, c])).toEqual({ kept: [b], added: [c], removed: [a] })
})
