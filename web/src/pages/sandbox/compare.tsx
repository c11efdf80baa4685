// What differs between a snapshot and another one, or what is there now; and of each file that does, its lines.
import { useSignal } from '@preact/signals'
import { StockadeError, type Client, type Diff, type SandboxInfo, type Snapshot } from 'stockade-client'
import { visible } from '../../lib/safe-text'
import { snapshotSandbox } from '../../lib/sandboxes'
import { bytes, count, snapshotName } from '../../lib/words'
import { Button, Dialog, Empty, Failure, Select, Skeleton, VirtualList, useLoad } from '../../ui'
import { FileDiff } from './files/diff'
import { isUnnameable, join } from './files/paths'
import { fileInSnapshot } from './files/snapshot-file'

type Change = Diff['changes'][number]

const MARKS: Record<string, [mark: string, word: string]> = { added: ['+', 'new'], removed: ['−', 'gone'], changed: ['~', 'changed'], moved: ['→', 'moved'] }

function Changes({ diff, onOpen }: { diff: Diff; onOpen: (change: Change) => void }) {
  if (diff.changes.length === 0) return <Empty icon="check" title="Nothing differs" hint="The files are the same." />
  return (
    <>
      <p class="quiet">{diff.added} new, {diff.changed} changed, {diff.removed} gone{diff.truncated && `; the first ${count(diff.changes.length, 'path')} are shown`}. Open one to see its lines.</p>
      <VirtualList items={diff.changes} rowHeight={36} keyOf={(c) => c.path} label="What differs" boxClass="diff-box" onOpen={onOpen} render={(c, button) => {
        const [mark, word] = (Object.hasOwn(MARKS, c.change) ? MARKS[c.change] : undefined) ?? ['?', c.change]
        return (
          <div class={`diff-row diff-${c.change}`}>
            <span class="diff-mark" aria-label={word}>{mark}</span>
            <button type="button" class="diff-path bare-text" {...button}>{visible(c.path)}</button>
            {c.kind === 'file' && c.size !== undefined && <span class="quiet small">{bytes(c.size)}</span>}
          </div>
        )
      }} />
    </>
  )
}

/** Why there are no lines to be shown of it; undefined: there may be. */
function whyNot({ kind, path }: Change): string | undefined {
  if (isUnnameable(path)) return 'Its name is not text; only a program inside can name it.'
  return kind === 'file' ? undefined : `It is a ${visible(kind ?? 'thing', 20)}: it has no lines.`
}

function Lines({ change, from, to }: { change: Change; from: Snapshot; to: Snapshot }) {
  const load = useLoad(() => Promise.all([from, to].map((s) => fileInSnapshot(s.id, join(s.root ?? '/', change.path)))), [from.id, to.id, change.path])
  if (load.state === 'loading') return <Skeleton lines={6} label="Reading both" />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  return <FileDiff before={load.value[0]!} after={load.value[1]!} />
}

export function Compare({ from, others, sandbox, client, onClose }: { from: Snapshot; others: Snapshot[]; sandbox: SandboxInfo; client: Client; onClose: () => void }) {
  const to = useSignal(sandbox.id)
  const taken = useSignal<Snapshot | undefined>(undefined)
  const open = useSignal<Change | undefined>(undefined)
  const load = useLoad(() => client.snapshots.diff(from.id, to.value), [client, from.id, to.value])
  const mustStop = load.state === 'failed' && to.value === sandbox.id && load.error instanceof StockadeError && load.error.status === 409
  const takeFirst = async (): Promise<void> => {
    taken.value = await snapshotSandbox(sandbox)
    to.value = taken.value.id
  }
  const all = taken.value && !others.some((s) => s.id === taken.value?.id) ? [...others, taken.value] : others
  const options = [{ value: sandbox.id, title: 'what is there now' }, ...all.filter((s) => s.id !== from.id).map((s) => ({ value: s.id, title: s.id === taken.value?.id ? 'the snapshot of this moment' : snapshotName(s) }))]
  const other = all.find((s) => s.id === to.value)
  const why = open.value && whyNot(open.value)
  const take = (words: string) => (
    <div class="notice">
      <p>{words} A snapshot of now takes a moment and can be compared with.</p>
      <Button icon="camera" act={takeFirst}>Take a snapshot and compare</Button>
    </div>
  )
  return (
    <Dialog title={`Compare ${snapshotName(from)}`} wide onClose={onClose}>
      <Select label="with" value={to.value} options={options} onChange={(v) => ((to.value = v), (open.value = undefined))} />
      {open.value && (
        <>
          <div class="row"><Button small kind="quiet" icon="back" onClick={() => (open.value = undefined)}>All that differs</Button><strong class="grow break">{visible(open.value.path)}</strong></div>
          {why ? <Empty icon="file" title="It cannot be compared" hint={why} /> : other ? <Lines change={open.value} from={from} to={other} /> : take('Its lines are read from what stands still.')}
        </>
      )}
      {!open.value && load.state === 'loading' && <Skeleton lines={6} label="Comparing" />}
      {!open.value && load.state === 'ready' && <Changes diff={load.value} onOpen={(change) => (open.value = change)} />}
      {mustStop && take('It runs, and this server compares with what stands still.')}
      {!open.value && load.state === 'failed' && !mustStop && <Failure error={load.error} retry={load.reload} />}
    </Dialog>
  )
}
