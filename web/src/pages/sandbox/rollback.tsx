// Putting the files back: said clearly, with a way back kept unless that is not wanted.
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Client, SandboxInfo, Snapshot } from 'stockade-client'
import { once } from '../../lib/once'
import { refreshSandbox, snapshotSandbox } from '../../lib/sandboxes'
import { snapshotName } from '../../lib/words'
import { Button, Check, Dialog, inWords, toast } from '../../ui'

export function Rollback({ to, sandbox, client, onClose, onDone }: { to: Snapshot; sandbox: SandboxInfo; client: Client; onClose: () => void; onDone: () => void }) {
  const keep = useSignal(true)
  const wrong = useSignal<string | undefined>(undefined)
  const kept = useRef(false) // pressed again after it failed: one snapshot is enough
  const name = snapshotName(to)
  const back = async (): Promise<void> => {
    wrong.value = undefined
    try {
      if (keep.value && !kept.current) await snapshotSandbox(sandbox, `before-${name}`.slice(0, 64))
      kept.current = keep.value
      await once(`rollback ${sandbox.id}`, to.id, (key) => client.sandboxes.of(sandbox).rollback(to.id, { key }))
      toast.say(`The files are those of ${name}. It runs again.`)
      void refreshSandbox(sandbox.id).catch(() => undefined)
      onDone()
    } catch (e) {
      wrong.value = inWords(e).filter(Boolean).join(' ')
    }
  }
  return (
    <Dialog title={`Roll back to ${name}?`} onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="danger" act={back}>Roll back</Button>
    </>}>
      <p>Everything that runs inside is ended, and all files become those of {new Date(to.created_ms).toLocaleString()}. It is started again afterwards.</p>
      <Check label="Keep what is there now as a snapshot first" hint="Then this can be taken back." checked={keep.value} onChange={(v) => (keep.value = v)} />
      {wrong.value && <p class="field-error" role="alert">{wrong.value}</p>}
    </Dialog>
  )
}
