// The latest report of `stockade verify`: attacks against a sandbox of this host, judged from outside.
import { StockadeError } from 'stockade-client'
import { notAsPromised } from '../../lib/host-papers'
import { openTab } from '../../lib/open-tab'
import { client } from '../../lib/session'
import { dateTime } from '../../lib/words'
import { Badge, Button, Empty, Table, useLoad } from '../../ui'
import { Part, listAt, member, numberAt, textAt } from './part'

const PAGE = '/api/operator/verify/report'

/** undefined: there is none. */
function ask(): Promise<unknown> {
  return client().operator.verify().catch((e: unknown) => (e instanceof StockadeError && e.code === 'NOT_FOUND' ? undefined : Promise.reject(e)))
}

function View({ report }: { report: unknown }) {
  const good = member(report, 'good') === true
  const wrong = notAsPromised(report)
  const count = (of: unknown, verdict: string): number => numberAt(of, 'tally', verdict) ?? 0
  const open = (of: unknown) => (count(of, 'open') ? <Badge tone="bad">{count(of, 'open')}</Badge> : 0)
  return (
    <>
      <section class="card">
        <div class="row"><h2>{textAt(report, 'headline')}</h2><Badge tone={good ? 'good' : 'bad'}>{good ? 'good' : 'not good'}</Badge></div>
        <p class="quiet">{textAt(report, 'summary')}</p>
        <p class="quiet small">{dateTime(Date.parse(textAt(report, 'start')))} · driver {textAt(report, 'driver')} · profile {textAt(report, 'profile', 'name')}{member(report, 'quick') === true && ' · the quick part alone'}</p>
        <div><Button icon="check" act={() => openTab(async () => `${PAGE}?ticket=${await client().ticket(PAGE)}`)}>Open the whole report</Button></div>
      </section>
      {wrong.length > 0 && <Table label="Not as promised" rows={wrong} rowKey={(c) => textAt(c, 'name')} columns={[
        { title: 'Attack', cell: (c) => textAt(c, 'does') },
        { title: 'What came of it', cell: (c) => <><Badge tone={textAt(c, 'verdict') === 'open' ? 'bad' : 'warn'}>{textAt(c, 'verdict_words')}</Badge> {textAt(c, 'why')}</> },
      ]} />}
      <Table label="Groups of attacks" rows={[...listAt(report, 'groups'), report]} rowKey={(g) => textAt(g, 'name')} columns={[
        { title: 'Attacks on', cell: (g) => (g === report ? <strong>All together</strong> : textAt(g, 'title')) },
        { title: 'Open', right: true, cell: open },
        { title: 'Refused as promised', right: true, cell: (g) => count(g, 'promised') },
        { title: 'By another layer', right: true, wide: true, cell: (g) => count(g, 'otherwise') },
        { title: 'Not tried', right: true, wide: true, cell: (g) => count(g, 'untried') },
      ]} />
    </>
  )
}

export function Verify() {
  const load = useLoad(ask, [])
  return (
    <Part load={load} what="what was verified">
      {(report) => (report ? <View report={report} /> : <Empty icon="help" title="Nobody has verified this host yet" hint={<>On the host: <code>stockade verify</code></>} />)}
    </Part>
  )
}
