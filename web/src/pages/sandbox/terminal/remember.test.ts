import { describe, expect, it } from 'vitest'
import { addTab, EMPTY } from './layout'
import { rememberedLayout, rememberLayout } from './remember'

function storeOf(text: string | null = null): { text: string | null; getItem: () => string | null; setItem: (key: string, value: string) => void } {
  return {
    text,
    getItem() {
      return this.text
    },
    setItem(_key, value) {
      this.text = value
    },
  }
}

describe('how terminals stood', () => {
  const layout = addTab(EMPTY, '7')

  it('is kept for each sandbox, and forgotten when there are none', () => {
    const store = storeOf()
    rememberLayout('a', layout, store)
    rememberLayout('b', addTab(layout, '8'), store)
    expect(rememberedLayout('a', store)).toEqual(layout)
    expect(rememberedLayout('b', store).tabs).toHaveLength(2)
    rememberLayout('a', EMPTY, store)
    expect(rememberedLayout('a', store)).toEqual(EMPTY)
    expect(rememberedLayout('b', store).tabs).toHaveLength(2)
  })

  it('does not grow without end: the sandboxes of last are kept', () => {
    const store = storeOf()
    for (let i = 0; i < 500; i++) rememberLayout(`s${i}`, layout, store)
    expect(rememberedLayout('s499', store)).toEqual(layout)
    expect(rememberedLayout('s0', store)).toEqual(EMPTY)
    expect(store.text!.length).toBeLessThan(10_000)
  })

  it('costs no terminal where nothing can be kept', () => {
    const full = { getItem: () => null, setItem: () => { throw new Error('full') } }
    expect(() => rememberLayout('a', layout, full)).not.toThrow()
    for (const odd of ['', '{', '{}', '[1,null,["a"]]', '[["a",{"tabs":7}]]']) expect(rememberedLayout('a', storeOf(odd))).toEqual(EMPTY)
  })
})
