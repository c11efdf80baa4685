// Giving a secret: to the gate, as a file, or as a variable. The value goes from the field to the server and is nowhere else.
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Client, SandboxInfo, SecretName } from 'stockade-client'
import { giveFile, giveVariable, isVariable, pathProblem, whatIsAt } from '../../lib/inside-secrets'
import { visible } from '../../lib/safe-text'
import { Button, Dialog, Select, TextField, ask, inWords, toast } from '../../ui'

type Way = 'gate' | 'file' | 'variable'

const WAYS: Record<Way, string> = {
  gate: 'The gate puts it into requests; code inside never sees it',
  file: 'A file inside, that only its user can read',
  variable: 'A variable of new shells and commands inside',
}

const WARNING = 'Everything that runs inside can read it, and snapshots and forks will have it too. Wiping does not reach it: remove it here or as a file.'

interface Props {
  name?: string
  names: SecretName[]
  placesOf: (name: string) => string[]
  sandbox: SandboxInfo
  client: Client
  onClose: () => void
  onDone: () => void
}

export function GiveSecret({ name: fixed, names, placesOf, sandbox, client, onClose, onDone }: Props) {
  const way = useSignal<Way>(names.length ? 'gate' : 'file')
  const name = useSignal(fixed ?? names.find((s) => !s.given)?.name ?? names[0]?.name ?? '')
  const place = useSignal('')
  const wrong = useSignal<string | undefined>(undefined)
  const value = useRef<HTMLInputElement>(null)
  const busy = useRef(false)
  const runs = sandbox.state === 'running'

  const problem = (): string | undefined => {
    if (!value.current?.value) return 'A value is needed.'
    if (way.value === 'gate') return name.value ? undefined : 'The profile uses no secret.'
    if (!runs) return 'Files can be written while it runs.'
    if (way.value === 'file') return pathProblem(place.value)
    return isVariable(place.value) ? undefined : 'A variable’s name has letters, digits and “_”, and does not begin with a digit.'
  }
  /** Nothing is replaced that somebody did not mean to replace. */
  const mayWrite = async (path: string): Promise<boolean> => {
    const there = await whatIsAt(client, sandbox, path)
    if (there?.kind === 'folder') throw new Error('There is a folder of that name')
    return !there || ask({ title: 'Replace what is there?', text: `There is already something at ${visible(path, 120)}. It would be gone for good.`, yes: 'Replace it', danger: true })
  }
  const give = async (): Promise<void> => {
    const field = value.current
    if (busy.current || !field) return // Enter, and Enter again
    wrong.value = problem()
    if (wrong.value) return
    // as it is now: what the fields say later is something else
    const [how, to, path, secret] = [way.value, name.value, place.value, field.value]
    busy.current = true
    try {
      if (how === 'file' && !(await mayWrite(path))) return
      if (how === 'gate') await client.sandboxes.of(sandbox).giveSecrets({ [to]: secret })
      else if (how === 'file') await giveFile(client, sandbox, path, secret)
      else await giveVariable(client, sandbox, path, secret)
    } catch (e) {
      wrong.value = inWords(e).filter(Boolean).join(' ')
      return
    } finally {
      busy.current = false
    }
    field.value = ''
    toast.say(how === 'gate' ? `${to} has a value. It holds from the next request on.` : how === 'file' ? `${path} is written.` : `${path} is set for new shells and commands.`)
    onDone()
  }
  const places = placesOf(name.value)
  return (
    <Dialog title={fixed ? `A value for ${fixed}` : 'Add a secret'} onClose={onClose} foot={<>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" act={give}>Give it</Button>
    </>}>
      <form onSubmit={(e) => { e.preventDefault(); void give() }}>
        {!fixed && (
          <fieldset class="ways">
            <legend>Where it goes</legend>
            {(Object.keys(WAYS) as Way[]).map((w) => (
              <label key={w} class="check">
                <input type="radio" name="way" checked={way.value === w} disabled={w === 'gate' && names.length === 0} onChange={() => ((way.value = w), (wrong.value = undefined))} />
                <span>{WAYS[w]}{w === 'gate' && names.length === 0 && <span class="field-hint">Its profile lists none.</span>}</span>
              </label>
            ))}
          </fieldset>
        )}
        {way.value === 'gate' && !fixed && <Select label="Secret" value={name.value} options={names.map((s) => ({ value: s.name, title: s.name }))} onChange={(v) => (name.value = v)} hint="Those that its profile lists." />}
        {way.value === 'file' && <TextField label="Path" value={place.value} onInput={(v) => (place.value = v)} placeholder="/home/agent/.token" />}
        {way.value === 'variable' && <TextField label="Name of the variable" value={place.value} onInput={(v) => (place.value = v)} placeholder="API_TOKEN" />}
        <div class="field">
          <label for="secret-value">Value</label>
          <input id="secret-value" ref={value} type="password" class="input" autocomplete="off" spellcheck={false} data-1p-ignore aria-describedby="secret-about" />
        </div>
        <p id="secret-about" class="quiet small">{way.value === 'gate' ? (places.length ? `It may go to ${places.join(', ')} and nowhere else.` : 'No rule of its policy names it, so it would go nowhere.') : WARNING}</p>
        {wrong.value && <p class="field-error" role="alert">{wrong.value}</p>}
        <input type="submit" hidden /> {/* so that Enter gives it: the button that is seen stands outside */}
      </form>
    </Dialog>
  )
}
