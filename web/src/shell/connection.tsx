// A strip that says when the page is not live, and afterwards what it missed.
import { useEffect, useState } from 'preact/hooks'
import { live } from '../lib/live'
import { loadSandboxes } from '../lib/sandboxes'
import { count } from '../lib/words'
import { Icon } from '../ui/icon'
import { toast } from '../ui/toast'

const PATIENCE_MS = 1_200 // a short break is nobody's business

const WORDS = {
  connecting: 'Connecting…',
  live: '',
  reconnecting: 'The connection broke. Trying again…',
  offline: 'The server cannot be reached. What you see is as it was; we keep trying.',
  busy: 'The server asks us to wait. What you see may be old; we go on by ourselves.',
} as const

/** What is said when the connection is there again; the list is loaded, or could not be. */
export function welcome(missed: number | undefined, fresh: boolean): string {
  const words = missed === undefined ? '' : missed ? ` ${count(missed, 'thing')} happened meanwhile.` : ' None of your sandboxes changed meanwhile.'
  return `Back again.${words}${fresh ? '' : ' The list of sandboxes may be old: it could not be loaded.'}`
}

export function Connection() {
  const state = live.state.value
  const [shown, setShown] = useState(false)

  useEffect(() => {
    if (state === 'live') return setShown(false)
    const timer = setTimeout(() => setShown(true), PATIENCE_MS)
    return () => clearTimeout(timer)
  }, [state === 'live'])

  const mended = live.mended.value
  useEffect(() => {
    if (!mended) return
    let there = true
    void loadSandboxes().then((fresh) => there && toast.say(welcome(live.missed.peek(), fresh)))
    return () => void (there = false)
  }, [mended])

  if (!shown) return null
  return (
    <div class={`connection connection-${state}`} role="status">
      <Icon name={state === 'offline' ? 'warn' : 'refresh'} size={16} />
      {WORDS[state]}
    </div>
  )
}
