// The list of one's sandboxes, live; and for somebody who has none, the way to the first.
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { SandboxInfo, State } from 'stockade-client'
import { fetchAhead } from '../lib/ahead'
import { filterSandboxes, statesOf } from '../lib/filter'
import { go, route, sandboxPath, setQuery } from '../lib/route'
import { createSandbox, leavingSoon, listing, loadSandboxes, notFreshSince, sandboxes } from '../lib/sandboxes'
import { loadProfiles, quietProfile } from '../lib/profiles'
import { count, nameOf, stateWord } from '../lib/words'
import { Ago, Button, Empty, Failure, Icon, Link, Select, Skeleton, StateBadge, VirtualList, useShortcut, type OpenProps } from '../ui'
import { UsageSpark } from '../ui/usage-spark'
import { SandboxMenu } from './actions'

const ROW = 64

function Row({ info, link }: { info: SandboxInfo; link: OpenProps }) {
  const leaving = leavingSoon.value.has(info.id)
  return useMemo(() => (
    <div class={leaving ? 'box leaving-soon' : 'box'}>
      <div class="box-name">
        <a class="box-link" href={sandboxPath(info.id)} {...link}><strong>{nameOf(info)}</strong></a>
        <span class="quiet small mono">{info.id}</span>
      </div>
      <div class="box-state"><StateBadge state={leaving ? 'deleting' : info.state} reason={info.reason} /></div>
      <div class="box-kind small"><span>{info.profile}</span><span class="quiet">{info.driver}</span></div>
      <div class="box-spark"><UsageSpark info={info} /></div>
      <div class="box-age quiet small"><Ago ms={info.created_ms} /></div>
      <div class="box-menu"><SandboxMenu info={info} /></div>
    </div>
  ), [info, leaving, link.tabIndex])
}

/** Makes one that is what the page promises, and goes into a terminal in it. Where none is like that, it is chosen by hand. */
async function makeFirst(): Promise<void> {
  const profile = quietProfile(await loadProfiles())
  if (profile === undefined) return go('/create')
  const made = await createSandbox({ profile })
  go(sandboxPath(made.id, 'terminals'))
}

function First() {
  useEffect(fetchAhead, [])
  return (
    <div class="first">
      <div class="stack">
        <h1>Run something that you do not trust</h1>
        <p class="quiet">A sandbox is a computer of its own for a program: with its own files, no network until you allow it, and limits that hold.</p>
      </div>
      <div class="stack">
        <Button kind="primary" icon="terminal" class="button-large" act={makeFirst} autofocus>New sandbox</Button>
        <Link href="/create">Choose first what it may do</Link>
      </div>
      <ul class="promises">
        <li><Icon name="folder" size={22} /><div><strong>It cannot see your files</strong><span class="quiet small">It has a disk of its own. What you give it, you put there.</span></div></li>
        <li><Icon name="globe" size={22} /><div><strong>It reaches nobody</strong><span class="quiet small">It has no network until you name hosts. What it tries beyond these, you see.</span></div></li>
        <li><Icon name="activity" size={22} /><div><strong>Everything is written down</strong><span class="quiet small">In a ledger that the sandbox cannot reach. Whoever changes it afterwards leaves a trace.</span></div></li>
      </ul>
    </div>
  )
}

function List({ all }: { all: readonly SandboxInfo[] }) {
  const search = useRef<HTMLInputElement>(null)
  const text = route.value.query.get('q') ?? ''
  const state = route.value.query.get('state') ?? ''
  const found = useMemo(() => filterSandboxes(all, text, state), [all, text, state])
  useShortcut('/', 'Search', () => search.current?.focus())
  useShortcut('n', 'New sandbox', () => go('/create'))
  const clear = (): void => setQuery({ q: undefined, state: undefined })
  return (
    <>
      <div class="list-head">
        <h1>Sandboxes</h1>
        <Button kind="primary" icon="plus" onClick={() => go('/create')}>New sandbox</Button>
      </div>
      <div class="list-tools">
        <div class="search">
          <Icon name="search" />
          <input ref={search} class="input" type="search" placeholder="Name, id, profile…" aria-label="Search" value={text} onInput={(e) => setQuery({ q: e.currentTarget.value })} onKeyDown={(e) => { if (e.key === 'Escape') { clear(); e.currentTarget.blur() } }} />
        </div>
        <Select bare label="State" value={state} onChange={(value) => setQuery({ state: value })} options={[{ value: '', title: 'All states' }, ...statesOf(all).map((s: State) => ({ value: s, title: stateWord(s) }))]} />
      </div>
      {notFreshSince.value !== undefined && <p class="quiet small" role="status">Not up to date since <Ago ms={notFreshSince.value} />: the server does not answer, or asks us to wait. <Button small kind="quiet" icon="refresh" act={loadSandboxes}>Try now</Button></p>}
      <p class="said" role="status">{count(found.length, 'sandbox', 'sandboxes')}</p>
      {found.length ? (
        <div class="boxes">
          <VirtualList items={found} rowHeight={ROW} keyOf={(s) => s.id} label="Sandboxes" onOpen={(s) => go(sandboxPath(s.id))} render={(s, link) => <Row info={s} link={link} />} />
        </div>
      ) : (
        <Empty icon="search" title="None of your sandboxes is like that." action={<Button onClick={clear}>Show all {all.length}</Button>} />
      )}
    </>
  )
}

export function Sandboxes() {
  const all = useMemo(() => [...sandboxes.value.values()].sort((a, b) => b.created_ms - a.created_ms), [sandboxes.value])
  const at = listing.value
  useEffect(() => void (document.title = 'Sandboxes · Stockade'), [])
  return (
    <div class="page">
      {at.state === 'failed' && !all.length ? <Failure title="Your sandboxes cannot be shown." error={at.error} retry={() => void loadSandboxes()} />
        : at.state === 'loading' && !all.length ? <Skeleton lines={6} label="Loading your sandboxes" />
        : all.length ? <List all={all} /> : <First />}
    </div>
  )
}
