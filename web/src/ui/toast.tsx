// The corner in which things are said. `u` undoes what was done last, wherever one is.
import { useRef } from 'preact/hooks'
import { hide, hold, toasts, type Toast } from '../lib/toast'
import { Button, IconButton } from './button'
import { useShortcut } from './shortcuts'

export { inWords, sentence, toast } from '../lib/toast'

function One({ id, tone, text, hint, undo }: Toast) {
  return (
    <div class={`toast toast-${tone}`} role={tone === 'error' ? 'alert' : undefined}>
      <div class="toast-text">
        <span>{text}</span>
        {hint && <span class="quiet">{hint}</span>}
      </div>
      {undo && <Button small kind="quiet" class="toast-undo" onClick={undo.act}>{undo.label}</Button>}
      <IconButton icon="close" label="Dismiss" onClick={() => hide(id)} />
    </div>
  )
}

function UndoKey({ act }: { act: () => void }) {
  useShortcut('u', 'Undo what was done last', act)
  return null
}

export function Toasts() {
  const place = useRef<HTMLDivElement>(null)
  const all = toasts.value
  const last = all.findLast((t) => t.undo)?.undo
  // fingers leave a :hover behind
  const looked = (): boolean => place.current?.matches(matchMedia('(hover: hover)').matches ? ':hover, :focus-within' : ':focus-within') ?? false
  const look = (): void => void setTimeout(() => hold(looked()))
  return (
    <div ref={place} class="toasts" role="status" aria-live="polite" onPointerEnter={look} onPointerLeave={look} onFocusIn={look} onFocusOut={look} onClick={look}>
      {all.map((t) => <One key={t.id} {...t} />)}
      {last && <UndoKey act={last.act} />}
    </div>
  )
}
