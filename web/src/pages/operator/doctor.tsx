// The doctor: every mechanism that sandboxes are made of, whether it works here, what it costs if not, and what to do.
import type { Fact } from 'stockade-client'
import { groupFacts } from '../../lib/host-papers'
import { client } from '../../lib/session'
import { Badge, useLoad, type Tone } from '../../ui'
import { Part } from './part'

const WORDS: Record<string, [Tone, string]> = { ok: ['good', 'works'], limited: ['warn', 'limited'] }

export function FactBadge({ fact }: { fact: Fact }) {
  const [tone, word] = (Object.hasOwn(WORDS, fact.state) && WORDS[fact.state]) || (['bad', fact.state] as const)
  return <Badge tone={tone}>{word}</Badge>
}

export function Doctor() {
  const load = useLoad(() => client().operator.doctor(), [])
  return (
    <Part load={load} what="what the doctor finds">
      {({ low, facts }) => {
        const odd = facts.filter((f) => f.state !== 'ok').length
        return (
          <>
            <p>{low ? odd === 0 ? 'Everything works.' : `${facts.length - odd} of ${facts.length} things work; ${odd} are limited or missing.` : 'No sandbox can run here.'}</p>
            {groupFacts(facts).map(([group, of]) => (
              <section key={group} class="card">
                <h2 class="capital">{group}</h2>
                <ul class="fact-list">
                  {of.map((fact) => (
                    <li key={fact.name}>
                      <div class="row"><strong>{fact.name}</strong> <FactBadge fact={fact} />{fact.needed_for_low && <span class="quiet small">needed by every sandbox</span>}</div>
                      <p class="quiet">{fact.detail}</p>
                      {fact.cost && <p>What it costs: {fact.cost}</p>}
                      {fact.fix && <p>What to do: {fact.fix}</p>}
                    </li>
                  ))}
                </ul>
              </section>
            ))}
          </>
        )
      }}
    </Part>
  )
}
