// Ways to keep sandboxes apart that this host has, and what each can enforce here.
import type { Fact } from 'stockade-client'
import { client } from '../../lib/session'
import { bytes } from '../../lib/words'
import { Badge, Failure, useLoad } from '../../ui'
import { FactBadge } from './doctor'
import { Part, listAt, member, numberAt, textAt } from './part'

const ABOUT: Record<string, string> = { native: 'Linux namespaces, Landlock, seccomp, cgroups and the gate.' }

const FEATURES: Record<string, string> = { disks: 'Disks of their own', images: 'Images', snapshots: 'Snapshots, forks and rollback', pause: 'Pausing', network: 'Networks through the gate' }

const STATES = { ok: 'Enforces with', limited: 'In part', missing: 'Without' } as const

/** A doctor who cannot be heard takes nothing else away. */
async function ask(): Promise<{ capabilities: Record<string, unknown>; facts: readonly Fact[]; failed: unknown }> {
  const [capabilities, doctor] = await Promise.all([client().capabilities(), client().operator.doctor().catch((failed: unknown) => ({ facts: [], failed }))])
  return { failed: undefined, ...doctor, capabilities }
}

function Driver({ name, facts }: { name: string; facts: readonly Fact[] }) {
  const tested = facts.find((f) => f.group === 'drivers' && f.name === name)
  return (
    <li>
      <div class="row"><strong>{name}</strong> {tested && <FactBadge fact={tested} />}</div>
      <p class="quiet">{Object.hasOwn(ABOUT, name) && ABOUT[name]}</p>
      {tested && <p class="quiet capital">{tested.detail}</p>}
      <dl class="facts">
        {Object.entries(STATES).map(([state, words]) => {
          const of = facts.filter((f) => f.group !== 'drivers' && f.state === state)
          return of.length > 0 && <><dt>{words}</dt><dd>{of.map((f) => f.name).join(', ')}</dd></>
        })}
      </dl>
    </li>
  )
}

/** One that stockade.conf declares, and nobody gets. */
function Broken({ driver }: { driver: unknown }) {
  return (
    <li>
      <div class="row"><strong>{textAt(driver, 'name')}</strong> <Badge tone="bad">does not work here</Badge></div>
      <p class="quiet capital">{textAt(driver, 'why') || 'its probe has said nothing yet'}</p>
      <p class="quiet">{textAt(driver, 'fix')}</p>
    </li>
  )
}

export function Drivers() {
  const load = useLoad(ask, [])
  return (
    <Part load={load} what="its drivers">
      {({ capabilities, facts, failed }) => (
        <>
          <section class="card">
            <h2>Drivers</h2>
            <ul class="fact-list">
              {listAt(capabilities, 'drivers').map((d) => <Driver key={d} name={String(d)} facts={facts} />)}
              {listAt(capabilities, 'driver_details').filter((d) => member(d, 'offered') === false).map((d) => <Broken key={textAt(d, 'name')} driver={d} />)}
            </ul>
            {failed !== undefined && <Failure error={failed} title="What they can enforce could not be found out." />}
          </section>
          <section class="card">
            <h2>What sandboxes can have here</h2>
            <div class="row">
              {Object.entries(FEATURES).map(([key, words]) => {
                const has = member(capabilities, 'features', key) === true
                return <Badge key={key} tone={has ? 'good' : 'plain'}>{words}: {has ? 'yes' : 'no'}</Badge>
              })}
            </div>
            <p class="quiet small">All together at most {bytes(numberAt(capabilities, 'limits', 'memory') ?? 0)} of memory, {((numberAt(capabilities, 'limits', 'cpus_thousandths') ?? 0) / 1000).toFixed(0)} processors, {(numberAt(capabilities, 'limits', 'processes') ?? 0).toLocaleString()} processes and {bytes(numberAt(capabilities, 'limits', 'disk') ?? 0)} of disk.</p>
          </section>
        </>
      )}
    </Part>
  )
}
