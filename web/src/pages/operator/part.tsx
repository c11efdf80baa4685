// What every part of this page has: loading, a server that does not have it, failing, and how to look again.
import type { ComponentChildren } from 'preact'
import { Absent } from '../../lib/extra'
import { Button, Empty, Failure, Skeleton, type Loaded } from '../../ui'

export function Part<T>({ load, what, instead, children }: { load: Loaded<T>; what: string; /** how to see it without the page */ instead?: ComponentChildren; children: (value: T) => ComponentChildren }) {
  if (load.state === 'loading') return <Skeleton lines={6} label={`Loading ${what}`} />
  if (load.state === 'failed')
    return load.error instanceof Absent ? <Empty icon="help" title={`This server does not tell ${what}`} hint={instead} /> : <Failure error={load.error} retry={load.reload} />
  return (
    <div class="operator-part">
      {load.error !== undefined && <Failure error={load.error} title="It could not be asked for again; this is what was there before." />}
      {children(load.value)}
      <Button small kind="quiet" icon="refresh" onClick={load.reload}>Look again</Button>
    </div>
  )
}

/** A member of something that a server said, whatever it is. */
export function member(value: unknown, ...path: string[]): unknown {
  let found = value
  for (const key of path) found = typeof found === 'object' && found !== null && Object.hasOwn(found, key) ? (found as Record<string, unknown>)[key] : undefined
  return found
}

export function numberAt(value: unknown, ...path: string[]): number | undefined {
  const found = member(value, ...path)
  return typeof found === 'number' ? found : undefined
}

export function textAt(value: unknown, ...path: string[]): string {
  const found = member(value, ...path)
  return typeof found === 'string' ? found : typeof found === 'number' || typeof found === 'boolean' ? String(found) : ''
}

export function listAt(value: unknown, ...path: string[]): unknown[] {
  const found = member(value, ...path)
  return Array.isArray(found) ? found : []
}
