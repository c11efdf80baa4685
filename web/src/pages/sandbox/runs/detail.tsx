// One run: what was asked for, what it prints, how it ended, and what can be done while it runs.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { RunInfo, SandboxInfo } from 'stockade-client'
import { download } from '../../../lib/download'
import { client } from '../../../lib/session'
import { bytes, count, dateTime, duration } from '../../../lib/words'
import { ask, Badge, Button, CopyButton, copyText, Empty, Failure, IconButton, Menu, now, Skeleton, toast, VirtualList } from '../../../ui'
import { commandLine, outcome, took } from './outcome'
import { useFollow } from './follow'
import type { OutputLine } from './output'
import { Shown } from './shown'

const SIGNALS: readonly (readonly [name: string, about: string])[] = [
  ['INT', 'Interrupt (as Ctrl+C)'], ['TERM', 'Ask it to end'], ['HUP', 'Hang up'], ['USR1', 'First own signal'], ['STOP', 'Stop for now'], ['CONT', 'Go on'], ['KILL', 'Kill its processes'],
]

export function RunDetail({ sandbox, run, known, onChange }: { sandbox: SandboxInfo; run: number; known: RunInfo | undefined; onChange: () => void }) {
  const following = useFollow(sandbox, run)
  const [found, setFound] = useState<RunInfo>()
  const one = () => client().sandboxes.of(sandbox).run(run)
  useEffect(() => {
    setFound(undefined)
    if (!known) one().info().then(setFound, () => undefined)
  }, [run])
  useEffect(() => {
    if (following.state === 'ended') onChange()
  }, [following.state])
  const info = following.info ?? known ?? found
  const runs = info?.state === 'running' && following.state !== 'ended'
  const signal = async (name: string): Promise<void> => {
    await one().signal(name)
    toast.say(`Sent ${name}.`)
  }
  const cancel = async (): Promise<void> => {
    if (!(await ask({ title: `End run ${run}?`, text: 'Everything that belongs to it is killed.', yes: 'End it', danger: true }))) return
    await one().cancel()
    toast.say(`Run ${run} was cancelled.`)
    onChange()
  }
  return (
    <section class="run" aria-label={`Run ${run}`} data-run={run} data-state={following.state}>
      <header class="run-head row">
        <h2>Run {run}</h2>
        {info && <Badge tone={outcome(info).tone} dot>{outcome(info).text}</Badge>}
        <span class="grow" />
        {runs && <Button small kind="danger" icon="stop" act={cancel}>End it</Button>}
        {runs && <Menu label="Send a signal" items={SIGNALS.map(([name, about]) => ({ title: `${name}: ${about}`, act: () => signal(name) }))} />}
        <Button small kind="quiet" icon="shield" act={() => saveEvidence(sandbox, run)}>Evidence</Button>
      </header>
      {info && outcome(info).hint && <p class="quiet">{outcome(info).hint}</p>}
      {info && <Facts info={info} />}
      {following.state === 'loading' && following.log.empty && <Skeleton lines={6} label="Reading what it printed" />}
      {following.state === 'failed' && <Failure error={following.error} title="Its output could not be read" />}
      {following.state === 'away' && <p class="quiet" role="status">The connection is broken; the run goes on. Trying again…</p>}
      {following.log.lost > 0 && <p class="quiet small">{bytes(following.log.lost)} of output are not kept any more.</p>}
      {following.log.dropped > 0 && <p class="quiet small">{count(following.log.dropped, 'older line')} not shown.</p>}
      {following.log.empty
        ? following.state !== 'loading' && following.state !== 'failed' && <Empty icon="list" title={runs ? 'It has printed nothing yet' : 'It printed nothing'} />
        : <Output lines={following.log.lines} text={() => following.log.text} />}
    </section>
  )
}

function Facts({ info }: { info: RunInfo }) {
  const line = commandLine(info.command)
  const facts: [string, string][] = [
    ['Began', dateTime(info.started_ms)],
    [info.ended_ms ? 'Took' : 'Runs for', took(info, now.value)],
    ['CPU time', duration(info.cpu_us / 1000)],
    ['Most memory', info.memory_peak ? bytes(info.memory_peak) : 'not measured'],
    ['Printed', `${bytes(info.out_bytes)}${info.err_bytes ? `, ${bytes(info.err_bytes)} as errors` : ''}`],
  ]
  if (info.signal) facts.push(['Signal', String(info.signal)])
  if (info.exit_code !== null && !(info.state === 'running')) facts.push(['Exit code', String(info.exit_code)])
  return (
    <>
      {line && <div class="run-command"><code><Shown text={line.slice(0, 4000)} /></code><CopyButton text={line} label="Copy the command" /></div>}
      <dl class="run-facts">
        {facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        {info.tty && <div><dt>Kind</dt><dd>terminal</dd></div>}
      </dl>
    </>
  )
}

/** The end is what is seen, until somebody scrolls away from it. */
function Output({ lines, text }: { lines: readonly OutputLine[]; text: () => string }) {
  const place = useRef<HTMLDivElement>(null)
  const [stuck, setStuck] = useState(true)
  const now = useRef(true)
  now.current = stuck
  const box = (): HTMLElement | null | undefined => place.current?.querySelector<HTMLElement>('.run-box')
  const toEnd = (): void => {
    const at = box()
    if (at) at.scrollTop = at.scrollHeight
  }
  useEffect(() => {
    const at = box()
    if (!at) return
    let touched = 0 // only a person scrolls away; lines that come and go also move things
    const touch = (): void => void (touched = Date.now())
    const look = (): void => {
      const end = at.scrollTop + at.clientHeight >= at.scrollHeight - 40
      if (end) setStuck(true)
      else if (Date.now() - touched < 1000) setStuck(false)
    }
    const kinds = ['wheel', 'touchmove', 'keydown', 'pointerdown'] as const
    for (const kind of kinds) at.addEventListener(kind, touch, { passive: true })
    at.addEventListener('scroll', look, { passive: true })
    return () => {
      for (const kind of kinds) at.removeEventListener(kind, touch)
      at.removeEventListener('scroll', look)
    }
  }, [])
  useLayoutEffect(() => {
    if (now.current) toEnd()
  })
  return (
    <div class="run-output" ref={place}>
      <IconButton icon="copy" label="Copy what it printed" act={async () => { await copyText(text()); toast.say('Copied.') }} />
      <VirtualList items={lines} rowHeight={20} keyOf={(l) => l.id} label="Output" boxClass="run-box"
        render={(line) => <div class={line.error ? 'run-line run-error' : 'run-line'}><Shown text={line.text} /></div>} />
      {!stuck && <Button small class="run-to-end" icon="down" onClick={() => { setStuck(true); toEnd() }}>To the end</Button>}
    </div>
  )
}

/** All that the ledger says about it, signed, as a file. */
async function saveEvidence(sandbox: SandboxInfo, run: number): Promise<void> {
  const path = `/api/sandboxes/${encodeURIComponent(sandbox.id)}/evidence/${run}`
  await download(client(), { path, name: `evidence-${sandbox.id}-run-${run}.json`, first: () => client().sandboxes.of(sandbox).run(run).info() })
  toast.say('Your browser saves it. `stockade ledger verify FILE` checks it.')
}
