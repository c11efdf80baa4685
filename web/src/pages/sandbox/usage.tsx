// What it uses, over time, against what it may use.
import { useEffect, useMemo } from 'preact/hooks'
import type { Client, Sample, SandboxInfo } from 'stockade-client'
import { at, parsePolicy } from '../../lib/policy-text'
import { parseSize, parseTime } from '../../lib/quantity'
import { UsageWatch, cpuOf, isMeasured, levelOf, rateOf, type Line } from '../../lib/usage'
import { bytes, duration } from '../../lib/words'
import { Empty, Failure, Skeleton, useLoad } from '../../ui'
import { Meter } from '../../ui/meter'
import { Plot, type Curve, type PlotProps } from '../../ui/plot'
import '../../style/usage.css'

interface Limits {
  cpus?: number | undefined
  memory?: number | undefined
  processes?: number | undefined
  disk?: number | undefined
  cpuBudget?: number | undefined
  egress?: number | undefined
}

export function limitsOf(policy: string): Limits {
  const found = parsePolicy(policy)
  const text = (...path: string[]): string | undefined => {
    const value = at(found, ...path)
    return typeof value === 'string' ? value : undefined
  }
  return {
    cpus: parseSize(text('limits', 'cpus')),
    memory: parseSize(text('limits', 'memory')),
    processes: parseSize(text('limits', 'processes')),
    disk: parseSize(text('files', 'workspace', 'size')),
    cpuBudget: parseTime(text('budget', 'cpu')),
    egress: parseSize(text('budget', 'egress')),
  }
}

const rate = (v: number): string => `${bytes(v)}/s`
const processors = (v: number): string => (v < 0.995 ? `${Math.round(v * 100)} %` : `${v.toFixed(1)} cpu`)

function Chart(props: PlotProps) {
  const { title, curves } = props
  if (!curves.some((c) => isMeasured(c.line)))
    return (
      <figure class="plot">
        <figcaption>{title}</figcaption>
        <p class="plot-none quiet">Not measured on this host.</p>
      </figure>
    )
  return <Plot {...props} />
}

function Budget({ title, used, of, format }: { title: string; used: number | null | undefined; of: number | undefined; format: (v: number) => string }) {
  return of === undefined ? <p class="quiet">{title}: no budget is set.</p> : <Meter {...{ title, used, of, format }} />
}

function Charts({ samples, limits }: { samples: Sample[]; limits: Limits }) {
  const one = (label: string, line: Line, color: string): Curve => ({ label, line, color })
  const curves = useMemo(
    () => ({
      cpu: [one('in use', cpuOf(samples), '--accent')],
      memory: [one('in use', levelOf(samples, 'memory'), '--accent')],
      disk: [one('read', rateOf(samples, 'io_read'), '--good'), one('written', rateOf(samples, 'io_write'), '--accent')],
      net: [one('in', rateOf(samples, 'net_in'), '--good'), one('out', rateOf(samples, 'net_out'), '--deny')],
      room: [one('used', levelOf(samples, 'disk'), '--accent')],
      cpuBudget: [one('used', levelOf(samples, 'cpu_us', 1 / 1000), '--accent')],
      egress: [one('sent', levelOf(samples, 'net_out'), '--deny')],
      processes: [one('running', levelOf(samples, 'processes'), '--accent')],
    }),
    [samples],
  )
  return (
    <div class="plots">
      <Chart title="Processors" curves={curves.cpu} format={processors} limit={limits.cpus} least={0.1} />
      <Chart title="Memory" curves={curves.memory} format={bytes} limit={limits.memory} least={1 << 20} binary />
      <Chart title="Disk, read and written" curves={curves.disk} format={rate} least={4096} binary />
      <Chart title="Network" curves={curves.net} format={rate} least={4096} binary />
      <Chart title="Room on its disk" curves={curves.room} format={bytes} limit={limits.disk} least={1 << 20} binary />
      <Chart title="Processes" curves={curves.processes} format={(v) => String(Math.round(v))} limit={limits.processes} least={4} />
      {limits.cpuBudget !== undefined && <Chart title="Budget of processor time" curves={curves.cpuBudget} format={duration} limit={limits.cpuBudget} least={1000} />}
      {limits.egress !== undefined && <Chart title="Budget of what is sent" curves={curves.egress} format={bytes} limit={limits.egress} least={4096} binary />}
    </div>
  )
}

export default function UsageTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const runs = sandbox.state === 'running' || sandbox.state === 'paused'
  const watch = useMemo(() => (runs ? new UsageWatch(sandbox, client) : undefined), [client, sandbox.id, runs])
  useEffect(() => () => watch?.end(), [watch])
  const limits = useLoad(async () => limitsOf((await client.sandboxes.of(sandbox).policy()).effective), [client, sandbox.id])
  if (!watch) return <Empty icon="chart" title="It does not run" hint="There is something to see here while it runs." />
  const samples = watch.samples.value
  if (!samples.length) return watch.error.value !== undefined ? <Failure error={watch.error.value} /> : <Skeleton lines={8} label="Loading the usage" />
  const last = samples[samples.length - 1]
  return (
    <section class="usage" aria-label="Usage">
      {watch.error.value !== undefined && <Failure error={watch.error.value} title="The usage cannot be asked for now; what was seen is below." />}
      <div class="budgets">
        <Budget title="Processor time" used={last?.cpu_us == null ? null : last.cpu_us / 1000} of={limits.value?.cpuBudget} format={duration} />
        <Budget title="Sent to the network" used={last?.net_out} of={limits.value?.egress} format={bytes} />
      </div>
      {samples.length < 2 ? <p class="quiet">The first measurements come within seconds.</p> : <Charts samples={samples} limits={limits.value ?? {}} />}
    </section>
  )
}
