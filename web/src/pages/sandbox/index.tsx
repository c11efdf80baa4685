// One sandbox: what it is, what can be done with it, and its tabs.
import '../../style/sandbox.css'
import { useEffect, useRef } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { go, sandboxPath, type Route } from '../../lib/route'
import { leavingSoon, refreshSandbox, sandboxes } from '../../lib/sandboxes'
import { client, session } from '../../lib/session'
import { nameOf, stateMeans } from '../../lib/words'
import { Ago, Button, CopyButton, Empty, Failure, Icon, Link, Skeleton, StateBadge, Tabs, useLoad } from '../../ui'
import { SandboxActions } from '../actions'
import { useReturned } from './fresh'
import { TABS } from './tabs'

function Head({ info }: { info: SandboxInfo }) {
  const means = stateMeans(info)
  return (
    <div class="sandbox-head">
      <Link href="/sandboxes" class="back" aria-label="To the list"><Icon name="back" /></Link>
      <div class="sandbox-title">
        <h1 title={nameOf(info)}>{nameOf(info)}</h1>
        <StateBadge state={info.state} reason={info.reason} />
        <p class="sandbox-facts quiet small">
          <span title="profile">{info.profile}</span>
          <span title="how it is kept apart">{info.driver}</span>
          {info.image && <span title="image">{info.image}</span>}
          <span class="mono">{info.id}<CopyButton text={info.id} label="Copy the id" /></span>
          <span>made <Ago ms={info.created_ms} /></span>
        </p>
        {means && <p class="sandbox-means">{means}</p>}
      </div>
      <SandboxActions info={info} />
    </div>
  )
}

export default function SandboxPage({ route }: { route: Route }) {
  const id = route.parts[1] ?? ''
  const owner = session.value?.owner
  const loaded = useLoad(() => refreshSandbox(id), [id])
  useReturned(loaded.reload)
  // lists are of one's own: an operator may look at another one's
  const other = loaded.value && loaded.value.owner !== owner ? loaded.value : undefined
  const known = sandboxes.value.get(id) ?? [...sandboxes.value.values()].find((s) => s.name === id) ?? other
  const seen = useRef<string>()
  useEffect(() => {
    if (known) document.title = `${nameOf(known)} · Stockade`
    return () => void (document.title = 'Stockade')
  }, [known?.name, known?.id])
  if (known) seen.current = owner // somebody else may sign in meanwhile
  const deleted = seen.current !== undefined && seen.current === owner

  if (!known) {
    if (loaded.state === 'loading') return <div class="page"><Skeleton lines={4} /></div>
    if (loaded.state === 'failed') return <div class="page"><Failure error={loaded.error} retry={loaded.reload} /></div>
    return (
      <div class="page">
        <Empty icon="search" title={deleted ? 'This sandbox was deleted.' : 'There is no such sandbox.'} hint={deleted ? 'Nothing of it is left but what the ledger says.' : 'It was deleted, or it belongs to somebody else.'} action={<Button onClick={() => go('/sandboxes')}>To your sandboxes</Button>} />
      </div>
    )
  }
  const tab = TABS.find((t) => t.id === route.parts[2]) ?? TABS[0]
  return (
    <div class={`sandbox-page${leavingSoon.value.has(known.id) ? ' leaving-soon' : ''}`}>
      <Head info={known} />
      <Tabs tabs={TABS} current={tab?.id ?? ''} onChange={(next) => go(sandboxPath(known.id, next), { replace: true })} label="Parts of the sandbox" />
      {tab && (
        <section class="sandbox-tab" role="tabpanel" id={`panel-${tab.id}`} aria-labelledby={`tab-${tab.id}`}>
          <tab.view key={`${known.id}/${tab.id}`} sandbox={known} client={client()} />
        </section>
      )}
    </div>
  )
}
