import { describe, expect, it } from 'vitest'
import { StockadeError } from 'stockade-client'
import { isOver, mostWanted, totals, Uploads, type Send } from './upload'

const file = (size: number): File => ({ size }) as File
const settled = async (uploads: Uploads): Promise<void> => {
  for (let i = 0; i < 500 && !uploads.list.value.every(isOver); i++) await new Promise((r) => setTimeout(r, 2))
}

describe('uploads', () => {
  it('go two at a time, into folders that are made once', async () => {
    let now = 0
    let most = 0
    const made: string[] = []
    const sent: string[] = []
    const send: Send = async (path, f, progress) => {
      most = Math.max(most, ++now)
      progress(f.size / 2)
      await new Promise((r) => setTimeout(r, 5))
      progress(f.size)
      sent.push(path)
      now--
    }
    const uploads = new Uploads(send, async (path) => void made.push(path))
    uploads.add('/w', [{ path: 'a', file: file(10) }, { path: 'f/b', file: file(10) }, { path: 'f/c', file: file(10) }, { path: 'empty', file: null }])
    await settled(uploads)
    expect(sent.sort()).toEqual(['/w/a', '/w/f/b', '/w/f/c'])
    expect(made).toContain('/w/empty')
    expect(most).toBe(2)
    expect(totals(uploads.list.value)).toEqual({ size: 30, sent: 30, open: 0, failed: 0 })
  })
  it('can be cancelled, also before they begin', async () => {
    const send: Send = (_path, _file, _progress, stop) => new Promise((_, reject) => stop.addEventListener('abort', () => reject(new DOMException('x', 'AbortError'))))
    const uploads = new Uploads(send, async () => undefined)
    uploads.add('/', [{ path: 'a', file: file(1) }, { path: 'b', file: file(1) }, { path: 'c', file: file(1) }])
    await new Promise((r) => setTimeout(r, 5))
    expect(uploads.list.value.map((u) => u.state)).toEqual(['sends', 'sends', 'waits'])
    uploads.cancel(3)
    uploads.cancelAll()
    await settled(uploads)
    expect(uploads.list.value.map((u) => u.state)).toEqual(['cancelled', 'cancelled', 'cancelled'])
    uploads.clear()
    expect(uploads.list.value).toEqual([])
  })
  it('say what failed, and can be tried again', async () => {
    let broken = true
    const uploads = new Uploads(async () => { if (broken) throw new StockadeError(507, 'DISK_FULL', 'the disk is full') }, async () => undefined)
    uploads.add('/', [{ path: 'a', file: file(4) }])
    await settled(uploads)
    expect(uploads.list.value[0]).toMatchObject({ state: 'failed', error: { code: 'DISK_FULL' } })
    broken = false
    uploads.retry(1)
    await settled(uploads)
    expect(uploads.list.value[0]).toMatchObject({ state: 'done', sent: 4 })
  })
  it('wait when the server says that it is too much', async () => {
    let turns = 0
    const uploads = new Uploads(async () => { if (++turns < 3) throw new StockadeError(429, 'RATE_LIMITED', 'slower', '', 3) }, async () => undefined)
    uploads.add('/', [{ path: 'a', file: file(4) }])
    await settled(uploads)
    expect(turns).toBe(3)
    expect(uploads.list.value[0]?.state).toBe('done')
  })
  it('wait until somebody is signed in again, two of them, and all go on', async () => {
    let token = 'old'
    let tries = 0
    let back: () => void = () => undefined
    const signedIn = new Promise<void>((resolve) => (back = resolve))
    const send: Send = async () => {
      tries++
      if (token === 'old') throw new StockadeError(401, 'BAD_TOKEN', 'not any more')
    }
    const uploads = new Uploads(send, async () => undefined, () => signedIn)
    uploads.add('/', Array.from({ length: 500 }, (_, i) => ({ path: `f${i}`, file: file(1) })))
    await new Promise((r) => setTimeout(r, 20))
    expect(tries).toBe(2)
    expect(totals(uploads.list.value)).toMatchObject({ open: 500, failed: 0 })
    token = 'new'
    back()
    await settled(uploads)
    expect(uploads.list.value.every((u) => u.state === 'done')).toBe(true)
  })
  it('are all tried again at once', async () => {
    let broken = true
    const uploads = new Uploads(async () => { if (broken) throw new TypeError('network') }, async () => undefined)
    uploads.add('/', [{ path: 'a', file: file(1) }, { path: 'b', file: file(1) }, { path: 'c', file: file(1) }])
    await settled(uploads)
    expect(totals(uploads.list.value).failed).toBe(3)
    broken = false
    uploads.retryAll()
    await settled(uploads)
    expect(totals(uploads.list.value)).toMatchObject({ failed: 0, sent: 3 })
  })
  it('are many without becoming slow', async () => {
    const uploads = new Uploads(async () => undefined, async () => undefined)
    const begun = performance.now()
    uploads.add('/', Array.from({ length: 20_000 }, (_, i) => ({ path: `f${i}`, file: file(1) })))
    while (!uploads.list.value.every(isOver)) await new Promise((r) => setTimeout(r, 20))
    expect(performance.now() - begun).toBeLessThan(10_000)
    expect(mostWanted(uploads.list.value, 100)).toHaveLength(100)
  })
  it('at work or failed are shown first', () => {
    const one = (id: number, state: 'waits' | 'sends' | 'done' | 'failed') => ({ id, path: '/x', size: 1, sent: 0, state })
    expect(mostWanted([one(1, 'done'), one(2, 'waits'), one(3, 'failed'), one(4, 'sends'), one(5, 'waits')], 4).map((u) => u.id)).toEqual([4, 3, 2, 5])
  })
})
