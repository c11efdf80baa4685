// What stands where the content would be: still loading, nothing there, or why it cannot be shown.
import type { ComponentChildren } from 'preact'
import { StockadeError } from 'stockade-client'
import { Button } from './button'
import { Icon, type IconName } from './icon'
import { inWords } from './toast'

/** Grey bars in place of what comes; they appear after a moment, so that quick answers do not flicker. */
export function Skeleton({ lines = 3, label = 'Loading' }: { lines?: number; label?: string }) {
  return (
    <div class="skeleton" role="status" aria-label={label}>
      {Array.from({ length: lines }, (_, i) => <div key={i} class="skeleton-line" />)}
    </div>
  )
}

export function Spinner({ label = 'Working' }: { label?: string }) {
  return <span class="spinner" role="status" aria-label={label} />
}

export function Empty({ title, hint, action, icon }: { title: string; hint?: ComponentChildren; action?: ComponentChildren; icon?: IconName }) {
  return (
    <div class="empty">
      {icon && <Icon name={icon} size={36} />}
      <h2>{title}</h2>
      {hint && <p class="quiet">{hint}</p>}
      {action && <div class="empty-action">{action}</div>}
    </div>
  )
}

/** Why something cannot be shown, what to do, and what to quote when asking for help. */
export function Failure({ error, retry, title }: { error: unknown; retry?: () => void; title?: string }) {
  const [text, hint] = inWords(error)
  const known = error instanceof StockadeError ? error : undefined
  return (
    <div class="failure" role="alert">
      <Icon name="warn" size={24} />
      <div>
        <strong>{title ?? text}</strong>
        {title && <p>{text}</p>}
        {hint && <p>{hint}</p>}
        {known && <p class="quiet small">{known.code}{known.requestId && <> · request <code>{known.requestId}</code></>}</p>}
        {retry && <Button small icon="refresh" onClick={retry}>Try again</Button>}
      </div>
    </div>
  )
}
