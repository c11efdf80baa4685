// Searching the whole ledger, newest first, in pages.
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { further, searchEvents, searchOf, together, type Found, type Older } from '../../lib/audit'
import { familyOf, type Row } from '../../lib/event-log'
import { setQuery, route } from '../../lib/route'
import { visibleJson } from '../../lib/safe-text'
import { client } from '../../lib/session'
import { dateTime } from '../../lib/words'
import { Badge, Button, Dialog, Empty, Failure, Skeleton, Table, TextField, useLoad } from '../../ui'

const FIELDS = ['text', 'kinds', 'sandbox', 'since', 'until'] as const

export function Audit() {
  const query = route.value.query
  const asked = Object.fromEntries(FIELDS.map((f) => [f, query.get(f) ?? ''])) as Record<(typeof FIELDS)[number], string>
  const typed = useSignal(asked)
  const older = useSignal<Older | undefined>(undefined)
  const open = useSignal<Row | undefined>(undefined)
  const ask = (before?: number): Promise<Found> => searchEvents(client(), { ...searchOf(asked), all: true, limit: 100, ...(before === undefined ? {} : { before }) })
  const load = useLoad(() => ask(), [query.toString()])
  const latest = useRef<Found>()
  latest.current = load.value
  const found = load.value && together(load.value, older.value)
  const onward = async (): Promise<void> => {
    const first = load.value
    if (!first || found?.next === undefined) return
    const page = await ask(found.next)
    if (latest.current === first) older.value = further(first, older.peek(), page) // else somebody searched for something else meanwhile
  }
  const set = (key: keyof typeof typed.value) => (value: string) => void (typed.value = { ...typed.value, [key]: value })
  const rows = found?.rows ?? []
  return (
    <div class="operator-part">
      <form class="audit-form" onSubmit={(e) => { e.preventDefault(); setQuery(typed.value) }}>
        <TextField label="Words" value={typed.value.text} onInput={set('text')} placeholder="evil.test" />
        <TextField label="Kinds" value={typed.value.kinds} onInput={set('kinds')} placeholder="net.deny,auth" />
        <TextField label="Sandbox" value={typed.value.sandbox} onInput={set('sandbox')} placeholder="an id" />
        <TextField label="From" type="datetime-local" value={typed.value.since} onInput={set('since')} />
        <TextField label="Until" type="datetime-local" value={typed.value.until} onInput={set('until')} />
        <Button type="submit" kind="primary" icon="search">Search</Button>
      </form>
      {load.state === 'loading' && <Skeleton lines={8} label="Searching" />}
      {load.state === 'failed' && <Failure error={load.error} retry={load.reload} />}
      {found && (rows.length === 0 ? <Empty icon="search" title={found.next === undefined ? 'Nothing fits' : 'Nothing fits so far'} hint={`${found.looked.toLocaleString()} events were looked at.`} /> : (
        <Table label="Events" rows={rows} rowKey={(r) => r.seq} onRow={(r) => (open.value = r)} columns={[
          { title: 'When', cell: (r) => <span class="nowrap">{dateTime(r.at)}</span> },
          { title: 'Kind', cell: (r) => <Badge tone={r.denied || familyOf(r.kind) === 'auth' ? 'deny' : 'plain'}>{r.kind}</Badge> },
          { title: 'What', cell: (r) => <button type="button" class="bare-link break" onClick={(e) => (e.stopPropagation(), (open.value = r))}><bdi>{r.text}</bdi></button> },
          { title: 'Sandbox', wide: true, cell: (r) => <span class="mono">{r.sandbox}</span> },
          { title: 'By', wide: true, cell: (r) => <span class="actor">{r.actor}</span> },
        ]} />
      ))}
      {found?.next !== undefined && <Button act={onward}>{rows.length ? 'Show older ones' : 'Look further back'}</Button>}
      {open.value && <Dialog title={`Event ${open.value.seq}`} wide onClose={() => (open.value = undefined)}><pre class="event-line">{visibleJson(JSON.stringify(open.value.line, null, 2))}</pre></Dialog>}
    </div>
  )
}
