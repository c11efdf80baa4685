// The processors that a sandbox used lately, for a row of a list; asked for only while it is on screen and runs.
import type { SandboxInfo } from 'stockade-client'
import { cpuOf, useUsage } from '../lib/usage'
import { bytes } from '../lib/words'
import { Sparkline } from './sparkline'

const SHOWN = 40

export function UsageSpark({ info }: { info: Pick<SandboxInfo, 'id' | 'state'> }) {
  const runs = info.state === 'running' || info.state === 'paused'
  const samples = useUsage(info.id, runs).value
  if (!runs) return null
  const cpu = cpuOf(samples.slice(-SHOWN - 1)).values
  const now = cpu[cpu.length - 1]
  const memory = samples[samples.length - 1]?.memory
  const label = now === null || now === undefined ? 'Usage is not known yet' : `Uses ${Math.round(now * 100)} % of a processor${memory ? ` and ${bytes(memory)} of memory` : ''}`
  return <Sparkline values={cpu} label={label} max={Math.max(0.2, ...cpu.map((v) => v ?? 0))} />
}
