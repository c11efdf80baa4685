import { describe, expect, it } from 'vitest'
import { StockadeError, type Entry } from 'stockade-client'
import { bytesOf, contentOf, EDIT_MAX, hexDump, languageOf } from './content'
import { openFile, saveFile, type Store } from './document'
import { matching, modeWord, sameFile, sorted } from './entries'
import { fromDrop, fromInput } from './gather'
import { isBelow, hasControls, join, nameOf, parentOf, tidy, wayTo, wrongName } from './paths'

const entry = (name: string, more: Partial<Entry> = {}): Entry => ({ name, kind: 'file', size: 1, mode: 0o644, mtime_ms: 1, uid: 0, gid: 0, ...more })
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('paths', () => {
  it('are put together and taken apart', () => {
    expect(join('/', 'a')).toBe('/a')
    expect(join('/a', 'b')).toBe('/a/b')
    expect(parentOf('/a')).toBe('/')
    expect(parentOf('/a/b')).toBe('/a')
    expect(nameOf('/a/b\nc')).toBe('b\nc')
    expect(wayTo('/a/b')).toEqual(['/', '/a', '/a/b'])
    expect(wayTo('/')).toEqual(['/'])
  })
  it('from an address bar lead nowhere else', () => {
    expect(tidy('//a/./b/../../..//c/')).toBe('/c')
    expect(tidy('')).toBe('/')
    expect(tidy('../../etc')).toBe('/etc')
  })
  it('know what is inside of what', () => {
    expect(isBelow('/a/b', '/a')).toBe(true)
    expect(isBelow('/ab', '/a')).toBe(false)
    expect(isBelow('/x', '/')).toBe(true)
  })
  it('names that cannot be are told', () => {
    for (const bad of ['', '.', '..', 'a/b', 'a\0b', 'ü'.repeat(128)]) expect(wrongName(bad)).toBeTruthy()
    for (const good of ['a', '..a', ' ', 'ü'.repeat(127), 'two\nlines', '<b>']) expect(wrongName(good)).toBeUndefined()
    expect(['/a\nb', '/\u001b/x', '/a b', '/ü\u202e'].map(hasControls)).toEqual([true, true, false, false])
  })
})

describe('a list of files', () => {
  it('has folders first, and numbers in order', () => {
    const all = [entry('b10'), entry('b9', { size: 5 }), entry('z', { kind: 'folder' }), entry('A')]
    expect(sorted(all, { key: 'name', down: false }).map((e) => e.name)).toEqual(['z', 'A', 'b9', 'b10'])
    expect(sorted(all, { key: 'name', down: true }).map((e) => e.name)).toEqual(['z', 'b10', 'b9', 'A'])
    expect(sorted(all, { key: 'size', down: true })[1]?.name).toBe('b9')
    expect(matching(all, 'B').map((e) => e.name)).toEqual(['b10', 'b9'])
  })
  it('says what may be done', () => {
    expect(modeWord(0o755)).toBe('rwxr-xr-x')
    expect(modeWord(0o4755)).toBe('rwsr-xr-x')
    expect(modeWord(0o1777)).toBe('rwxrwxrwt')
    expect(modeWord(0)).toBe('---------')
  })
  it('notices that a file is another', () => {
    expect(sameFile(entry('a'), entry('b'))).toBe(true)
    expect(sameFile(entry('a'), entry('a', { mtime_ms: 2 }))).toBe(false)
    expect(sameFile(entry('a'), entry('a', { kind: 'link' }))).toBe(false)
    // where both were told which it is, that counts
    expect(sameFile(entry('a', { etag: 'x' }), entry('a', { etag: 'x', mtime_ms: 2 }))).toBe(true)
    expect(sameFile(entry('a', { etag: 'x' }), entry('a', { etag: 'y' }))).toBe(false)
    expect(sameFile(entry('a', { etag: 'x' }), entry('a'))).toBe(true)
  })
})

