// Starts a command, in the background: it goes on when the page is left.
import { useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { once } from '../../../lib/once'
import { client } from '../../../lib/session'
import { Button, TextField } from '../../../ui'

export function StartRun({ sandbox, onStarted }: { sandbox: SandboxInfo; onStarted: (run: number) => void }) {
  const [command, setCommand] = useState('')
  const [more, setMore] = useState(false)
  const [cwd, setCwd] = useState('')
  const [seconds, setSeconds] = useState('')
  const badSeconds = seconds !== '' && !(Number(seconds) > 0) ? 'A number of seconds.' : undefined
  const badCwd = cwd !== '' && !cwd.startsWith('/') ? 'A path begins with a slash.' : undefined
  const start = async (): Promise<void> => {
    const options = { ...(cwd ? { cwd } : {}), ...(seconds ? { timeout_ms: Math.ceil(Number(seconds) * 1000) } : {}) }
    const run = await once(`run ${sandbox.id}`, [command, options], (key) => client().sandboxes.of(sandbox).start(command, { ...options, key }))
    setCommand('')
    onStarted(run.number)
  }
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  const submit = async (): Promise<void> => {
    if (!command.trim() || badSeconds || badCwd || busy) return
    setBusy(true)
    setError(undefined)
    try {
      await start()
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e))
    } finally {
      setBusy(false)
    }
  }
  return (
    <form class="run-start card" onSubmit={(e) => { e.preventDefault(); void submit() }}>
      <div class="row">
        <div class="grow"><TextField label="Run a command" placeholder="make test" class="mono" value={command} onInput={setCommand} error={error} hint="A line for the shell. It goes on when you leave this page." /></div>
        <Button type="submit" kind="primary" icon="play" busy={busy} disabled={!command.trim()}>Run</Button>
      </div>
      <Button small kind="quiet" aria-expanded={more} onClick={() => setMore(!more)}>{more ? 'Less' : 'More'}</Button>
      {more && (
        <div class="row">
          <TextField label="In which folder" value={cwd} onInput={setCwd} placeholder={sandbox.cwd ?? '/'} error={badCwd} />
          <TextField label="End it after" value={seconds} onInput={setSeconds} placeholder="never" hint="Seconds" error={badSeconds} inputMode="decimal" />
        </div>
      )}
    </form>
  )
}
