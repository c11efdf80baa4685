// Ways to keep sandboxes apart that this host has, and what can be enforced.
import { Absent } from '../../lib/extra'
import { client } from '../../lib/session'
import { bytes } from '../../lib/words'
import { Badge, useLoad } from '../../ui'
import { askDoctor, Facts, type Fact } from './doctor'
import { Part, listAt, member, numberAt, textAt } from './part'

const ABOUT: Record<string, string> = {
  native: 'Linux namespaces, Landlock, seccomp, cgroups and the gate.',
  microvm: 'A virtual machine with a kernel of its own.',
  firecracker: 'A virtual machine by Firecracker.',
  gvisor: 'A kernel in user space (runsc).',
  docker: 'A container of Docker.',
  runc: 'A container by runc.',
}

const FEATURES: Record<string, string> = { disks: 'Disks of their own', images: 'Images', snapshots: 'Snapshots, forks and rollback', pause: 'Pausing', network: 'Networks through the gate' }

async function ask(): Promise<{ capabilities: Record<string, unknown>; facts: Fact[] | undefined }> {
  const [capabilities, doctor] = await Promise.all([client().capabilities(), askDoctor().catch((e: unknown) => (e instanceof Absent ? undefined : Promise.reject(e)))])
  return { capabilities, facts: doctor?.facts }
}

/** A driver may come as a name, or with what it enforces. */
function Driver({ driver }: { driver: unknown }) {
  const name = typeof driver === 'string' ? driver : textAt(driver, 'name')
  const enforces = listAt(driver, 'enforces').map(String)
  return (
    <li>
      <div class="row"><strong>{name}</strong> <Badge tone="good">there</Badge></div>
      <p class="quiet">{(Object.hasOwn(ABOUT, name) ? ABOUT[name] : undefined) ?? textAt(driver, 'about')}</p>
      {enforces.length > 0 && <p>Enforces {enforces.join(', ')}.</p>}
    </li>
  )
}

export function Drivers() {
  const load = useLoad(ask, [])
  return (
    <Part load={load} what="its drivers">
      {({ capabilities, facts }) => (
        <>
          <section class="card">
            <h2>Drivers</h2>
            <ul class="fact-list">{listAt(capabilities, 'drivers').map((d, i) => <Driver key={i} driver={d} />)}</ul>
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
          <h2>What the host lets them enforce</h2>
          {facts ? <Facts facts={facts} /> : <p class="notice">This server does not tell what its host can enforce. On the host: <code>stockade doctor</code></p>}
        </>
      )}
    </Part>
  )
}
