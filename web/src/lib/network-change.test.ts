import { StockadeError, type Sandbox } from 'stockade-client'
import { describe, expect, it } from 'vitest'
import { apply, check, planAdd, planList, readEntry, rebase, takeBack, WouldLose } from './network-change'
import { rulesOf, shortForm } from './policy-text'

const policy = (...rules: string[]): string => `profile: 1\nnetwork:\n  allow:${rules.length ? '' : ' []'}\n${rules.map((r) => `    - ${r}\n`).join('')}`
const SIMPLE = policy('{host: known.test}')
const RICH = policy('{host: known.test}', '{host: api.test, secret: KEY}')

/** A sandbox that keeps what it was asked. */
function sandbox(effective = ''): { box: Sandbox; asked: unknown[] } {
  const asked: unknown[] = []
  const keep = (name: string) => (what: unknown) => Promise.resolve(asked.push([name, what]))
  return { box: { allow: keep('allow'), allowMore: keep('allowMore'), tryNetwork: keep('tryNetwork'), policy: () => Promise.resolve({ effective }) } as unknown as Sandbox, asked }
}

describe('a change of the network', () => {
  it('reads entries as the server does', () => {
    for (const entry of ['a.test', '*.a.test', 'a.test:8443', 'a.test:22,80', 'a.test:*', '203.0.113.0/24:5432', '[2001:db8::/32]:443', '2001:db8::/32']) expect(shortForm(readEntry(entry)), entry).toBe(entry)
    expect(readEntry('1.2.3.4:80')).toMatchObject({ cidr: '1.2.3.4/32', ports: [80] })
    expect(readEntry('2001:db8::1')).toMatchObject({ cidr: '2001:db8::1/128', ports: 'usual' })
    expect(readEntry('[2001:db8::1]:443')).toMatchObject({ cidr: '2001:db8::1/128', ports: [443] })
  })

  it('adds what is not there yet', () => {
    expect(planAdd(SIMPLE, ['evil.test', 'known.test', 'evil.test'])).toMatchObject({ add: ['evil.test'], allow: ['known.test', 'evil.test'] })
    expect(planAdd(RICH, ['evil.test'])).toMatchObject({ add: ['evil.test'], allow: undefined })
    expect(planAdd(SIMPLE, ['known.test']).add).toEqual([])
  })

  it('is made in the way that keeps the rest', async () => {
    const { box, asked } = sandbox()
    await apply(box, planAdd(RICH, ['evil.test']))
    await apply(box, planList(SIMPLE, [readEntry('other.test:22')]))
    expect(asked).toEqual([['allowMore', ['evil.test']], ['allow', ['other.test:22']]])
  })

  it('is refused rather than losing a rule', async () => {
    const { box, asked } = sandbox()
    const fewer = planList(RICH, planAdd(RICH, []).before.slice(1))
    await expect(apply(box, fewer)).rejects.toThrow(WouldLose)
    await expect(check(box, fewer)).rejects.toThrow(WouldLose)
    expect(asked).toEqual([])
  })

  it('is asked about first', async () => {
    const { box, asked } = sandbox()
    await check(box, planAdd(SIMPLE, ['evil.test']))
    expect(asked).toEqual([['tryNetwork', { add: ['evil.test'] }]])
    const refuses = { tryNetwork: () => Promise.reject(new StockadeError(403, 'REFUSED', 'no')) } as unknown as Sandbox
    await expect(check(refuses, planAdd(SIMPLE, ['evil.test']))).rejects.toThrow('no')
  })

  it('can be taken back, and nothing else goes with it', async () => {
    const done = planAdd(SIMPLE, ['evil.test:80'])
    const { box, asked } = sandbox(policy('{host: known.test}', '{host: evil.test, ports: [80]}', '{host: later.test}', '{host: evil.test}'))
    await takeBack(box, done)
    expect(asked).toEqual([['allow', ['known.test', 'later.test', 'evil.test']]])
  })

  it('is not taken back where a rule would be lost, nor twice', async () => {
    const done = planAdd(SIMPLE, ['evil.test'])
    const rich = sandbox(policy('{host: evil.test}', '{host: api.test, secret: KEY}'))
    await expect(takeBack(rich.box, done)).rejects.toThrow(WouldLose)
    const gone = sandbox(SIMPLE)
    await expect(takeBack(gone.box, done)).rejects.toThrow('no rule for evil.test')
    expect([...rich.asked, ...gone.asked]).toEqual([])
  })

  it('that is only meant so far is made to what others have changed', () => {
    const rules = (...hosts: string[]) => hosts.map(readEntry)
    const meant = (now: ReturnType<typeof rules>) => rebase(rules('a.test', 'b.test'), rules('b.test', 'new.test'), now).map(shortForm)
    expect(meant(rules('a.test', 'b.test'))).toEqual(['b.test', 'new.test'])
    expect(meant(rules('a.test', 'b.test', 'c.test'))).toEqual(['b.test', 'c.test', 'new.test'])
    expect(meant(rules('new.test'))).toEqual(['new.test'])
    expect(rebase(rulesOf(RICH), rulesOf(RICH), rulesOf(RICH))).toEqual(rulesOf(RICH))
  })
})
