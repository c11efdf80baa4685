// One terminal on the page: a screen, the connection to the session behind it, and a line that says how that goes.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { live } from '../../../lib/live'
import { visible } from '../../../lib/safe-text'
import { client, ended, session as who } from '../../../lib/session'
import { dark } from '../../../lib/theme'
import { bytes } from '../../../lib/words'
import { ask, Button, copyText, Icon, toast } from '../../../ui'
import { outcome } from '../runs/outcome'
import { Find } from './find'
import { Keys } from './keys'
import { Link, type LinkState } from './link'
import { MAYBE, noticeIn, UNSENT } from './notice'
import { Screen } from './screen'
import { fontSize, setTitle } from './settings'

export interface PaneActions {
  /** A new shell in the place of one that has ended. */
  again(session: string): void
  close(session: string): void
  focus(session: string): void
  /** Keys that are not for the program: true if it was one. */
  key(event: KeyboardEvent): boolean
}

interface PaneProps {
  sandbox: SandboxInfo
  session: string
  /** It can be seen. */
  shown: boolean
  /** It has the keyboard. */
  active: boolean
  actions: PaneActions
}

async function askToOpen(url: URL): Promise<void> {
  const text = (
    <>
      <span>A program in the sandbox made this link. It leads to </span>
      <strong>{visible(url.host)}</strong>
      <code class="term-url">{visible(url.href, 500)}</code>
    </>
  )
  if (await ask({ title: 'Leave this page?', text, yes: 'Open it in a new tab', danger: true })) window.open(url.href, '_blank', 'noopener,noreferrer')
}

async function askToPaste(screen: Screen, text: string): Promise<void> {
  const lines = text.split(/\r\n?|\n/).length
  const risky = lines > 1 && !screen.takesPaste
  if (risky && !(await ask({ title: `Paste ${lines} lines?`, text: 'The program takes each line as if you had pressed Enter after it.', yes: 'Paste them' }))) return
  screen.paste(text)
  screen.focus()
}

