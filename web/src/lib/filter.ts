// Finding sandboxes in the list.
import type { SandboxInfo, State } from 'stockade-client'

/** Those that have all the words somewhere in their name, id, profile, driver or image, and are in the state, if one is wanted. */
export function filterSandboxes(all: readonly SandboxInfo[], text: string, state: string): readonly SandboxInfo[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (!words.length && !state) return all
  return all.filter((s) => {
    if (state && s.state !== state) return false
    const where = `${s.name} ${s.id} ${s.profile} ${s.driver} ${s.image} ${s.state}`.toLowerCase()
    return words.every((word) => where.includes(word))
  })
}

/** The states that occur, the most frequent first. */
export function statesOf(all: readonly SandboxInfo[]): State[] {
  const counts = new Map<State, number>()
  for (const { state } of all) counts.set(state, (counts.get(state) ?? 0) + 1)
  return [...counts].sort((a, b) => b[1] - a[1]).map(([state]) => state)
}
