import { describe, expect, it } from 'vitest'
import type { SandboxInfo, State } from 'stockade-client'
import { filterSandboxes, statesOf } from './filter'

function box(name: string, state: State = 'running', profile = 'medium'): SandboxInfo {
  return { id: name.padEnd(16, '0'), owner: 'o', name, state, reason: '', profile, driver: 'native', driver_why: '', image: '', persistent: true, created_ms: 0, started_ms: 0, ended_ms: 0, used_ms: 0 }
}

describe('finding sandboxes', () => {
  const all = [box('build'), box('Train', 'stopped', 'high'), box('test', 'stopped')]

  it('finds by words, however they are written', () => {
    expect(filterSandboxes(all, 'TRAIN', '').map((s) => s.name)).toEqual(['Train'])
    expect(filterSandboxes(all, ' high  tra ', '').map((s) => s.name)).toEqual(['Train'])
    expect(filterSandboxes(all, 'high test', '')).toEqual([])
  })

  it('finds by state', () => {
    expect(filterSandboxes(all, '', 'stopped').map((s) => s.name)).toEqual(['Train', 'test'])
    expect(filterSandboxes(all, 'test', 'running')).toEqual([])
  })

  it('changes nothing when nothing is wanted', () => {
    expect(filterSandboxes(all, '  ', '')).toBe(all)
  })

  it('lists the states that occur', () => {
    expect(statesOf(all)).toEqual(['stopped', 'running'])
  })
})
