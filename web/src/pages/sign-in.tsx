// Signing in: by the link that `stockade up` prints, or with a wallet, which is shown what it signs before it does.
import { useEffect, useRef, useState } from 'preact/hooks'
import { codeOfPasted, openedLink } from '../lib/link'
import { session, signInWithLink, signInWithWallet, signOut } from '../lib/session'
import { WalletError, accountOf, findWallets, signText, wallets, type Wallet } from '../lib/wallets'
import { shortAddress } from '../lib/words'
import { Logo, ThemeButton } from '../shell/header'
import { Button, Failure, Icon, Spinner, TextField, inWords } from '../ui'

interface ToSign {
  readonly wallet: Wallet
  readonly address: string
  readonly text: string
  readonly answer: (yes: boolean) => void
}

function WalletList({ busy, choose }: { busy: Wallet | undefined; choose: (wallet: Wallet) => void }) {
  useEffect(findWallets, [])
  if (!wallets.value.length)
    return <p class="quiet">No wallet was found in this browser. Install one (any that follows EIP-6963), or use the link that <code>stockade up</code> prints.</p>
  return (
    <div class="wallets">
      {wallets.value.map((w) => (
        <button key={w.id} type="button" class="wallet" disabled={busy !== undefined} onClick={() => choose(w)}>
          {w.icon ? <img src={w.icon} alt="" /> : <Icon name="wallet" size={28} />}
          <span class="grow break">{w.name}</span>
          {busy === w && <Spinner label="Waiting for the wallet" />}
        </button>
      ))}
    </div>
  )
}

function Text({ ask, signing }: { ask: ToSign; signing: boolean }) {
  return (
    <>
      <p>This is what <strong>{ask.wallet.name}</strong> will sign as <span class="mono">{shortAddress(ask.address)}</span>. It names this server, works once, and moves no money.</p>
      <pre class="sign-text" tabIndex={0} aria-label="The text to be signed">{ask.text}</pre>
      <div class="row">
        <Button disabled={signing} onClick={() => ask.answer(false)}>Back</Button>
        <Button kind="primary" busy={signing} onClick={() => ask.answer(true)} autofocus>{signing ? 'Look into your wallet…' : `Sign with ${ask.wallet.name}`}</Button>
      </div>
    </>
  )
}

function LinkForm({ failed }: { failed: (e: unknown) => void }) {
  const code = openedLink.value
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState('')
  const [busy, setBusy] = useState(code !== undefined)
  const use = (found: string): void => {
    setBusy(true)
    signInWithLink(found).catch((e: unknown) => {
      setBusy(false)
      failed(e)
    })
  }
  useEffect(() => {
    if (!code) return
    openedLink.value = undefined // it works once
    use(code)
  }, [code])
  const submit = (event: Event): void => {
    event.preventDefault()
    const found = codeOfPasted(text)
    setWrong(found ? '' : 'This is not a link that signs anybody in.')
    if (found) use(found)
  }
  return (
    <form class="stack" onSubmit={submit}>
      <TextField label="One-time link" value={text} onInput={setText} error={wrong || undefined} hint={<>On the host: <code>stockade sign-in</code> prints a new one</>} disabled={busy} />
      <Button type="submit" busy={busy} disabled={!text.trim()}>{busy ? 'Signing in…' : 'Use the link'}</Button>
    </form>
  )
}

/** again: the session ended by itself; what was on screen is still there, beneath. */
export function SignIn({ again }: { again: boolean }) {
  const [busy, setBusy] = useState<Wallet>()
  const [ask, setAsk] = useState<ToSign>()
  const [signing, setSigning] = useState(false)
  const [error, setError] = useState<unknown>()

  const choose = async (wallet: Wallet): Promise<void> => {
    setBusy(wallet)
    setError(undefined)
    try {
      const address = await accountOf(wallet)
      await signInWithWallet(address, async (text) => {
        const yes = await new Promise<boolean>((answer) => setAsk({ wallet, address, text, answer }))
        if (!yes) throw new WalletError('', true)
        setSigning(true)
        return signText(wallet, address, text)
      })
    } catch (e) {
      if (!(e instanceof WalletError && !e.message)) setError(e)
    } finally {
      setBusy(undefined)
      setAsk(undefined)
      setSigning(false)
    }
  }
  // what had the focus is beneath now, and cannot be reached
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (again) heading.current?.focus()
  }, [again])
  const declined = error instanceof WalletError
  return (
    <div class="sign-in" role={again ? 'dialog' : undefined} aria-label="Sign in" aria-modal={again ? 'true' : undefined}>
      <div class="card">
        <div class="row"><div class="row"><Logo /><h1 ref={heading} tabIndex={-1}>{again ? 'Sign in again' : 'Sign in to Stockade'}</h1></div><ThemeButton /></div>
        {again && <p>Your session has ended. Where you were, and what you typed, is kept.</p>}
        {!again && !ask && <p class="quiet">Sandboxes for code that you do not trust: you see what it may do, and what it tries.</p>}
        {error !== undefined && (declined ? <p class="notice-warn tone-warn" role="alert">{inWords(error)[0]}</p> : <Failure error={error} />)}
        {ask ? <Text ask={ask} signing={signing} /> : (
          <>
            <WalletList busy={busy} choose={(w) => void choose(w)} />
            <div class="or">or</div>
            <LinkForm failed={setError} />
          </>
        )}
        {again && session.value && <Button kind="quiet" act={signOut}>Leave it, and sign in as somebody else</Button>}
      </div>
    </div>
  )
}
