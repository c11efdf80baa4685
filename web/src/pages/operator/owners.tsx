// Who has what on this host.
import { client } from '../../lib/session'
import { bytes } from '../../lib/words'
import { CopyButton, Empty, Table, useLoad } from '../../ui'
import { Part, listAt, numberAt, textAt } from './part'

export function Owners() {
  const load = useLoad(async () => listAt(await client().operator.owners(), 'owners'), [])
  return (
    <Part load={load} what="its owners">
      {(owners) => owners.length === 0 ? <Empty icon="wallet" title="Nobody has anything here yet" /> : (
        <Table label="Owners" rows={owners} rowKey={(o) => textAt(o, 'owner')} columns={[
          { title: 'Owner', cell: (o) => <span class="break mono">{textAt(o, 'owner')}<CopyButton text={textAt(o, 'owner')} label="Copy the owner" /></span> },
          { title: 'Running', right: true, cell: (o) => `${numberAt(o, 'running') ?? 0} of ${numberAt(o, 'sandboxes') ?? 0}` },
          { title: 'Memory', right: true, cell: (o) => bytes(numberAt(o, 'memory') ?? 0) },
          { title: 'Processors', right: true, wide: true, cell: (o) => ((numberAt(o, 'cpus') ?? 0) / 1000).toFixed(1) },
          { title: 'Disk', right: true, wide: true, cell: (o) => bytes(numberAt(o, 'disk') ?? 0) },
          { title: 'Snapshots', right: true, wide: true, cell: (o) => numberAt(o, 'snapshots') ?? 0 },
        ]} />
      )}
    </Part>
  )
}
