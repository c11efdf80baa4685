// Keeps a part of a sandbox's page fresh: asked for again when something of these kinds happens to it, and after a time
// without a connection. What is on screen stays until the answer is there.
import { useEffect } from 'preact/hooks'
import { live } from '../../lib/live'
import { sandboxOf } from '../../lib/words'

/** Calls fn each time the connection is there again. */
export function useReturned(fn: () => void, wanted = true): void {
  useEffect(() => (wanted ? live.onReturned(fn) : undefined), [fn, wanted])
}

export function useFresh(sandbox: string, kinds: readonly string[], reload: () => void): void {
  useReturned(reload)
  useEffect(() => live.on(kinds, (events) => void (events.some((e) => sandboxOf(e) === sandbox) && reload())), [sandbox, reload])
}
