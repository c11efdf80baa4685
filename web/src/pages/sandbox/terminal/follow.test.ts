import type { Terminal } from '@xterm/xterm'
import { describe, expect, it } from 'vitest'
import { Follow } from './follow'

function made() {
  const buffer = { viewportY: 100, baseY: 100 }
  const viewport = new EventTarget()
  const everywhere = new EventTarget()
  let now = 0
  const term = { element: undefined, buffer: { active: buffer }, scrollToBottom: () => void (buffer.viewportY = buffer.baseY) }
  const follow = new Follow(term as unknown as Terminal, viewport, () => now, everywhere)
  /** The browser says that it scrolled, and xterm went there. */
  const scrollTo = (y: number): number => {
    buffer.viewportY = y
    viewport.dispatchEvent(new Event('scroll'))
    return buffer.viewportY
  }
  return { follow, scrollTo, hear: (event: Event) => viewport.dispatchEvent(event), hearElsewhere: (event: Event) => everywhere.dispatchEvent(event), wait: (ms: number) => void (now += ms) }
}

const pressed = (key: string, shiftKey: boolean) => Object.assign(new Event('keydown'), { key, shiftKey })

describe('staying with what is printed last', () => {
  it('does not go where nobody went', () => {
    const { scrollTo, hear } = made()
    expect(scrollTo(0)).toBe(100)
    hear(pressed('Enter', false)) // who types has not scrolled
    expect(scrollTo(0)).toBe(100)
  })

  it('leaves whoever scrolled where he is, until he is back', () => {
    const { scrollTo, hear, wait } = made()
    hear(new Event('wheel'))
    expect(scrollTo(40)).toBe(40)
    wait(900)
    expect(scrollTo(30)).toBe(30) // a finger has left, and it goes on
    wait(5000)
    expect(scrollTo(29)).toBe(29) // lines at the other end are forgotten
    expect(scrollTo(100)).toBe(100)
    expect(scrollTo(0)).toBe(100)
  })

  it('knows keys, a bar that is held, a search, and who types again', () => {
    const { follow, scrollTo, hear, hearElsewhere, wait } = made()
    hear(pressed('PageUp', true))
    expect(scrollTo(70)).toBe(70)
    wait(5000)
    follow.back()
    expect(scrollTo(69)).toBe(100)
    hear(new Event('pointerdown'))
    wait(60_000)
    expect(scrollTo(10)).toBe(10)
    hearElsewhere(new Event('pointerup'))
    expect(scrollTo(10)).toBe(10)
    follow.back()
    follow.leave()
    expect(scrollTo(50)).toBe(50)
  })

  it('lets a selection be dragged out of it, up into what has scrolled away', () => {
    const { follow, scrollTo, hear, hearElsewhere } = made()
    hear(new Event('pointerdown'))
    hear(Object.assign(new Event('pointermove'), { buttons: 1 }))
    hear(new Event('pointerleave'))
    expect(scrollTo(60)).toBe(60)
    expect(scrollTo(20)).toBe(20)
    hearElsewhere(new Event('pointercancel'))
    follow.back()
    expect(scrollTo(19)).toBe(100)
  })

  it('notices that nothing is pressed any more when nobody said so', () => {
    const { scrollTo, hear } = made()
    hear(new Event('pointerdown'))
    hear(Object.assign(new Event('pointermove'), { buttons: 0 }))
    expect(scrollTo(10)).toBe(100)
  })
})
