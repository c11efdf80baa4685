// A word on a coloured ground. The colour is never the only thing that tells.
import type { ComponentChildren } from 'preact'
import type { State } from 'stockade-client'
import { stateTone, stateWord } from '../lib/words'

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'deny' | 'accent'

export function Badge({ tone = 'plain', dot, title, children }: { tone?: Tone; dot?: boolean; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge tone-${tone}`} title={title}>
      {dot && <span class="dot" aria-hidden="true" />}
      {children}
    </span>
  )
}

export function StateBadge({ state, reason }: { state: State; reason?: string }) {
  return <Badge tone={stateTone(state)} dot {...(reason ? { title: reason } : {})}>{stateWord(state)}</Badge>
}