describe('what bytes are', () => {
  it('text comes back byte for byte', () => {
    for (const text of ['', 'a', 'a\nb\n', 'a\r\nb\r\n', '\ufeffx\n', 'ünï', '\u2028\t\u001b[31m'])  {
      const found = contentOf(bytes(text))
      expect(found.kind, JSON.stringify(text)).toBe('text')
      if (found.kind === 'text') expect(Array.from(bytesOf(found))).toEqual(Array.from(bytes(text)))
    }
  })
  it('what would not come back is no text', () => {
    for (const bad of [new Uint8Array([0]), new Uint8Array([0xff, 0xfe, 65]), bytes('a\r\nb\nc'), bytes('a\rb')]) expect(contentOf(bad).kind).toBe('binary')
  })
  it('can be looked at', () => {
    expect(hexDump(bytes('ELF\u0001 and more of it'))).toBe('000000  45 4c 46 01 20 61 6e 64 20 6d 6f 72 65 20 6f 66  ELF· and more of\n000010  20 69 74                                          it')
    expect(hexDump(new Uint8Array(10_000)).split('\n')).toHaveLength(32)
  })
  it('have a language', () => {
    expect(languageOf('x.py')).toBe('python')
    expect(languageOf('Dockerfile')).toBe('dockerfile')
    expect(languageOf('run', '#!/usr/bin/env bash\n')).toBe('shell')
    for (const none of ['x', 'x.constructor', 'constructor', '__proto__', 'x.']) expect(languageOf(none)).toBeUndefined()
  })
})

/** Files in memory, each with a time of its own. */
class Memory implements Store {
  files = new Map<string, { data: Uint8Array; mtime: number; mode: number }>()
  clock = 1
  async stat(path: string): Promise<Entry> {
    const found = this.files.get(path)
    if (!found) throw new StockadeError(404, 'NOT_FOUND', 'no such file')
    return entry(path, { size: found.data.length, mtime_ms: found.mtime, mode: found.mode, etag: `${found.mtime}` })
  }
  async open(path: string, span?: [number, number?]): Promise<Response> {
    return new Response(this.files.get(path)!.data.slice(span?.[0] ?? 0, span?.[1] === undefined ? undefined : span[1] + 1))
  }
  async put(path: string, data: unknown, { mode, etag }: { mode?: number | undefined; etag?: string | undefined }): Promise<{ etag: string }> {
    if (etag && etag !== `${this.files.get(path)?.mtime}`) throw new StockadeError(412, 'CHANGED', 'it is not what it was')
    this.files.set(path, { data: data as Uint8Array, mtime: this.clock++, mode: mode ?? 0o600 })
    return { etag: `${this.clock - 1}` }
  }
  async write(path: string, data: unknown, mode?: number): Promise<void> {
    await this.put(path, data, { mode })
  }
}

