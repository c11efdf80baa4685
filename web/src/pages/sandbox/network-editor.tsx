// What it may reach: rules are taken away and added here, looked at together, checked by the server and put into force.
import { useSignal } from '@preact/signals'
import type { Client, SandboxInfo } from 'stockade-client'
import { apply, check, planAdd, planList, readEntry, rebase, WouldLose, type Plan } from '../../lib/network-change'
import { compareRules, rulesOf, shortForm, type Reach } from '../../lib/policy-text'
import { Button, TextField, inWords, toast } from '../../ui'
import { Rule, RuleChanges } from './rules'

function same(a: Reach, b: Reach): boolean {
  return compareRules([a], [b]).kept.length === 1
}

export function NetworkEditor({ sandbox, client, policy, onChanged }: { sandbox: SandboxInfo; client: Client; policy: string; onChanged: () => void }) {
  const now = rulesOf(policy)
  const draft = useSignal<{ before: Reach[]; after: Reach[] } | undefined>(undefined)
  const added = useSignal<string[]>([])
  const typed = useSignal('')
  const wrong = useSignal<string | undefined>(undefined)
  const looked = useSignal<{ policy: string; plan: Plan } | undefined>(undefined)
  const box = client.sandboxes.of(sandbox)
  const seen = looked.value?.policy === policy ? looked.value.plan : undefined // another policy: it would do something else
  const rules = draft.value ? rebase(draft.value.before, draft.value.after, now) : now
  const { added: fresh, removed } = compareRules(now, rules)
  const isChanged = fresh.length + removed.length > 0
  const fixed = now.some((r) => shortForm(r) === undefined)

  const set = (to: Reach[]): void => {
    draft.value = { before: now, after: to }
    looked.value = undefined
    wrong.value = undefined
  }
  const add = (event: Event): void => {
    event.preventDefault()
    const entries = typed.value.split(/\s+/).filter(Boolean)
    if (!entries.length) return void (wrong.value = 'Name a host, for example github.com, *.example.com or db.example.com:5432.')
    const more = entries.map(readEntry).filter((r) => !rules.some((old) => same(old, r)))
    added.value = [...added.value, ...entries]
    set([...rules, ...more])
    typed.value = ''
  }
  const forget = (): void => {
    draft.value = undefined
    added.value = []
    looked.value = undefined
    wrong.value = undefined
  }
  // additions alone go in as such: whatever else there is stays
  const plan = (): Plan => (removed.length ? planList(policy, rules) : planAdd(policy, added.value.filter((e) => fresh.some((r) => same(r, readEntry(e))))))
  const refused = (e: unknown): void => {
    const [text, hint] = inWords(e)
    wrong.value = e instanceof WouldLose ? text : `${text.replace(/^--allow /, '')}${hint ? ` ${hint}` : ''}`
  }
  const look = async (): Promise<void> => {
    try {
      const p = plan()
      await check(box, p)
      looked.value = { policy, plan: p }
    } catch (e) {
      refused(e)
    }
  }
  const put = async (): Promise<void> => {
    if (!seen) return
    try {
      await apply(box, seen)
      forget()
      toast.say(`Done. It holds from ${sandbox.state === 'stopped' ? 'its next start' : 'the next connection'} on.`)
      onChanged()
    } catch (e) {
      looked.value = undefined
      refused(e)
    }
  }
  return (
    <section class="network-editor" aria-label="What it may reach">
      <h2>What it may reach</h2>
      {rules.length === 0 ? <p class="quiet">Nothing: no host, no address, no names.{sandbox.state === 'running' && ' If it was started without a network, stop it before you allow something.'}</p> : (
        <ul class="rules" aria-label="Rules">
          {rules.map((r, i) => (
            <Rule key={i} rule={r} {...(fresh.includes(r) ? { mark: 'added' as const } : {})} onRemove={() => set(rules.filter((x) => x !== r))} why={fixed && !fresh.includes(r) ? 'Rules cannot be taken away one by one here, because one of them has terms that would be lost' : undefined} />
          ))}
          {removed.map((r, i) => <Rule key={`gone${i}`} rule={r} mark="removed" />)}
        </ul>
      )}
      <form class="rule-add" onSubmit={add}>
        <TextField label="Allow another host" value={typed.value} onInput={(v) => ((typed.value = v), (wrong.value = undefined))} placeholder="github.com" hint="A host, *.example.com for all below it, host:port, or an address." error={wrong.value} />
        <Button type="submit" icon="plus">Add</Button>
      </form>
      {isChanged && (
        <div class="rule-preview">
          {seen ? (
            <>
              <h3>This would change</h3>
              <RuleChanges before={seen.before} after={seen.after} />
              <p class="quiet small">The server has checked it. Nothing has been changed yet.</p>
              <Button kind="primary" act={put}>Put into force</Button>
            </>
          ) : (
            <Button kind="primary" act={look}>Look at the change</Button>
          )}
          <Button kind="quiet" onClick={forget}>Forget it</Button>
        </div>
      )}
    </section>
  )
}
