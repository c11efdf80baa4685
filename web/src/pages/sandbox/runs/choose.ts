// Which runs of a list are wanted.
import type { RunInfo } from 'stockade-client'
import { commandLine } from './outcome'

export type Which = 'all' | 'running' | 'failed' | 'terminals'

export function chosenRuns(runs: readonly RunInfo[], which: Which, text: string): RunInfo[] {
  const wanted = text.trim().toLowerCase()
  return runs.filter((run) => {
    if (which === 'running' && run.state !== 'running') return false
    if (which === 'failed' && (run.state === 'running' || run.exit_code === 0)) return false
    if (which === 'terminals' && !run.tty) return false
    return !wanted || String(run.run) === wanted || commandLine(run.command).toLowerCase().includes(wanted)
  })
}
