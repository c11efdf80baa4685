import { describe, expect, it } from 'vitest'
import { StockadeError, StreamEnded, type Attachment, type RunEvent } from 'stockade-client'
import { Link, waitFor, type LinkListener } from './link'

const text = (data: string): RunEvent => ({ kind: 'stdout', data: new TextEncoder().encode(data), info: {} })
const said = (kind: RunEvent['kind'], info: Record<string, unknown>): RunEvent => ({ kind, data: new Uint8Array(0), info })

/** A terminal whose connections are scripts: events, then how it ends; 'stay' waits until it is closed. */
function terminal(scripts: (RunEvent | Error | 'stay')[][], printed = 0) {
  const asked: ({ out?: number } | undefined)[] = []
  const sent: string[] = []
  const sizes: number[][] = []
  const attach = async (from: { out?: number }): Promise<Attachment> => {
    asked.push(from)
    const script = scripts.shift() ?? [new StockadeError(404, 'NOT_FOUND', 'no such terminal')]
    if (script[0] instanceof Error) throw script[0]
    let leave: () => void = () => undefined
    const left = new Promise<void>((resolve) => (leave = resolve))
    return {
      async *[Symbol.asyncIterator]() {
        for (const step of script) {
          if (step === 'stay') await left
          else if (step instanceof Error) throw step
          else yield step
        }
      },
      send: async (data) => void sent.push(typeof data === 'string' ? data : new TextDecoder().decode(data)),
      resize: async (rows, cols) => void sizes.push([rows, cols]),
      readUntil: async () => '',
      close: () => leave(),
    }
  }
  return { target: { attach, printed: async () => printed }, asked, sent, sizes }
}

function listener() {
  const log: string[] = []
  const on: LinkListener = {
    data: (bytes) => log.push(new TextDecoder().decode(bytes)),
    replaying: (is) => log.push(is ? '[old' : 'old]'),
    state: (state) => log.push(`(${state})`),
    lost: (n) => log.push(`lost ${n}`),
    unsent: (maybe) => log.push(maybe ? 'unsure' : 'unsent'),
    ended: (info) => log.push(`exit ${info['exit_code']}`),
  }
  return { on, log }
}

