// The doctor: every mechanism that sandboxes are made of, whether it works here, what it costs if not, and what to do.
import { askMaybe } from '../../lib/extra'
import { client } from '../../lib/session'
import { Badge, useLoad, type Tone } from '../../ui'
import { Part } from './part'

export interface Fact {
  name: string
  group: string
  state: string
  needed_for_low?: boolean
  detail: string
  cost: string
  fix: string
}

const WORDS: Record<string, [Tone, string]> = { ok: ['good', 'works'], limited: ['warn', 'limited'], missing: ['bad', 'missing'], broken: ['bad', 'broken'] }

export function stateOf(state: string): [Tone, string] {
  return (Object.hasOwn(WORDS, state) ? WORDS[state] : undefined) ?? ['bad', state]
}

/** What does not work first, then in the order that they came. */
export function groupFacts(facts: readonly Fact[]): [string, Fact[]][] {
  const groups = new Map<string, Fact[]>()
  for (const fact of facts) groups.set(fact.group, [...(groups.get(fact.group) ?? []), fact])
  const rank = (f: Fact): number => (f.state === 'ok' ? 1 : 0)
  return [...groups].map(([group, of]) => [group, of.sort((a, b) => rank(a) - rank(b))])
}

export function Facts({ facts }: { facts: readonly Fact[] }) {
  return (
    <>
      {groupFacts(facts).map(([group, of]) => (
        <section key={group} class="card">
          <h2 class="capital">{group}</h2>
          <ul class="fact-list">
            {of.map((fact) => {
              const [tone, word] = stateOf(fact.state)
              return (
                <li key={fact.name}>
                  <div class="row"><strong>{fact.name}</strong> <Badge tone={tone}>{word}</Badge>{fact.needed_for_low && <span class="quiet small">needed by every sandbox</span>}</div>
                  <p class="quiet">{fact.detail}</p>
                  {fact.cost && <p>What it costs: {fact.cost}</p>}
                  {fact.fix && <p>What to do: {fact.fix}</p>}
                </li>
              )
            })}
          </ul>
        </section>
      ))}
    </>
  )
}

export function askDoctor(): Promise<{ low?: boolean; facts: Fact[] }> {
  return askMaybe(client(), 'what the doctor finds', 'GET', '/api/operator/doctor')
}

export function Doctor() {
  const load = useLoad(askDoctor, [])
  return (
    <Part load={load} what="what the doctor finds" instead={<>On the host: <code>stockade doctor</code></>}>
      {({ low, facts }) => {
        const odd = facts.filter((f) => f.state !== 'ok').length
        return (
          <>
            <p>{low === false ? 'No sandbox can run here.' : odd === 0 ? 'Everything works.' : `${facts.length - odd} of ${facts.length} things work; ${odd} are limited or missing.`}</p>
            <Facts facts={facts} />
          </>
        )
      }}
    </Part>
  )
}
