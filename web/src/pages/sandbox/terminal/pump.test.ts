import { describe, expect, it } from 'vitest'
import { Pump, type Sink } from './pump'

/** A screen that draws when it is told to. */
class Screen implements Sink {
  seen: number[] = []
  waiting: (() => void)[] = []
  write(data: Uint8Array, done: () => void): void {
    this.waiting.push(() => {
      this.seen.push(...data)
      done()
    })
  }
  draw(): void {
    for (let next = this.waiting.shift(); next; next = this.waiting.shift()) next()
  }
}

const bytes = (n: number, value = 65): Uint8Array => new Uint8Array(n).fill(value)

describe('the queue before a screen', () => {
  it('hands everything on, in order, in pieces', () => {
    const screen = new Screen()
    const pump = new Pump(screen)
    pump.push(new TextEncoder().encode('hello '))
    pump.push(bytes(200_000))
    pump.push(new TextEncoder().encode(' end'))
    screen.draw()
    const text = String.fromCharCode(...screen.seen.slice(0, 8)) + String.fromCharCode(...screen.seen.slice(-5))
    expect(screen.seen).toHaveLength(200_010)
    expect(text).toBe('hello AAA end')
    expect(pump.skipped).toBe(0)
  })

  it('does not run ahead of a slow screen, and has an end', () => {
    const screen = new Screen()
    let told = 0
    const pump = new Pump(screen, (n) => (told += n), 1 << 20)
    for (let i = 0; i < 100; i++) pump.push(bytes(100_000))
    expect(screen.waiting.length).toBeLessThan(10)
    expect(pump.queued).toBeLessThanOrEqual(1 << 20)
    expect(pump.skipped).toBe(told)
    pump.push(new TextEncoder().encode('$ '))
    screen.draw()
    // what came last is what one sees
    expect(String.fromCharCode(...screen.seen.slice(-2))).toBe('$ ')
    const gaps = screen.seen.filter((b) => b === 0x18).length
    expect(gaps).toBeGreaterThan(0)
    expect(screen.seen.length - 5 * gaps + pump.skipped).toBe(100 * 100_000 + 2)
  })

  it('keeps marks where they are, also when bytes are left out', () => {
    const screen = new Screen()
    const pump = new Pump(screen, () => undefined, 100_000)
    const order: string[] = []
    pump.push(bytes(10))
    pump.mark(() => order.push(`first at ${screen.seen.length}`))
    for (let i = 0; i < 50; i++) pump.push(bytes(90_000))
    pump.mark(() => order.push('last'))
    expect(order).toEqual([])
    screen.draw()
    expect(order).toEqual(['first at 10', 'last'])
  })

  it('says nothing once it is closed', () => {
    const screen = new Screen()
    const pump = new Pump(screen)
    pump.close()
    pump.push(bytes(5))
    pump.mark(() => expect.unreachable())
    screen.draw()
    expect(screen.seen).toEqual([])
  })
})
