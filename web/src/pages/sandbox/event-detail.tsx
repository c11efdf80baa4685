// One event, whole; for a denial also why, and how to allow it.
import { useSignal } from '@preact/signals'
import type { Client, SandboxInfo } from 'stockade-client'
import { explainDenial } from '../../lib/denial'
import type { Row } from '../../lib/event-log'
import { visible, visibleJson } from '../../lib/safe-text'
import { Button, CopyButton, Dialog } from '../../ui'
import { AllowHost } from './allow-host'

export function EventDetail({ row, sandbox, client, onClose }: { row: Row; sandbox: SandboxInfo; client: Client; onClose: () => void }) {
  const allowing = useSignal(false)
  const denial = row.denied ? explainDenial(row.kind, row.data) : undefined
  const line = JSON.stringify(row.line, null, 2)
  const entry = denial?.entry
  if (allowing.value && entry) return <AllowHost entry={entry} sandbox={sandbox} client={client} onClose={onClose} />
  return (
    <Dialog title={denial ? 'Refused' : 'Event'} wide onClose={onClose} foot={entry ? <Button kind="primary" icon="shield" onClick={() => (allowing.value = true)}>Allow {entry}…</Button> : undefined}>
      <p class="event-said"><bdi>{row.text}</bdi></p>
      {denial && (
        <dl class="facts deny-facts">
          <dt>Why</dt>
          <dd><bdi>{denial.what}</bdi>: {denial.why}.{typeof row.data['detail'] === 'string' && <> (<bdi>{visible(row.data['detail'], 500)}</bdi>)</>}</dd>
          <dt>How to allow</dt>
          <dd>{denial.how}</dd>
        </dl>
      )}
      <dl class="facts">
        <dt>When</dt><dd>{new Date(row.at).toLocaleString()}</dd>
        <dt>Kind</dt><dd><code>{row.kind}</code></dd>
        <dt>By</dt><dd>{row.actor}</dd>
        <dt>Number</dt><dd>{row.seq}</dd>
      </dl>
      <div class="event-whole">
        <details>
          <summary>As it stands in the ledger</summary>
          <pre class="event-line">{visibleJson(line)}</pre>
        </details>
        <CopyButton text={line} label="Copy the event" />
      </div>
    </Dialog>
  )
}
