// The shell around every page: header, connection, messages, and the page that the address names.
import { useEffect } from 'preact/hooks'
import { Header } from './shell/header'
import { Connection } from './shell/connection'
import { Boundary } from './ui/boundary'
import { openedLink } from './lib/link'
import { beginLive } from './lib/live'
import { route } from './lib/route'
import { beginSandboxes } from './lib/sandboxes'
import { changeWithLink, ended, session } from './lib/session'
import { shortAddress } from './lib/words'
import { PageOf } from './pages'
import { SignIn } from './pages/sign-in'
import { Asks, ask } from './ui/dialog'
import { Help, listenForShortcuts } from './ui/shortcuts'
import { Toasts, toast } from './ui/toast'

/** A link that signs in, opened by somebody who is signed in: anybody could have sent it, so it changes nothing unasked. */
async function offerLink(code: string): Promise<void> {
  const who = session.peek()
  const text = `You are signed in as ${shortAddress(who?.address || who?.owner || '')}. With the link you go on as whoever it was made for, and this session ends, in all tabs.`
  if (await ask({ title: 'Sign in anew, with the link that you opened?', text, yes: 'Use the link', danger: true })) await changeWithLink(code)
}

function Inside({ over }: { over: boolean }) {
  const link = over ? undefined : openedLink.value
  useEffect(() => {
    if (!link) return
    openedLink.value = undefined
    offerLink(link).catch((e: unknown) => toast.error(e))
  }, [link])
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <Header />
      <Connection />
      <main id="main" tabIndex={-1}>
        <Boundary key={route.value.parts.slice(0, 2).join('/')}>
          <PageOf route={route.value} />
        </Boundary>
      </main>
      <Asks />
      <Help />
    </>
  )
}

export function App() {
  // a session that ended by itself: the page stays beneath, with everything that was typed in it
  const over = ended.value
  useEffect(() => {
    const stops = [beginSandboxes(), beginLive(), listenForShortcuts()]
    return () => stops.forEach((stop) => stop())
  }, [])
  return (
    <Boundary>
      {session.value && <div key={session.value.owner} class="shell" inert={over}><Inside over={over} /></div>}
      {(!session.value || over) && <SignIn again={over} />}
      <Toasts />
    </Boundary>
  )
}
