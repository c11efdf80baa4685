// Snapshots as a line in time: taken, compared, made into other sandboxes, put back, carried away and brought in.
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Client, SandboxInfo, Snapshot } from 'stockade-client'
import { download } from '../../lib/download'
import { checkName } from '../../lib/names'
import { go, sandboxPath } from '../../lib/route'
import { createSandbox, snapshotSandbox } from '../../lib/sandboxes'
import { bytes, count, nameOf, snapshotName } from '../../lib/words'
import { Ago, Badge, Button, Empty, Failure, Menu, Skeleton, ask, askText, toast, useLoad } from '../../ui'
import '../../style/parts.css'
import '../../style/snapshots.css'
import { Compare } from './compare'
import { useFresh } from './fresh'
import { Rollback } from './rollback'

async function save(client: Client, s: Snapshot): Promise<void> {
  const first = async (): Promise<void> => {
    const all = await client.snapshots.list(s.sandbox ? { sandbox: s.sandbox } : {})
    if (!all.some((one) => one.id === s.id)) throw new Error('This snapshot is not there any more')
  }
  const name = `${snapshotName(s)}.tar.zst`
  await download(client, { path: `/api/snapshots/${encodeURIComponent(s.id)}/export`, name, first })
  toast.say(`Your browser saves it as ${name}.`)
}

function Moment({ snapshot, sandbox, client, onCompare, onRollback, onChanged }: { snapshot: Snapshot; sandbox: SandboxInfo; client: Client; onCompare: () => void; onRollback: () => void; onChanged: () => void }) {
  const name = snapshotName(snapshot)
  const isReady = snapshot.state === 'ready'
  const fork = async (): Promise<void> => {
    const called = await askText({ title: `A new sandbox from ${name}`, text: 'It begins with the files of the snapshot, and has the same policy.', yes: 'Make it', label: 'Name (may stay empty)', check: checkName })
    if (called === null) return
    const made = await createSandbox({ from_snapshot: snapshot.id, ...(called ? { name: called } : {}) })
    toast.say(`${nameOf(made)} is made from ${name}.`)
    go(sandboxPath(made.id))
  }
  const remove = async (): Promise<void> => {
    if (!(await ask({ title: `Delete the snapshot ${name}?`, text: 'It cannot be put back any more. Sandboxes that were made from it stay.', yes: 'Delete it', danger: true }))) return
    await client.snapshots.delete(snapshot.id)
    toast.say(`The snapshot ${name} is deleted.`)
    onChanged()
  }
  const why = isReady ? undefined : 'It is not ready'
  return (
    <li class="moment">
      <div class="moment-what">
        <strong>{name}</strong> {!isReady && <Badge tone={snapshot.state === 'failed' ? 'bad' : 'accent'}>{snapshot.state}</Badge>}
        <p class="quiet small"><Ago ms={snapshot.created_ms} /> · {bytes(snapshot.bytes)} · {count(snapshot.layers, 'layer')}{snapshot.sandbox !== sandbox.id && ' · brought in, or of another sandbox'}</p>
      </div>
      <Button small disabled={!isReady} onClick={onCompare}>Compare</Button>
      <Button small disabled={!isReady} onClick={onRollback}>Roll back</Button>
      <Menu label={`More for ${name}`} items={[
        { title: 'New sandbox from it', icon: 'fork', act: fork, why },
        { title: 'Download', icon: 'download', act: () => save(client, snapshot), why },
        { title: 'Delete', icon: 'trash', danger: true, act: remove },
      ]} />
    </li>
  )
}

export default function SnapshotsTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const load = useLoad(async () => (await client.snapshots.list({ sandbox: sandbox.id })).sort((a, b) => b.created_ms - a.created_ms), [client, sandbox.id])
  const brought = useSignal<Snapshot[]>([])
  const comparing = useSignal<Snapshot | undefined>(undefined)
  const rolling = useSignal<Snapshot | undefined>(undefined)
  const file = useRef<HTMLInputElement>(null)
  useFresh(sandbox.id, ['snapshot'], load.reload)
  if (load.state === 'loading') return <Skeleton lines={6} label="Loading the snapshots" />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  const all = [...brought.value.filter((b) => !load.value.some((s) => s.id === b.id)), ...load.value]

  const take = async (): Promise<void> => {
    const name = await askText({ title: 'Take a snapshot', text: 'Its files as they are now. Programs go on; they stand still for a moment.', yes: 'Take it', label: 'Name (may stay empty)', check: checkName })
    if (name === null) return
    await snapshotSandbox(sandbox, name || undefined)
    load.reload()
  }
  const bring = async (chosen: File): Promise<void> => {
    const name = chosen.name.replace(/\.tar(\.zst)?$/, '').replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 64)
    toast.say(`${chosen.name} is being brought in.`)
    const made = await client.snapshots.import(chosen, { ...(name ? { name } : {}), ...(sandbox.profile ? { profile: sandbox.profile } : {}) })
    brought.value = [made, ...brought.value]
    toast.say(`The snapshot ${snapshotName(made)} is there.`)
  }
  return (
    <section class="snapshots" aria-label="Snapshots">
      <header class="snapshots-head">
        <Button kind="primary" icon="camera" act={take} disabled={!sandbox.persistent}>Take a snapshot</Button>
        <Button icon="upload" onClick={() => file.current?.click()}>Bring one in</Button>
        <input ref={file} type="file" accept=".zst,.tar" hidden aria-label="A snapshot as tar.zst" onChange={(e) => { const f = e.currentTarget.files?.[0]; e.currentTarget.value = ''; if (f) void bring(f).catch((error: unknown) => toast.error(error)) }} />
        {!sandbox.persistent && <span class="quiet small">It lives in memory alone: there is no disk to take a snapshot of.</span>}
      </header>
      {load.error !== undefined && <Failure error={load.error} title="The list could not be asked for again; this is what was there before." retry={load.reload} />}
      {all.length === 0 ? (
        <Empty icon="camera" title="No snapshots yet" hint="A snapshot keeps the files as they are. You can put them back later, or begin another sandbox with them." />
      ) : (
        <ol class="timeline" aria-label="Snapshots, newest first">
          <li class="moment moment-now"><div class="moment-what"><strong>Now</strong></div></li>
          {all.map((s) => <Moment key={s.id} snapshot={s} sandbox={sandbox} client={client} onCompare={() => (comparing.value = s)} onRollback={() => (rolling.value = s)} onChanged={() => ((brought.value = brought.value.filter((b) => b.id !== s.id)), load.reload())} />)}
        </ol>
      )}
      {comparing.value && <Compare from={comparing.value} others={all} sandbox={sandbox} client={client} onClose={() => (comparing.value = undefined)} />}
      {rolling.value && <Rollback to={rolling.value} sandbox={sandbox} client={client} onClose={() => (rolling.value = undefined)} onDone={() => ((rolling.value = undefined), load.reload())} />}
    </section>
  )
}
