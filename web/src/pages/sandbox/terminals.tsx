// Terminals of a sandbox. They live in the sandbox: leaving the page ends none of them, and whoever comes back finds them
// as they are.
import '../../style/terminals.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { resumeSandbox } from '../../lib/sandboxes'
import { client } from '../../lib/session'
import { stateMeans } from '../../lib/words'
import { ask, Button, Empty, Failure, Skeleton, toast, useLoad } from '../../ui'
import { useReturned } from './fresh'
import { addTab, bringTogether, remove, replace, sessionAt, show, split, type Layout } from './terminal/layout'
import { Pane, type PaneActions } from './terminal/pane'
import { rememberedLayout, rememberLayout } from './terminal/remember'
import { panelId, TabBar, tabId } from './terminal/tab-bar'

export default function Terminals({ sandbox }: { sandbox: SandboxInfo }) {
  if (sandbox.state === 'running') return <Running key={sandbox.id} sandbox={sandbox} />
  return <Empty icon="terminal" title="No terminal now" hint={`${stateMeans(sandbox)} Terminals are there while it runs.`} action={sandbox.state === 'stopped' && <Button kind="primary" icon="play" act={() => resumeSandbox(sandbox)}>Resume</Button>} />
}

/** There only while it runs: a list from before says nothing about which terminals there are now, and would have another one opened. */
function Running({ sandbox }: { sandbox: SandboxInfo }) {
  const sessions = useLoad(async () => (await client().sandboxes.of(sandbox).terminals.list()).map((t) => t.id), [])
  useReturned(sessions.reload, sessions.state === 'failed')
  if (sessions.state === 'failed') return <Failure error={sessions.error} retry={sessions.reload} title="The terminals could not be listed" />
  if (sessions.state === 'loading') return <Skeleton lines={8} label="Opening a terminal" />
  return <Desk sandbox={sandbox} sessions={sessions.value} />
}

/** What the desk looks like, remembered; and what can be done with it. */
function Desk({ sandbox, sessions }: { sandbox: SandboxInfo; sessions: string[] }) {
  const [layout, setLayout] = useState<Layout>(() => bringTogether(rememberedLayout(sandbox.id), sessions))
  const [failed, setFailed] = useState<unknown>()
  const [opening, setOpening] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const begun = useRef(false)
  const now = useRef(layout)
  now.current = layout

  const change = (next: Layout): void => {
    now.current = next
    rememberLayout(sandbox.id, next)
    setLayout(next)
  }
  const create = async (then: (layout: Layout, session: string) => Layout): Promise<void> => {
    setOpening(true)
    try {
      const made = await client().sandboxes.of(sandbox).terminals.create({ rows: 24, cols: 80 })
      setFailed(undefined)
      change(then(now.current, made.id))
    } catch (e) {
      setFailed(e)
      if (now.current.tabs.length) throw e
    } finally {
      setOpening(false)
    }
  }
  const close = async (session: string): Promise<void> => {
    const pane = place.current?.querySelector<HTMLElement>(`[data-session="${CSS.escape(session)}"]`)
    const over = ['ended', 'gone'].includes(pane?.dataset['state'] ?? '')
    if (!over && !(await ask({ title: `Close terminal #${session}?`, text: 'Its shell ends, with everything that runs in it.', yes: 'Close it', danger: true }))) return
    change(remove(now.current, session))
    if (!over) await client().sandboxes.of(sandbox).terminals.of(session).close()
  }
  const step = (by: number): void => {
    const { length } = now.current.tabs
    if (length) change(show(now.current, (now.current.tab + by + length) % length))
  }

  // somebody who opens this page wants a terminal
  useEffect(() => {
    if (begun.current || layout.tabs.length) return
    begun.current = true
    void create(addTab).catch(() => undefined)
  }, [])

  const tell = (e: unknown): void => toast.error(e)
  const actions: PaneActions = {
    again: (session) => void create((to, made) => replace(to, session, made)).catch(tell),
    close: (session) => void close(session).catch(tell),
    focus: (session) => {
      const { tab } = now.current
      const pane = now.current.tabs[tab]?.panes.indexOf(session) ?? -1
      if (pane >= 0 && pane !== now.current.pane) change(show(now.current, tab, pane))
    },
    key: (event) => {
      if (event.key === 'F6') place.current?.querySelector<HTMLElement>('[role=tab][aria-selected=true]')?.focus()
      else if (!event.altKey || !event.shiftKey || event.ctrlKey || event.metaKey) return false
      else if (event.code === 'KeyT') void create(addTab).catch(tell)
      else if (event.code === 'KeyD') void create((to, made) => split(to, made, 'row')).catch(tell)
      else if (event.code === 'ArrowRight') step(1)
      else if (event.code === 'ArrowLeft') step(-1)
      else return false
      return true
    },
  }
  const seen = sessionAt(layout)
  const press = (name: string): void => {
    place.current?.querySelector<HTMLElement>(`[data-session="${CSS.escape(seen ?? '')}"]`)?.dispatchEvent(new CustomEvent(name))
  }
  return (
    <div class="terms" ref={place}>
      <TabBar layout={layout} actions={{
        add: () => create(addTab),
        split: (direction) => create((to, made) => split(to, made, direction)),
        show: (tab) => change(show(layout, tab)),
        close: (session) => void close(session).catch(tell),
        find: () => press('term-find'),
        copyAll: () => press('term-copy-all'),
      }} />
      {failed !== undefined && layout.tabs.length === 0 && <Failure error={failed} title="A terminal could not be opened" retry={() => void create(addTab).catch(() => undefined)} />}
      {layout.tabs.length === 0 && failed === undefined && (opening || !begun.current
        ? <Skeleton lines={8} label="Opening a terminal" />
        : <Empty icon="terminal" title="No terminal is open" hint="The sandbox goes on without one." action={<Button kind="primary" icon="plus" act={() => create(addTab)}>New terminal</Button>} />)}
      {layout.tabs.map((tab, i) => (
        <div key={tab.panes[0]} class={`term-tab-panel term-${tab.direction}`} role="tabpanel" id={panelId(tab)} aria-labelledby={tabId(tab)} hidden={i !== layout.tab}>
          {tab.panes.map((session) => <Pane key={session} sandbox={sandbox} session={session} shown={i === layout.tab} active={session === seen} actions={actions} />)}
        </div>
      ))}
    </div>
  )
}
