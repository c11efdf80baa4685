// What differs between a snapshot and another one, or what is there now.
import { useSignal } from '@preact/signals'
import { StockadeError, type Client, type Diff, type SandboxInfo, type Snapshot } from 'stockade-client'
import { visible } from '../../lib/safe-text'
import { snapshotSandbox } from '../../lib/sandboxes'
import { bytes, count, snapshotName } from '../../lib/words'
import { Button, Dialog, Empty, Failure, Select, Skeleton, VirtualList, useLoad } from '../../ui'

const MARKS: Record<string, [mark: string, word: string]> = { added: ['+', 'new'], removed: ['−', 'gone'], changed: ['~', 'changed'], moved: ['→', 'moved'] }

function Changes({ diff }: { diff: Diff }) {
  if (diff.changes.length === 0) return <Empty icon="check" title="Nothing differs" hint="The files are the same." />
  return (
    <>
      <p class="quiet">{diff.added} new, {diff.changed} changed, {diff.removed} gone{diff.truncated && `; the first ${count(diff.changes.length, 'path')} are shown`}.</p>
      <VirtualList items={diff.changes} rowHeight={30} keyOf={(c) => c.path} label="What differs" boxClass="diff-box" render={(c) => {
        const [mark, word] = (Object.hasOwn(MARKS, c.change) ? MARKS[c.change] : undefined) ?? ['?', c.change]
        return (
          <div class={`diff-row diff-${c.change}`}>
            <span class="diff-mark" aria-label={word}>{mark}</span>
            <span class="diff-path">{visible(c.path)}</span>
            {c.size !== undefined && <span class="quiet small">{bytes(c.size)}</span>}
          </div>
        )
      }} />
    </>
  )
}

export function Compare({ from, others, sandbox, client, onClose }: { from: Snapshot; others: Snapshot[]; sandbox: SandboxInfo; client: Client; onClose: () => void }) {
  const to = useSignal(sandbox.id)
  const load = useLoad(() => client.snapshots.diff(from.id, to.value), [client, from.id, to.value])
  const mustStop = load.state === 'failed' && to.value === sandbox.id && load.error instanceof StockadeError && load.error.status === 409
  const takeFirst = async (): Promise<void> => {
    to.value = (await snapshotSandbox(sandbox)).id
  }
  const options = [{ value: sandbox.id, title: 'what is there now' }, ...others.filter((s) => s.id !== from.id).map((s) => ({ value: s.id, title: snapshotName(s) }))]
  if (!options.some((o) => o.value === to.value)) options.push({ value: to.value, title: 'the snapshot of this moment' })
  return (
    <Dialog title={`Compare ${snapshotName(from)}`} wide onClose={onClose}>
      <Select label="with" value={to.value} options={options} onChange={(v) => (to.value = v)} />
      {load.state === 'loading' && <Skeleton lines={6} label="Comparing" />}
      {load.state === 'ready' && <Changes diff={load.value} />}
      {mustStop && (
        <div class="notice">
          <p>It runs, and this server compares with what stands still. A snapshot of now takes a moment and can be compared with.</p>
          <Button icon="camera" act={takeFirst}>Take a snapshot and compare</Button>
        </div>
      )}
      {load.state === 'failed' && !mustStop && <Failure error={load.error} retry={load.reload} />}
    </Dialog>
  )
}
