// What sandboxes reach and what the gate refuses, by name.
import { visible } from '../../lib/safe-text'
import { client } from '../../lib/session'
import { bytes } from '../../lib/words'
import { Badge, Empty, Table, useLoad } from '../../ui'
import { Part } from './part'

export function Gate() {
  const load = useLoad(() => client().operator.gate({ limit: 200 }), [])
  return (
    <Part load={load} what="what its gate decided">
      {({ names, more, looked, next }) => names.length === 0 ? <Empty icon="globe" title="No sandbox has tried to reach anything" /> : (
        <>
          <Table label="Verdicts by name" rows={names} rowKey={(v) => v.host} columns={[
            { title: 'Name', cell: (v) => <bdi class="break">{visible(v.host)}</bdi> },
            { title: 'Refused', right: true, cell: (v) => (v.denied ? <Badge tone="deny">{v.denied.toLocaleString()}</Badge> : 0) },
            { title: 'Why', wide: true, cell: (v) => visible(v.reason ?? '') },
            { title: 'Passed', right: true, cell: (v) => v.allowed.toLocaleString() },
            { title: 'Sent', right: true, wide: true, cell: (v) => bytes(v.sent) },
            { title: 'Received', right: true, wide: true, cell: (v) => bytes(v.received) },
          ]} />
          {(more || next !== null) && <p class="quiet small">Of the last {looked.toLocaleString()} events{more && ', those that were tried most'}.</p>}
        </>
      )}
    </Part>
  )
}
