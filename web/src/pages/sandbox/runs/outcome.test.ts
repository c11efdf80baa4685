import { describe, expect, it } from 'vitest'
import type { RunInfo } from 'stockade-client'
import { chosenRuns } from './choose'
import { commandLine, outcome, took } from './outcome'

describe('how a run ended', () => {
  it('is said in words', () => {
    expect(outcome({ state: 'exited', reason: 'exited', exit_code: 0 })).toMatchObject({ text: 'Ended well (exit code 0).', tone: 'good' })
    expect(outcome({ state: 'exited', reason: 'exited', exit_code: 127 }).text).toBe('Ended with exit code 127: there is no such command.')
    expect(outcome({ state: 'exited', reason: 'exited', exit_code: 3 }).text).toBe('Ended with exit code 3.')
    expect(outcome({ state: 'exited', reason: 'oom', exit_code: 137, signal: 9 }).text).toMatch(/more memory/)
    expect(outcome({ state: 'exited', reason: 'signal', signal: 11, exit_code: 139 }).text).toMatch(/SIGSEGV/)
    expect(outcome({ state: 'exited', reason: 'signal', signal: 40 }).text).toMatch(/number 40/)
    expect(outcome({ state: 'exited', reason: 'denied' }).tone).toBe('deny')
    expect(outcome({ state: 'running', reason: '' })).toMatchObject({ text: 'Runs', tone: 'accent' })
    expect(outcome({ state: 'lost', reason: 'lost', exit_code: null }).text).toMatch(/^Lost/)
    expect(outcome({ state: 'exited', exit_code: null }).text).toMatch(/not known/)
  })
  it('every reason of the server has words of its own', () => {
    for (const reason of ['timeout', 'oom', 'disk_full', 'output_limit', 'budget', 'stopped', 'denied', 'driver_failed', 'cancelled', 'lost', 'idle', 'lifetime', 'rollback', 'quarantine', 'not_begun', 'signal'])
      expect(outcome({ state: 'exited', reason, exit_code: 1, signal: 0 }).text).not.toMatch(/exit code/)
  })
  it('and how long it took', () => {
    expect(took({ started_ms: 1000, ended_ms: 3000 }, 9000)).toBe(took({ started_ms: 1000, ended_ms: 0 }, 3000))
    expect(took({}, 5)).toBe('')
  })
})

describe('commands', () => {
  it('are shown as one types them', () => {
    expect(commandLine(['/bin/sh', '-lc', 'ls | wc'])).toBe('ls | wc')
    expect(commandLine(['echo', 'a b', "it's", 'x'])).toBe("echo 'a b' 'it'\\''s' x")
    expect(commandLine([])).toBe('')
    expect(commandLine(undefined)).toBe('')
  })
})

describe('which runs are shown', () => {
  const run = (number: number, more: Partial<RunInfo>): RunInfo =>
    ({ run: number, state: 'exited', exit_code: 0, tty: false, command: ['/bin/sh', '-lc', `echo ${number}`], ...more }) as RunInfo
  const all = [run(12, { state: 'running', exit_code: null }), run(2, { exit_code: 3 }), run(1, { tty: true })]
  it('all, those that run, those that failed, terminals', () => {
    const numbers = (which: Parameters<typeof chosenRuns>[1], text = ''): number[] => chosenRuns(all, which, text).map((r) => r.run)
    expect(numbers('all')).toEqual([12, 2, 1])
    expect(numbers('running')).toEqual([12])
    expect(numbers('failed')).toEqual([2])
    expect(numbers('terminals')).toEqual([1])
    expect(numbers('all', ' ECHO 1')).toEqual([12, 1])
    expect(numbers('all', '2')).toEqual([12, 2])
    expect(numbers('failed', 'nothing')).toEqual([])
  })
})