export function Pane({ sandbox, session, shown, active, actions }: PaneProps) {
  const place = useRef<HTMLDivElement>(null)
  const screen = useRef<Screen>()
  const link = useRef<Link>()
  const latest = useRef(actions)
  latest.current = actions
  const [state, setState] = useState<LinkState>('connecting')
  const [end, setEnd] = useState<Record<string, unknown>>()
  const [notice, setNotice] = useState('')
  const [rung, setRung] = useState(0)
  const [find, setFind] = useState<{ index: number; count: number } | null>(null)
  const [turn, setTurn] = useState(0) // counts up to connect anew

  const type = (data: string): void => {
    if (!link.current?.send(data)) setNotice(UNSENT[link.current?.state ?? 'connecting'])
  }

  // the screen lives as long as the pane
  useEffect(() => {
    let skipped = 0
    const made = new Screen(
      place.current!,
      {
        input: type,
        size: (rows, cols) => link.current?.resize(rows, cols),
        title: (title) => setTitle(session, title),
        bell: () => setRung((n) => n + 1),
        skipped: (n) => {
          skipped += n
          setNotice(`It prints faster than can be shown: ${bytes(skipped)} left out.`)
        },
        link: (url) => void askToOpen(url),
        found: (index, count) => setFind((now) => now && { index, count }),
        key: (event) => {
          if (event.type !== 'keydown') return false
          const found = event.ctrlKey && event.shiftKey ? event.code : ''
          if (found === 'KeyV') return true // the browser pastes
          if (found === 'KeyC') void copy()
          else if (found === 'KeyF') setFind({ index: -1, count: 0 })
          else if (!latest.current.key(event)) return false
          event.preventDefault()
          return true
        },
      },
      fontSize.peek(),
    )
    made.onPaste = (text) => void askToPaste(made, text)
    screen.current = made
    const watch = new ResizeObserver(() => made.fit())
    watch.observe(place.current!)
    return () => {
      watch.disconnect()
      made.dispose()
      setTitle(session, '')
    }
  }, [])

  useEffect(() => {
    const target = () => {
      const box = client().sandboxes.of(sandbox)
      return { terminal: box.terminals.of(session), run: box.run(Number(session)) }
    }
    const made = new Link(
      { attach: (from) => target().terminal.attach(from), printed: async () => (await target().run.info()).out_bytes, as: () => (ended.peek() ? undefined : who.peek()?.token) },
      {
        data: (data) => screen.current?.write(data),
        replaying: (on) => screen.current?.replaying(on),
        state: (next) => {
          setState(next)
          setNotice((said) => noticeIn(next, said))
        },
        lost: (n) => setNotice(`${bytes(n)} of output are not kept any more.`),
        unsent: (maybe) => setNotice(maybe ? MAYBE : UNSENT[made.state]),
        ended: setEnd,
      },
      undefined,
      link.current?.at, // the screen has everything up to there
    )
    link.current = made
    const size = screen.current?.size
    if (size) made.resize(size.rows, size.cols)
    void made.run()
    const back = live.onReturned(() => (made.state === 'open' && made.openedAt < live.brokeAt() ? made.again() : made.nudge()))
    const again = (): void => made.again() // the network is another one, or none: what is open may be dead
    addEventListener('online', again)
    addEventListener('offline', again)
    return () => {
      removeEventListener('online', again)
      removeEventListener('offline', again)
      back()
      made.close()
    }
  }, [session, sandbox.id, turn])

  // whoever signs in again goes on where he was
  const token = who.value?.token
  useEffect(() => {
    if (link.current?.state === 'refused' && token) setTurn((n) => n + 1)
  }, [token])

  const letters = fontSize.value
  useEffect(() => screen.current?.look(letters), [dark.value, letters])
  useEffect(() => {
    if (!shown) return
    screen.current?.fit()
    if (active && !document.querySelector('dialog[open]')) screen.current?.focus()
  }, [shown, active])
  useEffect(() => {
    if (!notice) return
    const timer = setTimeout(() => setNotice(''), 6000)
    return () => clearTimeout(timer)
  }, [notice])

  const copy = async (): Promise<void> => {
    const text = screen.current?.selection
    if (!text) return toast.say('Nothing is selected.')
    await copyText(text).then(() => toast.say('Copied.'), (e: unknown) => toast.error(e))
  }
  const copyAll = async (): Promise<void> => {
    await copyText(screen.current?.text ?? '').then(() => toast.say('Copied.'), (e: unknown) => toast.error(e))
  }
  const root = useRef<HTMLElement>(null)
  useEffect(() => {
    const at = root.current
    const onFind = (): void => setFind({ index: -1, count: 0 })
    const onCopyAll = (): void => void copyAll()
    at?.addEventListener('term-find', onFind)
    at?.addEventListener('term-copy-all', onCopyAll)
    return () => {
      at?.removeEventListener('term-find', onFind)
      at?.removeEventListener('term-copy-all', onCopyAll)
    }
  }, [])
  const endFind = (): void => {
    setFind(null)
    screen.current?.endFind()
    screen.current?.focus()
  }
  return (
    <section ref={root} class={`term-pane${active ? ' term-active' : ''}`} data-session={session} data-state={state} aria-label={`Terminal ${session}`} onFocusIn={() => actions.focus(session)}>
      {find && <Find found={find} onFind={(text, direction, typed) => screen.current?.find(text, direction, typed)} onClose={endFind} />}
      <div class="term-screen" ref={place} data-rung={rung} />
      {rung > 0 && <div key={rung} class="term-bell" aria-hidden="true" />}
      <Status state={state} end={end} notice={notice} again={() => actions.again(session)} close={() => actions.close(session)} retry={() => setTurn((n) => n + 1)} />
      <Keys send={type} focus={() => screen.current?.focus()} />
    </section>
  )
}

interface StatusProps {
  state: LinkState
  end: Record<string, unknown> | undefined
  notice: string
  again: () => void
  close: () => void
  retry: () => void
}

function Status({ state, end, notice, again, close, retry }: StatusProps) {
  if (state === 'open') return <p class="term-status" role="status" hidden={!notice}>{notice}</p>
  if (state === 'ended')
    return (
      <div class="term-status" role="status">
        <span>{end ? outcome(end).text : 'The shell has ended.'} {notice}</span>
        <Button small onClick={again}>New shell here</Button>
        <Button small kind="quiet" onClick={close}>Close</Button>
      </div>
    )
  if (state === 'gone' || state === 'refused')
    return (
      <div class="term-status term-wrong" role="alert">
        <Icon name="warn" size={16} />
        <span>{state === 'gone' ? 'This terminal is not there any more.' : 'You are not signed in any more, or may not use it now.'} {notice}</span>
        <Button small onClick={state === 'gone' ? again : retry}>{state === 'gone' ? 'New shell here' : 'Connect again'}</Button>
        <Button small kind="quiet" onClick={close}>Close</Button>
      </div>
    )
  return (
    <p class="term-status" role="status">
      {state === 'connecting' ? notice || 'Connecting…' : notice || 'The connection is broken; the shell goes on. Trying again…'}
    </p>
  )
}
