// Things to fill in: each has a label, may have a hint, and says under itself what is wrong.
import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

interface About {
  label: string
  hint?: ComponentChildren
  error?: string | undefined
}

function Frame({ label, hint, error, id, children }: About & { id: string; children: ComponentChildren }) {
  return (
    <div class={`field${error ? ' field-wrong' : ''}`}>
      <label for={id}>{label}</label>
      {children}
      {error ? <p class="field-error" id={`${id}-about`} role="alert">{error}</p> : hint && <p class="field-hint" id={`${id}-about`}>{hint}</p>}
    </div>
  )
}

type Input = Omit<JSX.InputHTMLAttributes<HTMLInputElement>, 'onInput' | 'label'>

/** onInput gets the text. */
export function TextField({ label, hint, error, onInput, ...rest }: About & Input & { value: string; onInput: (value: string) => void }) {
  const id = useId()
  return (
    <Frame {...{ label, hint, error, id }}>
      <input type="text" autocomplete="off" spellcheck={false} {...rest} id={id} class="input" aria-invalid={error ? 'true' : undefined} aria-describedby={hint || error ? `${id}-about` : undefined} onInput={(e) => onInput(e.currentTarget.value)} />
    </Frame>
  )
}

type Area = Omit<JSX.TextareaHTMLAttributes<HTMLTextAreaElement>, 'onInput' | 'label'>

export function TextArea({ label, hint, error, onInput, ...rest }: About & Area & { value: string; onInput: (value: string) => void }) {
  const id = useId()
  return (
    <Frame {...{ label, hint, error, id }}>
      <textarea spellcheck={false} rows={3} {...rest} id={id} class="input" aria-invalid={error ? 'true' : undefined} aria-describedby={hint || error ? `${id}-about` : undefined} onInput={(e) => onInput(e.currentTarget.value)} />
    </Frame>
  )
}

export interface Option {
  readonly value: string
  readonly title: string
}

export function Select({ label, hint, error, value, options, onChange, bare, ...rest }: About & { value: string; options: readonly Option[]; onChange: (value: string) => void; /** the label is only said, not shown */ bare?: boolean; disabled?: boolean }) {
  const id = useId()
  const select = (
    <select {...rest} id={id} class="input" {...(bare ? { 'aria-label': label } : {})} onChange={(e) => onChange(e.currentTarget.value)}>
      {options.map((o) => <option key={o.value} value={o.value} selected={o.value === value}>{o.title}</option>)}
    </select>
  )
  return bare ? select : <Frame {...{ label, hint, error, id }}>{select}</Frame>
}

export function Check({ label, hint, checked, onChange, disabled }: { label: string; hint?: ComponentChildren; checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} disabled={disabled} onChange={(e) => onChange(e.currentTarget.checked)} />
      <span>{label}{hint && <span class="field-hint">{hint}</span>}</span>
    </label>
  )
}
