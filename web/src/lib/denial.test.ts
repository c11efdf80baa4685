import { describe, expect, it } from 'vitest'
import { entryFor, explainDenial, isHostName } from './denial'

describe('how to allow what was refused', () => {
  it('names the host, with its port where that is not usual', () => {
    expect(entryFor('evil.test', 80)).toBe('evil.test')
    expect(entryFor('evil.test', 443)).toBe('evil.test')
    expect(entryFor('evil.test', 0)).toBe('evil.test')
    expect(entryFor('evil.test', 8443)).toBe('evil.test:8443')
    expect(entryFor('1.2.3.4', 80)).toBe('1.2.3.4:80')
    expect(entryFor('2001:db8::1', 443)).toBe('[2001:db8::1]:443')
  })

  it('never suggests what is no plain name or address', () => {
    for (const host of ['', '*', '*.test', 'a b', 'a,b', 'EVIL.test', 'evil.test.', '<b>x</b>', 'x\n', 'a..b', '-a.test', 'a:80', '1.2.3', '01.2.3.4', '256.1.1.1', '0x7f.1', '::ffff:1.2.3.4', ':::', '1::2::3', 'x'.repeat(64), `${'a.'.repeat(130)}a`, '"], [', 'пример.test'])
      expect(entryFor(host, 443), JSON.stringify(host)).toBeUndefined()
    expect(entryFor('a.test', 70000)).toBeUndefined()
    expect(entryFor('a.test', 1.5)).toBeUndefined()
    expect(isHostName('xn--e1afmkfd.test')).toBe(true)
  })

  it('is offered only where a rule would help', () => {
    const entry = (reason: string): string | undefined => explainDenial('net.deny', { host: 'a.test', port: 443, reason }).entry
    expect(entry('no-rule')).toBe('a.test')
    expect(entry('revoked')).toBe('a.test')
    expect(explainDenial('net.deny', { host: 'a.test', port: 22, reason: 'no-port' }).entry).toBe('a.test:22')
    for (const reason of ['private', 'unresolved', 'no-method', 'egress', 'certificate', 'toString', 'something-new', '']) expect(entry(reason), reason).toBeUndefined()
    expect(explainDenial('dns.deny', { host: 'a.test', reason: 'no-rule' })).toMatchObject({ what: 'the name a.test', entry: 'a.test', why: 'no rule names this host' })
    expect(explainDenial('net.deny', { host: '<img>', reason: 'no-rule' }).how).toContain('cannot be allowed')
    expect(explainDenial('net.deny', { host: 'a\u202eb', reason: '\u200bx' })).toMatchObject({ what: 'a‹U+202E›b', why: '‹U+200B›x' })
    expect(explainDenial('net.deny', {})).toMatchObject({ what: 'an address', why: 'it was refused' })
  })
})
