import { StockadeError, type Client, type SandboxInfo } from 'stockade-client'
import { describe, expect, it } from 'vitest'
import { giveVariable, pathProblem, whatIsAt } from './inside-secrets'

/** A sandbox whose ~/.profile is this; undefined: it has none. */
function clientWith(profile: BodyInit | undefined): { client: Client; written: Map<string, string> } {
  const written = new Map<string, string>()
  const missing = (): never => {
    throw new StockadeError(404, 'NOT_FOUND', 'no such file')
  }
  const files = {
    open: async () => (profile === undefined ? missing() : new Response(profile)),
    stat: async (path: string) => (path === '/there' ? { kind: 'file' } : missing()),
    makeFolder: async () => undefined,
    write: async (path: string, text: string) => void written.set(path, text),
  }
  return { client: { sandboxes: { of: () => ({ files }) } } as unknown as Client, written }
}

const sandbox = { id: '0123456789abcdef', cwd: '/home/agent' } as SandboxInfo

describe('a variable that is given', () => {
  it('is a file, and a line in the profile, which keeps what it had', async () => {
    const { client, written } = clientWith('PATH=/x')
    await giveVariable(client, sandbox, 'KEY', 'value')
    expect(written.get('/home/agent/.secrets/env/KEY')).toBe('value')
    expect(written.get('/home/agent/.profile')).toMatch(/^PATH=\/x\n# variables/)
    const fresh = clientWith(undefined)
    await giveVariable(fresh.client, sandbox, 'KEY', 'value')
    expect(fresh.written.get('/home/agent/.profile')).toMatch(/^# variables/)
  })

  it('is not given where the profile is too large, or would be changed by reading it', async () => {
    const endless = new ReadableStream<Uint8Array>({ pull: (to) => to.enqueue(new Uint8Array(10_000).fill(65)) })
    for (const [profile, why] of [[endless, /larger than 64 KiB/], [new Uint8Array([0x50, 0xff, 0xfe]), /not plain text/]] as const) {
      const { client, written } = clientWith(profile)
      await expect(giveVariable(client, sandbox, 'KEY', 'value')).rejects.toThrow(why)
      expect(written.size).toBe(0)
    }
  })
})

it('knows what is in the way of a file', async () => {
  const { client } = clientWith(undefined)
  expect((await whatIsAt(client, sandbox, '/there'))?.kind).toBe('file')
  expect(await whatIsAt(client, sandbox, '/free')).toBeUndefined()
  expect(['x', '/a/', '/a/../b', '/a/b'].map(pathProblem).map(Boolean)).toEqual([true, true, true, false])
})
