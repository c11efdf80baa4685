import { Terminal } from '@xterm/xterm'
import { describe, expect, it } from 'vitest'
import { keeperOf, LINKS_MAX, refuseLinks, type LinkKeeper } from './links'

function write(term: Terminal, text: string): Promise<void> {
  return new Promise((done) => term.write(text, done))
}

const link = (n: number, text = '.', params = ''): string => `\u001b]8;${params};http://a/${n}\u0007${text}\u001b]8;;\u0007`

function guarded(): { term: Terminal; keeper: LinkKeeper } {
  const term = new Terminal({ rows: 24, cols: 80, scrollback: 10_000, allowProposedApi: true })
  const keeper = keeperOf(term)
  if (!keeper) return expect.fail('xterm keeps its links elsewhere now')
  term.parser.registerOscHandler(8, refuseLinks(keeper))
  return { term, keeper }
}

describe('links that a program prints', () => {
  it('are kept, and forgotten with their line', async () => {
    const { term, keeper } = guarded()
    await write(term, link(1) + link(2, 'two', 'id=x'))
    expect(keeper._dataByLinkId.size).toBe(2)
    await write(term, '\r\n'.repeat(11_000))
    expect(keeper._dataByLinkId.size).toBe(0)
    await write(term, link(3))
    expect(keeper._dataByLinkId.size).toBe(1)
  })

  it('have an end, with an id or without', async () => {
    const { term, keeper } = guarded()
    const many = Array.from({ length: 20_000 }, (_, i) => link(i, '.', i % 2 ? `id=${i}` : '')).join('')
    await write(term, many)
    expect(keeper._dataByLinkId.size).toBe(LINKS_MAX)
    expect(term.buffer.normal.getLine(0)?.translateToString()).toBe('.'.repeat(80)) // the text is all there
  })

  it('have one mark each, however many lines they go over', async () => {
    const { term } = guarded()
    await write(term, `\u001b]8;;http://a/\u0007${'x\r\n'.repeat(9_000)}`)
    expect(term.markers).toHaveLength(1)
  })

  it('are not there at all where they cannot be bounded', () => {
    const refuse = refuseLinks(undefined)
    expect(refuse(';http://a/')).toBe(true)
    expect(refuse(';')).toBe(true)
  })

  it('are not longer than an address is', () => {
    const refuse = refuseLinks({ addLineToLink: () => undefined, _dataByLinkId: new Map() })
    expect(refuse(`;http://a/${'x'.repeat(100)}`)).toBe(false)
    expect(refuse(`;http://a/${'x'.repeat(3000)}`)).toBe(true)
  })
})
