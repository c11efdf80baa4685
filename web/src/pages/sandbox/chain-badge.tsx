// Whether the ledger can be trusted: signed up to where, and checked by whom.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Client } from 'stockade-client'
import type { Activity } from '../../lib/activity'
import { checkChain, forgetSeen, remember, seenBefore, type Chain, type Checkpoint } from '../../lib/chain'
import { download } from '../../lib/download'
import { Badge, Button, CopyButton, Dialog } from '../../ui'

const EVERY_MS = 20_000

function About({ chain, onClose, again, save }: { chain: Chain; onClose: () => void; again: () => void; save: () => Promise<void> }) {
  return (
    <Dialog title="The ledger’s chain" onClose={onClose}>
      {chain.state === 'signed' ? (
        <>
          <p>Every event carries the hash of the one before it, and checkpoints sign them. Everything up to event {chain.seq} is under the signature of {new Date(chain.time).toLocaleString()}.</p>
          <p>{chain.checked ? 'Your browser has checked that signature, that the key is the one that it saw first, and that the ledger never became shorter.' : 'Your browser cannot check such signatures on this connection; it has compared the key and the length with what it saw before.'}</p>
          <p class="quiet small">Key <code class="wrap">{chain.key}</code> <CopyButton text={chain.key} label="Copy the key" /></p>
          <p class="quiet small">To check everything, hash by hash: <code>stockade ledger verify</code> on the host. The evidence is what the ledger says about this sandbox, with signatures: <code>stockade ledger verify FILE</code> checks it anywhere.</p>
          <Button icon="download" act={save}>Download the evidence</Button>
        </>
      ) : (
        <>
          <p><strong>Something is wrong:</strong> {chain.why}.</p>
          <p>If the ledger was moved aside or made anew on purpose, you can begin from here. If not, ask whoever runs this server before you believe what it shows.</p>
          <Button kind="danger" onClick={again}>It was made anew: trust it from here</Button>
        </>
      )}
    </Dialog>
  )
}

export function ChainBadge({ client, activity }: { client: Client; activity: Activity }) {
  const chain = useSignal<Chain | undefined>(undefined)
  const failed = useSignal(false)
  const open = useSignal(false)
  const look = async (): Promise<void> => {
    try {
      const before = seenBefore()
      const { chain: found, seen } = await checkChain(await client.call<Checkpoint>('GET', '/api/ledger/checkpoint'), before)
      if (seen && seen.seq > (seenBefore()?.seq ?? 0)) remember(seen)
      chain.value = found
      failed.value = false
    } catch {
      failed.value = true
    }
  }
  useEffect(() => {
    let asked = -1
    const turn = (): void => {
      // nothing new: nothing to sign
      const last = activity.log.last?.seq ?? 0
      if (document.visibilityState !== 'visible' || (asked === last && !failed.peek())) return
      asked = last
      void look()
    }
    const first = setTimeout(turn, 600)
    const timer = setInterval(turn, EVERY_MS)
    return () => (clearTimeout(first), clearInterval(timer))
  }, [client, activity])
  activity.version.value
  const found = chain.value
  if (!found) return <Badge>{failed.value ? 'Chain not checked' : 'Checking the chain'}</Badge>
  const later = Math.max(0, (activity.log.last?.seq ?? 0) - found.seq)
  return (
    <>
      <button type="button" class="bare" onClick={() => (open.value = true)} aria-label="About the ledger’s chain">
        {found.state === 'broken' ? <Badge tone="bad">Chain broken</Badge> : <Badge tone="good" {...(later ? { title: 'The newest events are chained, and signed within seconds' } : {})}>{found.checked ? 'Signature checked' : 'Signed'} to {found.seq}</Badge>}
      </button>
      {open.value && <About chain={found} onClose={() => (open.value = false)} again={() => (forgetSeen(), (open.value = false), void look())} save={() => download(client, { path: `/api/sandboxes/${activity.info.id}/evidence`, name: `evidence-${activity.info.id}.json`, first: () => client.sandboxes.get(activity.info.id) })} />}
    </>
  )
}
