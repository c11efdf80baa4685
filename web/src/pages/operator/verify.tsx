// The latest report of `stockade verify`: attacks against a sandbox of this host, judged from outside.
import { askMaybe } from '../../lib/extra'
import { client } from '../../lib/session'
import { Badge, Table, useLoad } from '../../ui'
import { Part, listAt, member, numberAt, textAt } from './part'

interface Group {
  title: string
  checks: number
  promised: number
  otherwise: number
  open: number
  untried: number
}

function groupsOf(report: unknown): Group[] {
  return listAt(report, 'groups').map((g) => ({
    title: textAt(g, 'title') || textAt(g, 'name'),
    checks: numberAt(g, 'tally', 'checks') ?? 0,
    promised: numberAt(g, 'tally', 'promised') ?? 0,
    otherwise: numberAt(g, 'tally', 'otherwise') ?? 0,
    open: numberAt(g, 'tally', 'open') ?? 0,
    untried: numberAt(g, 'tally', 'untried') ?? 0,
  }))
}

/** Checks that did not go as promised. */
function bad(report: unknown): { name: string; does: string; words: string }[] {
  return listAt(report, 'groups').flatMap((g) => listAt(g, 'checks')).filter((c) => textAt(c, 'verdict') !== 'promised' && textAt(c, 'verdict') !== 'permitted')
    .map((c) => ({ name: textAt(c, 'name'), does: textAt(c, 'does'), words: textAt(c, 'verdict_words') || textAt(c, 'verdict') }))
}

export function Verify() {
  const load = useLoad(() => askMaybe<unknown>(client(), 'what was verified', 'GET', '/api/operator/verify'), [])
  return (
    <Part load={load} what="what was verified" instead={<>On the host: <code>stockade verify --report report.html</code></>}>
      {(answer) => {
        const report = member(answer, 'report') instanceof Object ? member(answer, 'report') : answer
        if (!textAt(report, 'headline')) return <p class="notice">Nobody has run <code>stockade verify</code> on this host yet, or its report is not kept. {textAt(answer, 'hint')}</p>
        const wrong = bad(report)
        return (
          <>
            <section class="card">
              <div class="row"><h2>{textAt(report, 'headline')}</h2><Badge tone={member(report, 'good') === true ? 'good' : 'bad'}>{member(report, 'good') === true ? 'good' : 'not good'}</Badge></div>
              <p class="quiet">{textAt(report, 'summary')}</p>
              <p class="quiet small">{textAt(report, 'start')} · driver {textAt(report, 'driver')} · profile {textAt(report, 'profile', 'name')}{member(report, 'quick') === true && ' · the quick part alone'}</p>
            </section>
            <Table label="Groups of attacks" rows={groupsOf(report)} rowKey={(g) => g.title} columns={[
              { title: 'Attacks on', cell: (g) => g.title },
              { title: 'Tried', right: true, cell: (g) => g.checks - g.untried },
              { title: 'Refused as promised', right: true, cell: (g) => g.promised },
              { title: 'By another layer', right: true, wide: true, cell: (g) => g.otherwise },
              { title: 'Open', right: true, cell: (g) => (g.open ? <Badge tone="bad">{g.open}</Badge> : 0) },
            ]} />
            {wrong.length > 0 && <Table label="Not as promised" rows={wrong} rowKey={(c) => c.name} columns={[{ title: 'Attack', cell: (c) => c.does || c.name }, { title: 'What came of it', cell: (c) => c.words }]} />}
          </>
        )
      }}
    </Part>
  )
}
