// Runs of a sandbox: start one, watch it, look at those that were.
import '../../style/runs.css'
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { RunInfo, SandboxInfo } from 'stockade-client'
import { live } from '../../lib/live'
import { route, setQuery } from '../../lib/route'
import { shorten, visible } from '../../lib/safe-text'
import { client } from '../../lib/session'
import { sandboxOf } from '../../lib/words'
import { Ago, Badge, Button, Empty, Failure, Select, Skeleton, useLoad, VirtualList, type OpenProps } from '../../ui'
import { chosenRuns, type Which } from './runs/choose'
import { RunDetail } from './runs/detail'
import { commandLine, outcome } from './runs/outcome'
import { StartRun } from './runs/start'

const PAGE = 100
const APART_MS = 2000

export default function Runs({ sandbox }: { sandbox: SandboxInfo }) {
  const [more, setMore] = useState(PAGE)
  const [which, setWhich] = useState<Which>('all')
  const [text, setText] = useState('')
  const loaded = useLoad(() => client().sandboxes.of(sandbox).runs({ max: more }), [sandbox.id, more, live.returned.value])
  const chosen = Number(route.value.query.get('run') ?? 0)

  // whatever begins or ends is in the ledger; asked for again at most every two seconds
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = live.on(['run.start', 'run.end'], (events) => {
      if (!events.some((e) => sandboxOf(e) === sandbox.id)) return
      timer ??= setTimeout(() => {
        timer = undefined
        loaded.reload()
      }, APART_MS)
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [sandbox.id])

  const runs = loaded.value ?? []
  const shown = useMemo(() => chosenRuns(runs, which, text), [runs, which, text])
  const open = (run: number): void => setQuery({ run: String(run) })
  return (
    <div class="runs">
      {sandbox.state === 'running' && <StartRun sandbox={sandbox} onStarted={(run) => { open(run); loaded.reload() }} />}
      <div class="runs-both">
        <div class="runs-list">
          <div class="row">
            <input class="input grow" type="search" aria-label="Filter runs" placeholder="Filter" value={text} onInput={(e) => setText(e.currentTarget.value)} />
            <Select bare label="Which runs" value={which} onChange={(v) => setWhich(v as Which)} options={[{ value: 'all', title: 'All' }, { value: 'running', title: 'Running' }, { value: 'failed', title: 'Failed' }, { value: 'terminals', title: 'Terminals' }]} />
          </div>
          {loaded.state === 'loading' && <Skeleton lines={6} label="Reading the runs" />}
          {loaded.state === 'failed' && <Failure error={loaded.error} retry={loaded.reload} title="The runs could not be listed" />}
          {loaded.state === 'ready' && shown.length === 0 && <Empty icon="list" title={runs.length ? 'No run is like that' : 'Nothing was run yet'} hint={runs.length ? undefined : 'Type a command above; what it prints appears here.'} />}
          {shown.length > 0 && <VirtualList items={shown} rowHeight={64} keyOf={(r) => r.run} label="Runs" boxClass="runs-box" onOpen={(r) => open(r.run)} render={(run, link) => <RunRow run={run} chosen={run.run === chosen} link={link} />} />}
          {loaded.state === 'ready' && runs.length >= more && <Button small kind="quiet" onClick={() => setMore(more + PAGE)}>Older runs</Button>}
        </div>
        {chosen > 0
          ? <RunDetail key={chosen} sandbox={sandbox} run={chosen} known={runs.find((r) => r.run === chosen)} onChange={loaded.reload} />
          : runs.length > 0 && <Empty icon="list" title="Choose a run" hint="What it printed and how it ended is shown here." />}
      </div>
    </div>
  )
}

function RunRow({ run, chosen, link }: { run: RunInfo; chosen: boolean; link: OpenProps }) {
  const { text, tone } = outcome(run)
  const line = commandLine(run.command)
  return (
    <div class={`runs-row${chosen ? ' runs-chosen' : ''}`} aria-current={chosen ? 'true' : undefined}>
      <div class="row">
        <span class="quiet">#{run.run}</span>
        <a class="grow runs-command" href={`?run=${run.run}`} title={visible(line, 500)} aria-label={`Run ${run.run}: ${visible(line, 120) || 'a shell'}`} {...link}><code>{line ? shorten(visible(line, 200), 80) : run.tty ? 'shell' : '—'}</code></a>
      </div>
      <div class="row small">
        <Badge tone={tone} dot>{shorten(text, 48)}</Badge>
        <span class="quiet"><Ago ms={run.started_ms} /></span>
      </div>
    </div>
  )
}
