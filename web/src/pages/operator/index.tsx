// For those who run the host: how it is, what it can enforce, who has what, and what happened.
import { session } from '../../lib/session'
import { go, type Route } from '../../lib/route'
import { Empty, Tabs, type Tab } from '../../ui'
import '../../style/parts.css'
import '../../style/operator.css'
import { Audit } from './audit'
import { Doctor } from './doctor'
import { Drivers } from './drivers'
import { Gate } from './gate'
import { Host } from './host'
import { Owners } from './owners'
import { Verify } from './verify'

const PARTS: readonly (Tab & { view: () => preact.JSX.Element })[] = [
  { id: 'host', title: 'Host', icon: 'chart', view: Host },
  { id: 'drivers', title: 'Drivers', icon: 'shield', view: Drivers },
  { id: 'doctor', title: 'Doctor', icon: 'help', view: Doctor },
  { id: 'verify', title: 'Verify', icon: 'check', view: Verify },
  { id: 'gate', title: 'Gate', icon: 'globe', view: Gate },
  { id: 'owners', title: 'Owners', icon: 'wallet', view: Owners },
  { id: 'audit', title: 'Audit', icon: 'search', view: Audit },
]

export default function OperatorPage({ route }: { route: Route }) {
  if (!session.value?.operator) return <div class="page"><Empty icon="shield" title="This page is for operators" hint="Your session acts for you alone. Whoever runs the host can open one that acts for all: stockade sign-in --operator, or a wallet under “operators” of stockade.conf." /></div>
  const part = PARTS.find((p) => p.id === route.parts[1]) ?? PARTS[0]
  if (!part) return null
  const View = part.view
  return (
    <div class="page operator">
      <h1>Operator</h1>
      <Tabs tabs={PARTS} current={part.id} onChange={(id) => go(`/operator/${id}`, { replace: true })} label="Parts of the operator’s page" />
      <section role="tabpanel" id={`panel-${part.id}`} aria-labelledby={`tab-${part.id}`}><View /></section>
    </div>
  )
}
