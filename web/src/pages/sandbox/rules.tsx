// Rules of the network in plain words, and what a change of them does.
import { compareRules, placeWords, termsWords, type Reach } from '../../lib/policy-text'
import { IconButton } from '../../ui'
import '../../style/rules.css'

export function Rule({ rule, mark, onRemove, why }: { rule: Reach; mark?: 'added' | 'removed'; onRemove?: (() => void) | undefined; why?: string | undefined }) {
  const name = placeWords(rule)
  return (
    <li class={`rule${mark ? ` rule-${mark}` : ''}`}>
      {mark && <span class="rule-mark">{mark === 'added' ? 'new' : 'gone'}</span>}
      <span class="rule-place">{name}</span>
      <span class="quiet">{termsWords(rule)}</span>
      {onRemove && <IconButton icon="close" label={why ?? `Take ${name} away`} disabled={why !== undefined} onClick={onRemove} />}
    </li>
  )
}

export function RuleChanges({ before, after }: { before: Reach[]; after: Reach[] }) {
  const { kept, added, removed } = compareRules(before, after)
  return (
    <ul class="rules" aria-label="What changes">
      {added.map((r, i) => <Rule key={`a${i}`} rule={r} mark="added" />)}
      {removed.map((r, i) => <Rule key={`r${i}`} rule={r} mark="removed" />)}
      {kept.length > 0 && <li class="rule quiet">{kept.length === 1 ? 'One rule stays' : `${kept.length} rules stay`} as {kept.length === 1 ? 'it is' : 'they are'}: {kept.map(placeWords).join(', ')}</li>}
    </ul>
  )
}
