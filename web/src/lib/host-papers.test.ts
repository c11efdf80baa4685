import type { Fact } from 'stockade-client'
import { expect, it } from 'vitest'
import { groupFacts, notAsPromised } from './host-papers'

const fact = (name: string, group: string, state: Fact['state']): Fact => ({ name, group, state, needed_for_low: false, detail: '', cost: '', fix: '' })

it('what does not work comes first, and so do groups with some of it', () => {
  const groups = groupFacts([fact('k', 'kernel', 'ok'), fact('a', 'files', 'ok'), fact('b', 'limits', 'ok'), fact('c', 'files', 'missing'), fact('d', 'files', 'ok'), fact('e', 'files', 'limited')])
  expect(groups.map(([group, of]) => [group, of.map((f) => f.name).join('')])).toEqual([['files', 'cead'], ['kernel', 'k'], ['limits', 'b']])
})

it('what is open comes first, what went as promised not at all', () => {
  const check = (name: string, verdict: string) => ({ name, verdict })
  const report = { groups: [{ checks: [check('a', 'promised'), check('b', 'otherwise'), check('c', 'untried')] }, { checks: [check('d', 'permitted'), check('e', 'open')] }, { checks: 'none' }] }
  expect(notAsPromised(report).map((c) => (c as { name: string }).name)).toEqual(['e', 'c', 'b'])
  expect(notAsPromised(undefined)).toEqual([])
})
