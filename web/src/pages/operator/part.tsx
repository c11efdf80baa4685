// What every part of this page has: loading, failing, and how to look again.
import type { ComponentChildren } from 'preact'
import { Button, Failure, Skeleton, type Loaded } from '../../ui'

export { listAt, member, numberAt, textAt } from '../../lib/member'

export function Part<T>({ load, what, children }: { load: Loaded<T>; what: string; children: (value: T) => ComponentChildren }) {
  if (load.state === 'loading') return <Skeleton lines={6} label={`Loading ${what}`} />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  return (
    <div class="operator-part">
      {load.error !== undefined && <Failure error={load.error} title="It could not be asked for again; this is what was there before." />}
      {children(load.value)}
      <Button small kind="quiet" icon="refresh" onClick={load.reload}>Look again</Button>
    </div>
  )
}
