// Two texts beside each other, as lines that went and came; and the choice of the snapshot to compare with.
import '../../../style/line-diff.css'
import { useMemo, useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { hunks, lineDiff } from '../../../lib/line-diff'
import { visible } from '../../../lib/safe-text'
import { client } from '../../../lib/session'
import { count, dateTime } from '../../../lib/words'
import { Dialog, Empty, Failure, Select, Skeleton, useLoad } from '../../../ui'
import { fileInSnapshot, type Then } from './snapshot-file'

const SHOWN_MAX = 3000
const SIGN = { same: ' ', gone: '−', new: '+' } as const

export function DiffView({ before, after }: { before: string; after: string }) {
  const { shown, coarse, gone, came } = useMemo(() => {
    const found = lineDiff(before, after)
    return { shown: hunks(found.lines), coarse: found.coarse, gone: found.lines.filter((l) => l.kind === 'gone').length, came: found.lines.filter((l) => l.kind === 'new').length }
  }, [before, after])
  if (gone + came === 0) return <Empty icon="check" title="Their lines are the same" hint="If they differ, it is in how lines end, or in rights and owner." />
  return (
    <div class="diff">
      <p class="quiet small">
        {count(came, 'line')} came, {count(gone, 'line')} went.
        {coarse && ' They differ so much that lines which they have in common are not looked for.'}
        {shown.length > SHOWN_MAX && ` Only the first ${SHOWN_MAX} are shown.`}
      </p>
      <table class="diff-lines" aria-label="Differences">
        <tbody>
          {shown.slice(0, SHOWN_MAX).map((line, i) =>
            typeof line === 'number' ? (
              <tr key={i} class="diff-fold"><td colSpan={4}>{count(line, 'line')} the same</td></tr>
            ) : (
              <tr key={i} class={`diff-${line.kind}`}>
                <td class="diff-number">{line.before || ''}</td>
                <td class="diff-number">{line.after || ''}</td>
                <td class="diff-sign">{SIGN[line.kind]}<span class="said">{line.kind === 'gone' ? 'went' : line.kind === 'new' ? 'came' : ''}</span></td>
                <td class="diff-text">{visible(line.text.replaceAll('\t', '    '), 2000).replaceAll('‹␠›', ' ')}</td>
              </tr>
            ),
          )}
        </tbody>
      </table>
    </div>
  )
}

/** A file as it was twice; or in words why its lines cannot be shown. */
export function FileDiff({ before, after }: { before: Then; after: Then }) {
  const odd = [before, after].find((one) => one.kind === 'unlike')
  if (odd?.kind === 'unlike') return <Empty icon="file" title="It cannot be compared" hint={odd.why} />
  const [a, b] = [before, after].map((one) => (one.kind === 'text' ? one.text : '')) as [string, string]
  return <DiffView before={a} after={b} />
}

/** What is in the editor against what is on the disk. */
export function DiskDiff({ before, after, onClose }: { before: string; after: string; onClose: () => void }) {
  return (
    <Dialog title="On the disk, and here" onClose={onClose} wide>
      <p class="quiet">Lines with − are only on the disk; lines with + are only in the editor.</p>
      <DiffView before={before} after={after} />
    </Dialog>
  )
}

export function SnapshotDiff({ sandbox, path, text, onClose }: { sandbox: SandboxInfo; path: string; text: string; onClose: () => void }) {
  const [chosen, setChosen] = useState('')
  const snapshots = useLoad(async () => (await client().snapshots.list({ sandbox: sandbox.id })).filter((s) => s.state === 'ready' || s.state === '').sort((a, b) => b.created_ms - a.created_ms), [sandbox.id])
  const id = chosen || snapshots.value?.[0]?.id || ''
  const then = useLoad(async () => (id ? fileInSnapshot(id, path) : undefined), [id, path])
  return (
    <Dialog title="Compare with a snapshot" onClose={onClose} wide>
      {snapshots.state === 'failed' && <Failure error={snapshots.error} retry={snapshots.reload} />}
      {snapshots.state === 'loading' && <Skeleton />}
      {snapshots.state === 'ready' && snapshots.value.length === 0 && <Empty icon="camera" title="There is no snapshot yet" hint="Take one under Snapshots; from then on you can see what changed." />}
      {snapshots.state === 'ready' && snapshots.value.length > 0 && (
        <>
          <Select label="Snapshot" value={id} onChange={setChosen} options={snapshots.value.map((s) => ({ value: s.id, title: `${s.name ? visible(s.name, 40) : s.id} · ${dateTime(s.created_ms)}` }))} />
          {then.state === 'loading' && <Skeleton lines={6} />}
          {then.state === 'failed' && <Failure error={then.error} retry={then.reload} title="The file could not be read from the snapshot" />}
          {then.state === 'ready' && then.value?.kind === 'missing' && <Empty icon="file" title="The snapshot does not have this file" hint="It was made later." />}
          {then.state === 'ready' && then.value && then.value.kind !== 'missing' && <FileDiff before={then.value} after={{ kind: 'text', text }} />}
        </>
      )}
    </Dialog>
  )
}
