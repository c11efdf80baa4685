// How the host and the daemon are: health, readiness, load, what is promised, the pool.
import { useEffect, useRef } from 'preact/hooks'
import type { Pool } from 'stockade-client'
import { live } from '../../lib/live'
import { waitAsked } from '../../lib/pace'
import { client } from '../../lib/session'
import { bytes, count, duration } from '../../lib/words'
import { Badge, useLoad } from '../../ui'
import { Meter } from '../../ui/meter'
import { Part, listAt, member, numberAt, textAt } from './part'

const EVERY_MS = 20_000 // four requests each time

interface Found {
  health: Record<string, unknown>
  ready: Record<string, unknown>
  capabilities: Record<string, unknown>
  pool: Pool
  load: Record<string, number | null>
}

/** before: what it was; of that the capabilities stay the same for as long as the server runs. */
async function ask(before: Found | undefined): Promise<Found> {
  const by = client()
  const [health, ready, capabilities, pool, load] = await Promise.all([by.operator.health(), by.ready(), before?.capabilities ?? by.capabilities(), by.operator.pool(), by.operator.load()])
  return { health, ready, capabilities, pool, load }
}

function Load({ load }: { load: Found['load'] }) {
  const thousandths = (n: number | null | undefined): string => ((n ?? 0) / 1000).toFixed(2)
  return (
    <>
      <Meter title="Load of the last minute" used={(load['load_1m_thousandths'] ?? 0) / 1000} of={load['cpus'] ?? undefined} format={(n) => n.toFixed(2)} />
      <Meter title="Memory in use" used={(load['memory'] ?? 0) - (load['memory_free'] ?? 0) - (load['memory_buffers'] ?? 0)} of={load['memory'] ?? undefined} format={bytes} />
      <p class="quiet small">{thousandths(load['load_5m_thousandths'])} over 5 minutes, {thousandths(load['load_15m_thousandths'])} over 15; {count(load['processes'] ?? 0, 'process', 'processes')}; up for {duration(load['uptime_ms'] ?? 0)}.</p>
    </>
  )
}

function State({ name, value }: { name: string; value: unknown }) {
  const good = value === true || value === 'ok' || value === 'ready'
  return <Badge tone={good ? 'good' : 'bad'} dot>{name}: {good ? 'well' : String(value)}</Badge>
}

function View({ found: { health, ready, capabilities, pool, load } }: { found: Found }) {
  const limits = member(capabilities, 'limits')
  const thousandths = (n: number): string => (n / 1000).toFixed(1)
  return (
    <>
      <div class="row">
        {(['ledger', 'store', 'disk'] as const).map((k) => <State key={k} name={k} value={health[k]} />)}
        <State name="a sandbox can be had" value={ready['status']} />
        {health['incomplete'] === true && <Badge tone="warn">not everything could be taken over</Badge>}
      </div>
      {textAt(ready, 'why') && <p class="notice">{textAt(ready, 'why')}</p>}
      <section class="card">
        <h2>Promised to sandboxes</h2>
        <Meter title="Memory" used={numberAt(health, 'used', 'memory')} of={numberAt(limits, 'memory')} format={bytes} />
        <Meter title="Processors" used={numberAt(health, 'used', 'cpus')} of={numberAt(limits, 'cpus_thousandths')} format={thousandths} />
        <Meter title="Disk" used={numberAt(health, 'used', 'disk')} of={numberAt(limits, 'disk')} format={bytes} />
        <p class="quiet small">{count(numberAt(health, 'used', 'sandboxes') ?? 0, 'sandbox', 'sandboxes')} in all. Version {textAt(capabilities, 'version')}, event {numberAt(health, 'ledger_seq')?.toLocaleString() ?? '?'} of the ledger.</p>
      </section>
      <section class="card">
        <h2>Load of the host</h2>
        <Load load={load} />
      </section>
      <section class="card">
        <h2>Pool</h2>
        <p class="quiet small">Sandboxes that were started before somebody asked for them.</p>
        <p>{pool.size === 0 ? 'There is no pool: each sandbox is started when it is asked for.' : `${pool.ready} ready; ${pool.size} of each kind are kept${pool.making ? ', another one is being made' : ''}.`}</p>
        {pool.kinds.length > 0 && <p class="quiet">{pool.kinds.map((k) => `${k.profile}${k.driver === 'native' ? '' : ` (${k.driver})`}: ${k.ready}`).join(', ')}</p>}
      </section>
      <section class="card">
        <h2>Doors</h2>
        <dl class="facts">
          <dt>API</dt><dd>{listAt(health, 'api', 'listen').map(String).join(', ') || 'closed'}{textAt(health, 'api', 'error') && ` (${textAt(health, 'api', 'error')})`}</dd>
          <dt>SSH</dt><dd>{listAt(health, 'ssh', 'listen').map(String).join(', ') || 'closed'}</dd>
          <dt>Parts</dt><dd>{listAt(health, 'parts').map(String).join(', ')}</dd>
          <dt>Secrets</dt><dd>{member(health, 'keys', 'wrapped') === true ? 'sealed' : 'not sealed'}{(numberAt(health, 'keys', 'locked') ?? 0) > 0 && `, ${numberAt(health, 'keys', 'locked')} cannot be opened`}</dd>
        </dl>
      </section>
    </>
  )
}

export function Host() {
  const known = useRef<Found>()
  const back = live.returned.value
  useEffect(() => void (known.current = undefined), [back]) // another version may run now
  const load = useLoad(async () => (known.current = await ask(known.current)), [])
  useEffect(() => {
    const timer = setInterval(() => void (document.visibilityState === 'visible' && !waitAsked() && load.reload()), EVERY_MS)
    return () => clearInterval(timer)
  }, [load.reload])
  return <Part load={load} what="how the host is">{(found) => <View found={found} />}</Part>
}
