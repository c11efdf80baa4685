// What the sandbox does and tries, from the ledger, live.
import { useComputed, useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { Client, SandboxInfo } from 'stockade-client'
import { Activity } from '../../lib/activity'
import { familyWords } from '../../lib/event-words'
import { NO_FILTER, type Filter, type Row } from '../../lib/event-log'
import { Badge, Button, Empty, Failure, Icon, Skeleton, VirtualList, useShortcut, type OpenProps } from '../../ui'
import '../../style/parts.css'
import '../../style/activity.css'
import { ChainBadge } from './chain-badge'
import { EventDetail } from './event-detail'

const ROW = 44

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })

function EventRow({ row, open, button }: { row: Row; open: boolean; button: OpenProps }) {
  return (
    <div class={`event${row.denied ? ' event-denied' : ''}${open ? ' event-open' : ''}`}>
      <time class="event-time" dateTime={new Date(row.at).toISOString()}>{clock.format(row.at)}</time>
      <span class="event-kind">{row.denied ? <Badge tone="deny">{row.kind}</Badge> : row.kind}</span>
      <button type="button" class="event-text bare-text" title={row.text} {...button}><bdi>{row.text}</bdi></button>
      {row.denied && <span class="event-why">Why?</span>}
    </div>
  )
}

function Status({ activity }: { activity: Activity }) {
  const state = activity.state.value
  if (activity.paused.value) return <Badge tone="warn">Paused · {activity.waiting.value} new</Badge>
  if (state === 'live') return <Badge tone="good" dot>Live</Badge>
  return <Badge tone="warn" dot>{state === 'beginning' ? 'Connecting' : 'Reconnecting'}</Badge>
}

function Filters({ activity, filter, onChange }: { activity: Activity; filter: Filter; onChange: (to: Filter) => void }) {
  const search = useRef<HTMLInputElement>(null)
  useShortcut('/', 'Search the activity', () => search.current?.focus())
  activity.version.value // drawn again with what came
  const toggle = (family: string): void => {
    const kinds = new Set(filter.kinds)
    if (!kinds.delete(family)) kinds.add(family)
    onChange({ ...filter, kinds })
  }
  return (
    <div class="event-filters">
      <input ref={search} type="search" class="input" placeholder="Search" aria-label="Search the activity" value={filter.text} onInput={(e) => onChange({ ...filter, text: e.currentTarget.value })} />
      <div class="chips" role="group" aria-label="Kinds">
        <button type="button" class="chip chip-deny" aria-pressed={filter.denialsOnly} onClick={() => onChange({ ...filter, denialsOnly: !filter.denialsOnly })}>
          <Icon name="block" size={16} /> Denials <span class="count">{activity.log.denials}</span>
        </button>
        {[...activity.log.families].sort(([a], [b]) => a.localeCompare(b)).map(([family, count]) => (
          <button key={family} type="button" class="chip" aria-pressed={filter.kinds.has(family)} onClick={() => toggle(family)}>
            {familyWords(family)} <span class="count">{count}</span>
          </button>
        ))}
      </div>
    </div>
  )
}

export default function ActivityTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const activity = useMemo(() => new Activity(client, sandbox), [client, sandbox.id])
  useEffect(() => () => activity.end(), [activity])
  const filter = useSignal<Filter>(NO_FILTER)
  const chosen = useSignal<Row | undefined>(undefined)
  const rows = useComputed(() => (activity.version.value, [...activity.rows]))
  const change = (to: Filter): void => {
    filter.value = to
    activity.filter(to)
  }
  useShortcut('p', 'Pause the activity, or go on', () => activity.pause(!activity.paused.value))
  const isFiltered = filter.value !== NO_FILTER && (filter.value.text !== '' || filter.value.kinds.size > 0 || filter.value.denialsOnly)
  const { log, error, state, paused } = activity
  return (
    <section class="activity" aria-label="Activity">
      <header class="activity-bar">
        <Status activity={activity} />
        <ChainBadge client={client} activity={activity} />
        <span class="quiet small">{log.total.toLocaleString()} events{log.dropped > 0 && `, the newest ${log.size.toLocaleString()} kept here`}</span>
        <span class="grow" />
        <Button small icon={paused.value ? 'play' : 'pause'} aria-pressed={paused.value} onClick={() => activity.pause(!paused.value)}>{paused.value ? 'Go on' : 'Pause'}</Button>
      </header>
      <Filters activity={activity} filter={filter.value} onChange={change} />
      {error.value !== undefined && state.value === 'broken' && <Failure error={error.value} title="The activity cannot be read now." />}
      {rows.value.length > 0 ? (
        <VirtualList items={rows.value} rowHeight={ROW} keyOf={(r) => r.seq} label="Events" boxClass="event-box" stick={!paused.value} onOpen={(r) => (chosen.value = r)} render={(r, button) => <EventRow row={r} open={r.seq === chosen.value?.seq} button={button} />} />
      ) : log.size > 0 && isFiltered ? (
        <Empty title="Nothing fits" hint="None of the events is of this kind or has these words." action={<Button onClick={() => change(NO_FILTER)}>Show all</Button>} />
      ) : state.value === 'beginning' ? (
        <Skeleton lines={8} label="Loading the activity" />
      ) : (
        <Empty icon="activity" title="Nothing has happened yet" hint="What the sandbox does and tries appears here at once." />
      )}
      {chosen.value && <EventDetail row={chosen.value} sandbox={sandbox} client={client} onClose={() => (chosen.value = undefined)} />}
    </section>
  )
}
