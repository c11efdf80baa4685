import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { StockadeError } from 'stockade-client'
import { hide, hold, inWords, sentence, toast, toasts } from './toast'

describe('errors in words', () => {
  it('says what and what next', () => {
    expect(inWords(new StockadeError(409, 'CONFLICT', 'it is stopped', 'resume it first'))).toEqual(['It is stopped.', 'Resume it first.'])
    expect(inWords(new TypeError('Failed to fetch'))).toEqual(['The server cannot be reached.', expect.stringContaining('may not have been done')]) // nobody knows
    expect(inWords('?')[0]).toBe('Something went wrong.')
  })

  it('makes sentences', () => {
    expect(['', ' a b ', 'Done!', 'x:', 'é'].map(sentence)).toEqual(['', 'A b.', 'Done!', 'X:', 'É.'])
  })
})

describe('what is said in the corner', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => {
    vi.advanceTimersByTime(60_000)
    expect(toasts.value).toEqual([])
    vi.useRealTimers()
  })
  const texts = (): string[] => toasts.value.map((t) => t.text)

  it('is gone after a while, and never more than a few at a time', () => {
    for (let i = 1; i <= 9; i++) toast.say(String(i))
    expect(texts()).toEqual(['6', '7', '8', '9'])
    vi.advanceTimersByTime(4_000)
    expect(texts()).toEqual([])
  })

  it('is said again if it fails again: once, and for its whole time', () => {
    toast.error(new Error('no'))
    const first = toasts.value[0]!.id
    vi.advanceTimersByTime(11_000)
    toast.error(new Error('no'))
    expect(texts()).toEqual(['No.'])
    expect(toasts.value[0]!.id).not.toBe(first) // another one: it is read out again
    vi.advanceTimersByTime(11_000)
    expect(texts()).toEqual(['No.'])
    vi.advanceTimersByTime(1_000)
    expect(texts()).toEqual([])
  })

  it('stays for its whole time if it can be undone, whatever else is said', () => {
    const done: string[] = []
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) toast.undo(name, () => done.push(`undo ${name}`), { over: () => done.push(`over ${name}`) })
    for (let i = 0; i < 9; i++) toast.say('x')
    expect(toasts.value.filter((t) => t.undo).map((t) => t.text)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    toasts.value.find((t) => t.text === 'a')?.undo?.act()
    vi.advanceTimersByTime(6_000)
    expect(done).toEqual(['undo a', 'over b', 'over c', 'over d', 'over e', 'over f'])
  })

  it('waits while somebody looks at it', () => {
    const done: string[] = []
    toast.undo('a', () => undefined, { over: () => done.push('over') })
    vi.advanceTimersByTime(5_900)
    hold(true)
    toast.say('also waits')
    vi.advanceTimersByTime(100_000)
    expect(texts()).toEqual(['a', 'also waits'])
    expect(done).toEqual([])
    hold(false)
    vi.advanceTimersByTime(900)
    expect(done).toEqual([])
    vi.advanceTimersByTime(200)
    expect(done).toEqual(['over'])
  })

  it('does what it said also when it was dismissed, and does not wait for ever', () => {
    const done: string[] = []
    toast.undo('a', () => undefined, { over: () => done.push('over') })
    hold(true)
    hide(toasts.value[0]!.id)
    vi.advanceTimersByTime(6_000)
    expect(done).toEqual(['over'])
    const end = toast.undo('b', () => undefined, { over: () => done.push('never') })
    end()
    vi.advanceTimersByTime(6_000)
    expect(done).toEqual(['over'])
  })
})
