import { describe, expect, it } from 'vitest'
import { addTab, bringTogether, canSplit, EMPTY, parseLayout, remove, replace, sessionAt, show, split } from './layout'

const three = split(addTab(addTab(EMPTY, '1'), '2'), '3', 'column')

describe('tabs and panes', () => {
  it('a new tab is seen at once, and so is a new pane', () => {
    expect(three.tabs).toEqual([{ panes: ['1'], direction: 'row' }, { panes: ['2', '3'], direction: 'column' }])
    expect(sessionAt(three)).toBe('3')
  })
  it('a pane goes, then its tab, and one next to it is seen', () => {
    const one = remove(three, '3')
    expect(sessionAt(one)).toBe('2')
    const none = remove(one, '2')
    expect(none.tabs).toHaveLength(1)
    expect(sessionAt(none)).toBe('1')
    expect(remove(none, '1')).toEqual(EMPTY)
  })
  it('what is not seen can go without a jump', () => {
    expect(sessionAt(remove(three, '1'))).toBe('3')
  })
  it('a tab holds four panes', () => {
    let full = three
    for (const id of ['4', '5', '6']) full = split(full, id, 'row')
    expect(full.tabs.map((t) => t.panes.length)).toEqual([1, 4, 1])
    expect(canSplit(show(full, 1))).toBe(false)
    expect(canSplit(show(full, 0))).toBe(true)
  })
  it('is brought together with what there is', () => {
    const next = bringTogether(three, ['2', '9'])
    expect(next.tabs).toEqual([{ panes: ['2'], direction: 'column' }, { panes: ['9'], direction: 'row' }])
    expect(sessionAt(next)).toBe('2')
    expect(bringTogether(EMPTY, ['7']).tabs).toEqual([{ panes: ['7'], direction: 'row' }])
    expect(bringTogether(three, [])).toEqual(EMPTY)
  })
  it('a terminal that begins again takes the place of the old one', () => {
    expect(replace(three, '2', '8').tabs[1]!.panes).toEqual(['8', '3'])
  })
  it('reads whatever a browser kept', () => {
    expect(parseLayout(JSON.stringify(three))).toEqual(three)
    for (const bad of [null, '', '{', 'null', '[]', '{"tabs":5}', '{"tabs":[null,{"panes":[1,{}]}],"tab":"x"}']) expect(parseLayout(bad)).toEqual(EMPTY)
    expect(parseLayout('{"tabs":[{"panes":["1","1"]},{"panes":["1"]}],"tab":99,"pane":-3}')).toEqual({ tabs: [{ panes: ['1'], direction: 'row' }], tab: 0, pane: 0 })
  })
})
