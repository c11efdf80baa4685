import { describe, expect, it } from 'vitest'
import type { Entry } from 'stockade-client'
import { findTaken, type Look } from './taken'
import type { Source } from './upload'

const entry = (name: string, kind: Entry['kind'] = 'file'): Entry => ({ name, kind, size: 1, mode: 0o644, mtime_ms: 1, uid: 0, gid: 0 })
const files = (...paths: string[]): Source[] => paths.map((path) => ({ path, file: { size: 1 } as File }))

describe('what an upload would replace', () => {
  const tree: Record<string, Entry[]> = { '/w': [entry('a'), entry('f', 'folder'), entry('l', 'link')], '/w/f': [entry('x'), entry('deep', 'folder')], '/w/f/deep': [entry('y')] }
  const asked: string[] = []
  const look: Look = async (path) => (asked.push(path), tree[path])

  it('is found, also in folders, and each folder is looked at once', async () => {
    const sources = [...files('a', 'b', 'l', 'f', 'f/x', 'f/z', 'f/deep/y', 'g/1', 'g/2', 'a/b'), { path: 'f/deep', file: null }]
    const { sources: taken, more } = await findTaken('/w', sources, look)
    expect([...taken].map((s) => s.path)).toEqual(['a', 'l', 'f/x', 'f/deep/y'])
    expect(more).toBe(false)
    expect(asked).toEqual(['/w', '/w/f', '/w/f/deep'])
  })

  it('is nothing where nothing is', async () => {
    expect((await findTaken('/new', files('a', 'b/c'), async () => undefined)).sources.size).toBe(0)
  })

  it('is not looked for without end', async () => {
    let looks = 0
    const names = Array.from({ length: 300 }, (_, i) => `d${i}`)
    const many: Look = async (path) => (looks++, path === '/' ? names.map((n) => entry(n, 'folder')) : [entry('x')])
    const { sources, more } = await findTaken('/', files(...names.map((n) => `${n}/x`)), many)
    expect(looks).toBe(50)
    expect(more).toBe(true)
    expect(sources.size).toBe(49)
  })
})
