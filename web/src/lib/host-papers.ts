// What the doctor and the judge say about the host, put in order for somebody who wants to know what is wrong.
import type { Fact } from 'stockade-client'
import { listAt, textAt } from './member'

/** By their groups. What does not work comes first, in each and of all; else they stay in the order that they came. */
export function groupFacts(facts: readonly Fact[]): [string, Fact[]][] {
  const groups = new Map<string, Fact[]>()
  for (const fact of facts) groups.set(fact.group, [...(groups.get(fact.group) ?? []), fact])
  const rank = (f: Fact | undefined): number => (f?.state === 'ok' ? 1 : 0)
  for (const of of groups.values()) of.sort((a, b) => rank(a) - rank(b))
  return [...groups].sort(([, a], [, b]) => rank(a[0]) - rank(b[0]))
}

const ORDER = ['open', 'untried', 'otherwise']

/** Checks of a report that did not go as promised: open ones first. */
export function notAsPromised(report: unknown): unknown[] {
  return listAt(report, 'groups').flatMap((g) => listAt(g, 'checks')).filter((c) => ORDER.includes(textAt(c, 'verdict')))
    .sort((a, b) => ORDER.indexOf(textAt(a, 'verdict')) - ORDER.indexOf(textAt(b, 'verdict')))
}