describe('a terminal that one stays at', () => {
  it('goes on from the byte where it was cut', async () => {
    const cut = new StreamEnded('cut', 1006)
    const t = terminal([
      [said('started', { out: 100 }), text('hello'), cut],
      [cut],
      [said('started', { out: 105 }), text(' again'), said('exit', { exit_code: 3 })],
    ])
    const { on, log } = listener()
    await new Link(t.target, on, () => 0).run()
    expect(t.asked).toEqual([{}, { out: 105 }, { out: 105 }])
    expect(log).toEqual(['(open)', 'hello', '(away)', '(away)', '(open)', ' again', 'exit 3', '(ended)'])
  })

  it('counts what is not kept any more', async () => {
    const t = terminal([
      [said('started', { out: 0 }), text('abc'), new StreamEnded('cut')],
      [said('started', { out: 3 }), said('lost', { bytes: 1000 }), text('x'), new StreamEnded('cut')],
      [said('started', { out: 1004 }), said('exit', { exit_code: 0 })],
    ])
    const { on, log } = listener()
    await new Link(t.target, on, () => 0).run()
    expect(t.asked.at(-1)).toEqual({ out: 1004 })
    expect(log).toContain('lost 1000')
  })

  it('tells old output from new, and leaves out half a line at its beginning', async () => {
    const t = terminal([[said('started', { out: 50 }), text('31m half\r\nold line\r\n'), text('new'), said('exit', {})]], 70)
    const { on, log } = listener()
    await new Link(t.target, on, () => 0).run()
    expect(log.slice(0, 5)).toEqual(['[old', '(open)', 'old line\r\n', 'old]', 'new'])
  })

  it('does not try for ever what is gone or not permitted', async () => {
    for (const [error, state] of [
      [new StockadeError(404, 'NOT_FOUND', ''), '(gone)'],
      [new StockadeError(401, 'NO_TOKEN', ''), '(refused)'],
      [new StreamEnded('closed', 1008), '(refused)'],
    ] as const) {
      const { on, log } = listener()
      await new Link(terminal([[error]]).target, on, () => 0).run()
      expect(log).toEqual([state])
    }
  })

  it('sends only where somebody listens, and says so', async () => {
    const t = terminal([[said('started', { out: 0 }), 'stay']])
    const { on, log } = listener()
    const link = new Link(t.target, on, () => 0)
    link.resize(10, 20)
    expect(link.send('kept')).toBe(true)
    expect(link.send('x'.repeat(5000))).toBe(false) // too much to be kept
    const done = link.run()
    while (!log.includes('(open)')) await new Promise((r) => setTimeout(r, 1))
    expect(link.send('x'.repeat(100_000))).toBe(true)
    expect(t.sent.shift()).toBe('kept')
    expect(t.sent.join('')).toHaveLength(100_000)
    expect(Math.max(...t.sent.map((s) => s.length))).toBeLessThanOrEqual(32 << 10)
    expect(t.sizes).toEqual([[10, 20]])
    link.close()
    await done
    expect(link.send('late')).toBe(false)
  })

  it('goes on with a newer token when the one that opened it has ended', async () => {
    let token: string | undefined = 'old'
    const over = new StreamEnded('closed', 1008)
    const t = terminal([[said('started', { out: 0 }), text('abc'), over], [said('started', { out: 3 }), over], [said('started', { out: 3 }), said('exit', {})]])
    const { on, log } = listener()
    const states = on.state
    on.state = (state) => {
      states(state)
      if (state === 'open' && token === 'old') token = 'new'
    }
    await new Link({ ...t.target, as: () => token }, on, () => 1e6).run() // at once: nobody waits that long
    expect(log).toEqual(['(open)', 'abc', '(connecting)', '(open)', '(refused)']) // the newer one is refused, too
    expect(t.asked).toEqual([{}, { out: 3 }])
    token = undefined
    const nobody = listener()
    await new Link({ ...terminal([[over]]).target, as: () => token }, nobody.on, () => 0).run()
    expect(nobody.log).toEqual(['(refused)'])
  })

  it('gives up a connection that may be dead, and says that something may be lost', async () => {
    const t = terminal([[said('started', { out: 0 }), text('abc'), 'stay', 'stay'], [said('started', { out: 3 }), said('exit', {})]])
    const { on, log } = listener()
    const link = new Link(t.target, on, () => 0)
    const done = link.run()
    while (!log.includes('abc')) await new Promise((r) => setTimeout(r, 1))
    link.send('typed')
    link.again()
    await done
    expect(log).toEqual(['(open)', 'abc', '(away)', 'unsure', '(open)', 'exit undefined', '(ended)'])
    expect(t.asked).toEqual([{}, { out: 3 }])
    expect(link.send('late')).toBe(false)
  })

  it('says what was kept and cannot be sent', async () => {
    const { on, log } = listener()
    const link = new Link(terminal([]).target, on, () => 0)
    expect(link.send('typed')).toBe(true)
    await link.run()
    expect(log).toEqual(['(gone)', 'unsent'])
  })

  it('goes on from a byte that another link had reached', async () => {
    const t = terminal([[said('started', { out: 77 }), text('abc'), said('exit', {})]], 500)
    const { on, log } = listener()
    const link = new Link(t.target, on, () => 0, 77)
    await link.run()
    expect(t.asked).toEqual([{ out: 77 }])
    expect(link.at).toBe(80)
    expect(log).toEqual(['(open)', 'abc', 'exit undefined', '(ended)']) // nothing of it is old
  })

  it('comes back when it is told to, not before', async () => {
    const busy = new StockadeError(429, 'RATE_LIMITED', 'slower', '', 60)
    const t = terminal([[busy], [said('started', { out: 0 }), said('exit', {})]])
    const { on } = listener()
    const begun = Date.now()
    await new Link(t.target, on, () => 0).run()
    expect(Date.now() - begun).toBeGreaterThanOrEqual(55)
  })

  it('waits longer each time, up to some seconds', () => {
    const waits = Array.from({ length: 12 }, (_, i) => waitFor(i, () => 0.5))
    expect(waits[0]).toBe(200)
    expect(waits.at(-1)).toBe(5000)
    expect([...waits].sort((a, b) => a - b)).toEqual(waits)
  })
})
