// A change of what a sandbox may reach: planned here so that it can be shown first, judged and done by the server. Rules that
// say more than the short form can (methods, paths, secrets, private addresses) are never dropped on the way.
import type { Sandbox } from 'stockade-client'
import { compareRules, reachOf, rulesOf, shortForm, type Reach } from './policy-text'

export interface Plan {
  before: Reach[]
  after: Reach[]
  /** Entries that come in. */
  add: string[]
  /** The whole list in the short form; undefined: it cannot be said so. */
  allow: string[] | undefined
}

/** The change cannot be made without losing something. */
export class WouldLose extends Error {
  override readonly name = 'WouldLose'

  constructor() {
    super('Rules are taken away by naming all that stay, and rules with methods, paths, secrets or private addresses cannot be named that way: they would be lost')
  }
}

/** Of 'host', 'host:22,80', 'host:*', '203.0.113.0/24:5432', '[2001:db8::1]:443', as the server will read it. */
export function readEntry(entry: string): Reach {
  const block = /^\[([^\]]*)\](?::(.*))?$/.exec(entry)
  const many = (entry.match(/:/g) ?? []).length > 1
  const [place = '', ports] = block ? [block[1] ?? '', block[2]] : many ? [entry, undefined] : (entry.split(':') as [string, string | undefined])
  const isBlock = block !== null || many || place.includes('/') || /^\d+(\.\d+){3}$/.test(place)
  const cidr = place.includes('/') ? place : `${place}/${place.includes(':') ? 128 : 32}`
  return reachOf({ ...(isBlock ? { cidr } : { host: place }), ...(ports === undefined ? {} : { ports: ports === '*' ? 'any' : ports.split(',') }) })
}

export function planAdd(policy: string, entries: string[]): Plan {
  const before = rulesOf(policy)
  const known = new Set(before.map((r) => shortForm(r)))
  const add = [...new Set(entries)].filter((e) => !known.has(shortForm(readEntry(e))))
  return plan(before, [...before, ...add.map(readEntry)], add)
}

export function planList(policy: string, after: Reach[]): Plan {
  const before = rulesOf(policy)
  return plan(before, after, [])
}

function plan(before: Reach[], after: Reach[], add: string[]): Plan {
  const short = after.map(shortForm)
  return { before, after, add, allow: short.every((s) => s !== undefined) ? (short as string[]) : undefined }
}

function wish(p: Plan): { add: string[] } | { allow: string[] } {
  if (p.add.length) return { add: p.add }
  if (p.allow) return { allow: p.allow }
  throw new WouldLose()
}

/** Has the server compile it as for real, and change nothing. What it refuses is thrown. */
export async function check(box: Sandbox, p: Plan): Promise<void> {
  await box.tryNetwork(wish(p))
}

/** Puts it into force. */
export async function apply(box: Sandbox, p: Plan): Promise<void> {
  const change = wish(p)
  await ('add' in change ? box.allowMore(change.add) : box.allow(change.allow))
}

/** Takes away what this plan has added, and nothing else: others may have changed the list since. */
export async function takeBack(box: Sandbox, p: Plan): Promise<void> {
  const { effective } = await box.policy()
  const now = rulesOf(effective)
  const added = new Set(p.add.map((e) => shortForm(readEntry(e))))
  const left = now.filter((r) => shortForm(r) === undefined || !added.has(shortForm(r)))
  if (left.length === now.length) throw new Error(`There is no rule for ${p.add.join(', ')} any more. What it may reach now stands under Policy`)
  await apply(box, planList(effective, left))
}

/** What was meant as a change of `before` to `after`, made to what is there now. */
export function rebase(before: Reach[], after: Reach[], now: Reach[]): Reach[] {
  const { added, removed } = compareRules(before, after)
  return [...compareRules(removed, now).added, ...compareRules(now, added).added]
}
