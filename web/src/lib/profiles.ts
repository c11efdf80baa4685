// Profiles: what sandboxes may do, in the server's own words. Nothing about them is known here: names, sentences, keys and
// bounds all come from the server, which also checks what is changed.
import type { Profile, ProfileCheck, ProfileKey, ProfileProblem, ProfileWishes, Summary } from 'stockade-client'
import { client } from './session'

export type Section = Summary['sections'][number]

export function loadProfiles(): Promise<Profile[]> {
  return client().profiles.list()
}

export function loadKeys(): Promise<ProfileKey[]> {
  return client().profiles.schema()
}

/** What a sandbox made like this could do, or what is wrong with the wish. Nothing is made. */
export function checkWish(wish: ProfileWishes): Promise<ProfileCheck> {
  return client().profiles.check(wish)
}

/** The one to offer first: room to work in, and no network. */
export function usualProfile(profiles: readonly Profile[]): string {
  const fine = profiles.filter((p) => p.ok)
  return (fine.find((p) => p.name === 'medium') ?? fine.find((p) => p.standard) ?? fine[0] ?? profiles[0])?.name ?? ''
}

/** One that reaches nobody, for who did not look at any: medium, or another of the standard ones. undefined: there is none. */
export function quietProfile(profiles: readonly Profile[]): string | undefined {
  const quiet = profiles.filter((p) => p.ok && p.network?.length === 0)
  return (quiet.find((p) => p.name === 'medium') ?? quiet.find((p) => p.standard))?.name
}

/** Keys that people look for, and what they are called here. */
const COMMON: Readonly<Record<string, string>> = {
  'limits.cpus': 'Processors',
  'limits.memory': 'Memory',
  'files.workspace.size': 'Disk',
  'limits.processes': 'Processes',
  'time.run': 'Longest command',
  'time.idle': 'Stops when idle for',
  'time.lifetime': 'Lives at most',
  'budget.cpu': 'Processor time in all',
}

export function titleOf(key: ProfileKey): string {
  return COMMON[key.key] ?? key.key
}

/** Those that can be typed into a field: the ones people look for, and the others by name. What is not enforced here is not offered. */
export function fieldsOf(keys: readonly ProfileKey[]): { common: readonly ProfileKey[]; others: readonly ProfileKey[] } {
  const usable = keys.filter((k) => k.enforced && k.type !== 'entries' && k.type !== 'map')
  const names = Object.keys(COMMON)
  return {
    common: names.flatMap((name) => usable.filter((k) => k.key === name)),
    others: usable.filter((k) => !names.includes(k.key)).sort((a, b) => a.key.localeCompare(b.key)),
  }
}

/** "1MiB to 8GiB. How much memory …" */
export function hintOf(key: ProfileKey): string {
  const range = key.min !== undefined && key.max !== undefined ? `${key.min} to ${key.max}` : ''
  return [range, key.about].filter(Boolean).join(' · ')
}

export function problemAt(problems: readonly ProfileProblem[], field: string): string | undefined {
  const found = problems.find((p) => p.field === field || p.field.startsWith(`${field}.`))
  return found && [found.error, found.hint].filter(Boolean).join(': ')
}
