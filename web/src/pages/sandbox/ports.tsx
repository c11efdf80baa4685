// What listens inside, and a way to open it in a tab.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Client, SandboxInfo } from 'stockade-client'
import { openTab } from '../../lib/open-tab'
import { Button, CopyButton, Empty, Failure, Skeleton, TextField, useLoad } from '../../ui'
import '../../style/parts.css'
import '../../style/ports.css'

/** These are ours: the way from inside to the gate. */
export const GATE_PORTS: ReadonlySet<number> = new Set([3128, 15001, 15053])
const EVERY_MS = 15_000

/** The domain below which ports have names of their own; undefined: there is none, or the server does not tell. */
export function domainOf(capabilities: Record<string, unknown>): string | undefined {
  const found = capabilities['ports_domain'] ?? (capabilities['features'] as Record<string, unknown> | undefined)?.['ports_domain']
  return typeof found === 'string' && found ? found : undefined
}

export function portOf(text: string): number | undefined {
  const n = Number(text)
  return /^\d{1,5}$/.test(text) && n >= 1 && n <= 65535 ? n : undefined
}

function openPort(client: Client, sandbox: SandboxInfo, port: number, domain: string | undefined): Promise<void> {
  return openTab(async () => {
    const box = client.sandboxes.of(sandbox)
    const path = new URL(box.portUrl(port)).pathname
    return domain ? box.tabUrl(port, domain) : `${path}?ticket=${await client.ticket(path)}`
  })
}

function Note({ domain }: { domain: string | undefined }) {
  return domain ? (
    <p class="notice">Each port opens under a name of its own (below <code>{domain}</code>): pages in it work as usual and cannot see this one. Only you can open it.</p>
  ) : (
    <p class="notice">This server has no <code>ports_domain</code>, so a port opens below this page’s own address, locked away from it: a single page or answer shows, but its scripts, styles and links mostly do not. Whoever runs the server can set <code>ports_domain</code> in stockade.conf.</p>
  )
}

export default function PortsTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const runs = sandbox.state === 'running'
  const load = useLoad(async () => (runs ? await client.sandboxes.of(sandbox).ports() : []), [client, sandbox.id, runs])
  const domain = useLoad(async () => domainOf(await client.capabilities()), [client])
  const typed = useSignal('')
  const wrong = useSignal<string | undefined>(undefined)
  useEffect(() => {
    const timer = setInterval(() => void (document.visibilityState === 'visible' && load.reload()), EVERY_MS)
    return () => clearInterval(timer)
  }, [load.reload])
  if (!runs) return <Empty icon="globe" title="It does not run" hint="What listens inside is shown here while it runs." />
  if (load.state === 'loading') return <Skeleton lines={4} label="Looking for ports" />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  const open = (port: number) => openPort(client, sandbox, port, domain.value)
  const own = load.value.filter((p) => !GATE_PORTS.has(p))
  const gate = load.value.filter((p) => GATE_PORTS.has(p))
  const other = (event: Event): void => {
    event.preventDefault()
    const port = portOf(typed.value)
    wrong.value = port === undefined ? 'A port is a number from 1 to 65535.' : undefined
    if (port !== undefined) void open(port).catch((e: unknown) => void (wrong.value = String(e instanceof Error ? e.message : e)))
  }
  return (
    <section class="ports" aria-label="Ports">
      {domain.state === 'ready' && <Note domain={domain.value} />}
      {load.error !== undefined && <Failure error={load.error} title="It could not be looked again; this is what was there before." retry={load.reload} />}
      {own.length === 0 ? (
        <Empty icon="globe" title="Nothing listens inside" hint="Start a server in a terminal, for example: python3 -m http.server 8000" action={<Button icon="refresh" onClick={load.reload}>Look again</Button>} />
      ) : (
        <ul class="port-list" aria-label="Ports that something listens on">
          {own.map((port) => (
            <li key={port}>
              <strong>{port}</strong>
              <span class="grow" />
              <CopyButton text={client.sandboxes.of(sandbox).portUrl(port)} label={`Copy the address of port ${port} for programs that send your token`} />
              <Button icon="out" act={() => open(port)}>Open {port}</Button>
            </li>
          ))}
        </ul>
      )}
      <form class="port-other" onSubmit={other}>
        <TextField label="Another port" value={typed.value} inputMode="numeric" onInput={(v) => ((typed.value = v), (wrong.value = undefined))} error={wrong.value} />
        <Button type="submit" icon="out">Open</Button>
      </form>
      {gate.length > 0 && <p class="quiet small">{gate.join(', ')} also listen{gate.length === 1 ? 's' : ''} inside: that is the sandbox’s own way to the network.</p>}
    </section>
  )
}
