// Secrets: their names, where each may go, giving and wiping. A value is in this page only while it is typed.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Client, SandboxInfo, SecretName } from 'stockade-client'
import { takeVariable, variables } from '../../lib/inside-secrets'
import { placeWords, rulesOf, termsWords, type Reach } from '../../lib/policy-text'
import { Badge, Button, Empty, Failure, Skeleton, ask, toast, useLoad } from '../../ui'
import '../../style/secrets.css'
import { useFresh } from './fresh'
import { GiveSecret } from './give-secret'

interface Found {
  names: SecretName[]
  rules: Reach[]
  inside: string[]
}

/** Hosts that a secret may go to. */
export function placesOf(rules: readonly Reach[], name: string): string[] {
  return rules.filter((r) => r.secret === name).map((r) => `${placeWords(r)} (${termsWords({ ...r, secret: undefined } as unknown as Reach)})`)
}

function GateSecret({ secret, places, onGive }: { secret: SecretName; places: string[]; onGive: () => void }) {
  return (
    <li class="secret">
      <div>
        <code>{secret.name}</code> {secret.given ? <Badge tone="good">has a value</Badge> : <Badge tone="warn">no value</Badge>}
        <p class="quiet small">{places.length ? `May go to ${places.join(', ')}.` : 'No rule lets it go anywhere.'} Inside, <code>${secret.name}</code> is a placeholder.</p>
      </div>
      <Button small onClick={onGive}>{secret.given ? 'Replace' : 'Give a value'}</Button>
    </li>
  )
}

export default function SecretsTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const box = client.sandboxes.of(sandbox)
  const load = useLoad<Found>(async () => {
    const [names, policy, inside] = await Promise.all([box.secrets(), client.sandboxes.of(sandbox).policy(), sandbox.state === 'running' ? variables(client, sandbox) : []])
    return { names, rules: rulesOf(policy.effective), inside }
  }, [client, sandbox.id])
  // asked again, and not anew: a dialog that is open stays, with what was typed in it
  const asked = useRef(sandbox.state)
  useEffect(() => {
    if (asked.current !== sandbox.state) load.reload()
    asked.current = sandbox.state
  }, [sandbox.state])
  const giving = useSignal<{ name?: string } | undefined>(undefined)
  useFresh(sandbox.id, ['secret'], load.reload)
  if (load.state === 'loading') return <Skeleton lines={5} label="Loading the names of secrets" />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  const { names, rules, inside } = load.value
  const wipe = async (): Promise<void> => {
    const sure = await ask({ title: 'Wipe all values?', text: 'The values are removed here and at the gate, at once and for good. Requests that need them fail until they are given again.', yes: 'Wipe them', danger: true })
    if (!sure) return
    await box.wipeSecrets()
    toast.say('All values are wiped, here and at the gate.')
    load.reload()
  }
  const take = async (name: string): Promise<void> => {
    if (!(await ask({ title: `Remove ${name}?`, text: 'Shells that run already keep it; new ones do not have it.', yes: 'Remove it', danger: true }))) return
    await takeVariable(client, sandbox, name)
    toast.say(`${name} is removed.`)
    load.reload()
  }
  return (
    <section class="secrets" aria-label="Secrets">
      <header class="secrets-head">
        <h2>At the gate</h2>
        <span class="grow" />
        <Button icon="plus" kind="primary" onClick={() => (giving.value = {})}>Add a secret</Button>
        {names.some((s) => s.given) && <Button kind="danger" icon="trash" act={wipe}>Wipe all values</Button>}
      </header>
      {names.length === 0 ? (
        <Empty icon="key" title="Its profile uses no secrets" hint="A profile that lists a secret and names it in a rule lets programs inside use it without seeing it: the gate puts the value into requests to that host." />
      ) : (
        <ul class="secret-list" aria-label="Secrets at the gate">
          {names.map((s) => <GateSecret key={s.name} secret={s} places={placesOf(rules, s.name)} onGive={() => (giving.value = { name: s.name })} />)}
        </ul>
      )}
      {inside.length > 0 && (
        <>
          <h2>Inside, as variables</h2>
          <p class="quiet small">Everything that runs inside can read these, and snapshots and forks have them too.</p>
          <ul class="secret-list" aria-label="Variables inside">
            {inside.map((name) => (
              <li key={name} class="secret">
                <code>{name}</code>
                <Button small act={() => take(name)}>Remove</Button>
              </li>
            ))}
          </ul>
        </>
      )}
      <p class="quiet small">Nobody gets a value back: not you, not this page, not the ledger.</p>
      {giving.value && <GiveSecret {...giving.value} names={names} placesOf={(name) => placesOf(rules, name)} sandbox={sandbox} client={client} onClose={() => (giving.value = undefined)} onDone={() => ((giving.value = undefined), load.reload())} />}
    </section>
  )
}
