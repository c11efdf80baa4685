import { describe, expect, it } from 'vitest'
import type { Profile, ProfileKey } from 'stockade-client'
import { fieldsOf, hintOf, problemAt, quietProfile, titleOf, usualProfile } from './profiles'

const profile = (name: string, more: Partial<Profile> = {}): Profile => ({ name, about: '', builtin: true, standard: false, ok: true, ...more })
const key = (name: string, more: Partial<ProfileKey> = {}): ProfileKey => ({ key: name, type: 'number', form: '', enforced: true, about: 'about it', ...more })

describe('profiles', () => {
  it('offers one that can be used', () => {
    expect(usualProfile([profile('low', { standard: true }), profile('medium')])).toBe('medium')
    expect(usualProfile([profile('own'), profile('low', { standard: true })])).toBe('low')
    expect(usualProfile([profile('medium', { ok: false }), profile('own')])).toBe('own')
    expect(usualProfile([profile('broken', { ok: false })])).toBe('broken')
    expect(usualProfile([])).toBe('')
  })

  it('knows one that reaches nobody, or none', () => {
    const quiet = { network: [], standard: true }
    expect(quietProfile([profile('low', quiet), profile('medium', quiet)])).toBe('medium')
    expect(quietProfile([profile('low', quiet), profile('medium', { network: ['a.test'], standard: true })])).toBe('low')
    expect(quietProfile([profile('own', { network: [] }), profile('web', { network: ['*'], standard: true })])).toBeUndefined()
    expect(quietProfile([profile('medium', { ...quiet, ok: false }), profile('unknown', { standard: true })])).toBeUndefined()
  })

  it('sorts keys into those that people look for and the others', () => {
    const keys = [key('zeta'), key('limits.memory'), key('limits.cpus'), key('later', { enforced: false }), key('files.write', { type: 'entries' }), key('alpha', { type: 'boolean' })]
    const { common, others } = fieldsOf(keys)
    expect(common.map(titleOf)).toEqual(['Processors', 'Memory'])
    expect(others.map(titleOf)).toEqual(['alpha', 'zeta'])
  })

  it('says bounds', () => {
    expect(hintOf(key('limits.memory', { min: '1MiB', max: '4GiB' }))).toBe('1MiB to 4GiB · about it')
    expect(hintOf(key('x'))).toBe('about it')
  })

  it('finds the problem of a field', () => {
    const problems = [{ field: 'overrides.limits.memory', code: 'refused', error: 'too much', hint: 'ask for less' }, { field: 'allow.2', code: 'bad_request', error: 'no host', hint: null }]
    expect(problemAt(problems, 'overrides.limits.memory')).toBe('too much: ask for less')
    expect(problemAt(problems, 'allow')).toBe('no host')
    expect(problemAt(problems, 'overrides.limits')).toBe('too much: ask for less')
    expect(problemAt(problems, 'profile')).toBeUndefined()
  })
})