describe('a file that is edited', () => {
  it('is saved with its rights, and then is what it is', async () => {
    const store = new Memory()
    await store.write('/a', bytes('one\r\n'), 0o755)
    const opened = await openFile(store, '/a')
    if (opened.kind !== 'text') return expect.unreachable()
    const saved = await saveFile(store, '/a', opened.base, { ...opened.content, text: 'two\n' })
    expect(saved.kind).toBe('saved')
    expect(new TextDecoder().decode(store.files.get('/a')!.data)).toBe('two\r\n')
    expect(store.files.get('/a')!.mode).toBe(0o755)
    if (saved.kind === 'saved') expect((await saveFile(store, '/a', saved.base, opened.content)).kind).toBe('saved')
  })
  it('does not overwrite what somebody else wrote, unless it is told to', async () => {
    const store = new Memory()
    await store.write('/a', bytes('mine'))
    const opened = await openFile(store, '/a')
    if (opened.kind !== 'text') return expect.unreachable()
    await store.write('/a', bytes('hers'))
    expect(await saveFile(store, '/a', opened.base, opened.content)).toMatchObject({ kind: 'conflict', now: { size: 4 } })
    expect(new TextDecoder().decode(store.files.get('/a')!.data)).toBe('hers')
    store.files.delete('/a')
    expect(await saveFile(store, '/a', opened.base, opened.content)).toEqual({ kind: 'conflict', now: undefined })
    expect((await saveFile(store, '/a', opened.base, opened.content, true)).kind).toBe('saved')
  })
  it('is known by what was written, not by what came right after', async () => {
    const store = new Memory()
    await store.write('/a', bytes('mine'))
    const opened = await openFile(store, '/a')
    if (opened.kind !== 'text') return expect.unreachable()
    const stat = store.stat.bind(store)
    store.stat = async (path) => {
      await store.write(path, bytes('hers'))
      return stat(path)
    }
    const saved = await saveFile(store, '/a', opened.base, opened.content)
    if (saved.kind !== 'saved') return expect.unreachable()
    expect((await saveFile(store, '/a', saved.base, opened.content)).kind).toBe('conflict')
  })
  it('is saved also if nobody can say how it stands there now, and does not conflict with itself', async () => {
    const store = new Memory()
    await store.write('/a', bytes('one'))
    const opened = await openFile(store, '/a')
    if (opened.kind !== 'text') return expect.unreachable()
    const stat = store.stat.bind(store)
    store.stat = () => Promise.reject(new TypeError('Failed to fetch'))
    const saved = await saveFile(store, '/a', opened.base, { ...opened.content, text: 'longer' })
    if (saved.kind !== 'saved') return expect.unreachable()
    expect(saved.base.size).toBe(6)
    store.stat = stat
    expect((await saveFile(store, '/a', saved.base, opened.content)).kind).toBe('saved')
  })
  it('that is too large shows its beginning only', async () => {
    const store = new Memory()
    await store.write('/a', bytes('€'.repeat(EDIT_MAX / 2)))
    const opened = await openFile(store, '/a')
    expect(opened.kind).toBe('large')
    if (opened.kind === 'large') expect(opened.start?.endsWith('€')).toBe(true)
    await store.write('/b', new Uint8Array(100))
    expect((await openFile(store, '/b')).kind).toBe('bytes')
  })
  it('that is larger than it said is not taken whole', async () => {
    const store = new Memory()
    await store.write('/grows', bytes('x'))
    let taken = 0
    const body = new ReadableStream<Uint8Array>({ pull: (to) => (taken++, to.enqueue(bytes('x'.repeat(100_000)))) })
    store.open = async () => new Response(body)
    const opened = await openFile(store, '/grows')
    expect(opened.kind).toBe('large')
    expect(taken * 100_000).toBeLessThan(2 * EDIT_MAX)
  })
})

describe('what was dropped', () => {
  const file = (name: string) => ({ isFile: true, isDirectory: false, name, file: (found: (f: File) => void) => found({ name, size: 1 } as File) })
  const folder = (name: string, inside: unknown[]) => ({
    isFile: false, isDirectory: true, name,
    createReader: () => {
      const left = [...inside]
      return { readEntries: (found: (some: never[]) => void) => found(left.splice(0, 2) as never[]) }
    },
  })
  const item = (node: unknown) => ({ kind: 'file', webkitGetAsEntry: () => node as never, getAsFile: () => ({ name: 'bare' }) as File })

  it('is found in folders too, some at a time', async () => {
    const found = await fromDrop([item(file('a')), item(folder('f', [file('1'), file('2'), file('3'), folder('deep', [file('x')]), folder('empty', [])])), { kind: 'string', webkitGetAsEntry: () => null, getAsFile: () => null }, item(null)])
    expect(found.map((s) => s.path)).toEqual(['a', 'f/1', 'f/2', 'f/3', 'f/deep/x', 'f/empty', 'bare'])
    expect(found.at(-2)?.file).toBeNull()
  })
  it('or chosen, with the way to it', () => {
    expect(fromInput([{ name: 'a', webkitRelativePath: '' }, { name: 'b', webkitRelativePath: 'f/b' }] as File[]).map((s) => s.path)).toEqual(['a', 'f/b'])
  })
})
