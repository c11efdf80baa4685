// What belongs to whoever is signed in and lives in this page alone: text that is not saved, uploads, deletions that wait
// for a moment. When another person comes, or nobody, none of it is carried over; who signs out is asked before.

interface Belonging {
  /** What would be lost now, in words ("2 uploads"); '' if nothing. */
  readonly lost?: () => string
  readonly drop: () => void
}

const belongings = new Set<Belonging>()

export function onDeparture(what: Belonging): () => void {
  belongings.add(what)
  return () => void belongings.delete(what)
}

export function lostByDeparture(): string[] {
  return [...belongings].map((b) => b.lost?.() ?? '').filter(Boolean)
}

/** Whoever was signed in is not any more. */
export function departed(): void {
  for (const { drop } of [...belongings]) drop()
}
