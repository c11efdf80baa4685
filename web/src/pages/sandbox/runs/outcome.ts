// How a run ended, in words.
import { duration } from '../../../lib/words'

export interface Outcome {
  text: string
  tone: 'plain' | 'good' | 'warn' | 'bad' | 'deny' | 'accent'
  /** What one can do about it, or ''. */
  hint: string
}

type Run = Partial<{ state: unknown; reason: unknown; exit_code: unknown; signal: unknown; started_ms: unknown; ended_ms: unknown }>

const SIGNALS: Record<number, string> = {
  1: 'it was hung up on (SIGHUP)', 2: 'it was interrupted (SIGINT)', 3: 'it was asked to quit (SIGQUIT)', 4: 'it ran an illegal instruction (SIGILL)',
  6: 'it gave up by itself (SIGABRT)', 7: 'it touched memory that is not there (SIGBUS)', 8: 'it divided by zero or the like (SIGFPE)',
  9: 'it was killed (SIGKILL)', 11: 'it touched memory that is not its own (SIGSEGV)', 13: 'nobody read what it wrote (SIGPIPE)',
  14: 'its alarm rang (SIGALRM)', 15: 'it was asked to end (SIGTERM)', 24: 'it used up its CPU time (SIGXCPU)', 25: 'it wrote a file that was too large (SIGXFSZ)',
  31: 'it made a system call that is forbidden (SIGSYS)',
}

const CODES: Record<number, string> = {
  126: 'the command cannot be run', 127: 'there is no such command', 130: 'interrupted', 137: 'killed', 143: 'asked to end',
}

function reasonWords(reason: string, signal: number): [string, string] | undefined {
  switch (reason) {
    case 'timeout': return ['Stopped: it took longer than it was given', 'Give it more time, or none at all.']
    case 'oom': return ['Killed: it needed more memory than the sandbox has', 'A profile with more memory helps, or the override limits.memory.']
    case 'disk_full': return ['Stopped: the disk of the sandbox is full', 'Delete something, or make a sandbox with a larger disk.']
    case 'output_limit': return ['Stopped: it printed more than is kept', 'Write to a file instead.']
    case 'budget': return ['Stopped: the budget is used up', 'Whoever runs this server can give more.']
    case 'stopped': return ['Ended because the sandbox was stopped', '']
    case 'denied': return ['Killed: it tried something that its policy forbids', 'The activity of the sandbox says what.']
    case 'driver_failed': return ['The sandbox could not run it', 'The activity of the sandbox may say why.']
    case 'cancelled': return ['Cancelled', '']
    case 'lost': return ['Lost: the host went away while it ran', 'How it ended is not known.']
    case 'idle': return ['Ended because the sandbox was idle for too long', '']
    case 'lifetime': return ['Ended because the sandbox reached its age', '']
    case 'rollback': return ['Ended because the sandbox was rolled back', '']
    case 'quarantine': return ['Frozen: the sandbox is in quarantine', 'It is kept as evidence.']
    case 'not_begun': return ['It could not be started', 'Is the command there, and may it be run?']
    case 'signal': return [`Ended by a signal: ${SIGNALS[signal] ?? `number ${signal}`}`, '']
    default: return undefined
  }
}

const DENIALS = new Set(['denied', 'quarantine'])
const CALM = new Set(['stopped', 'cancelled', 'idle', 'lifetime', 'rollback'])

/** Of a run, as the API gives it. */
export function outcome(run: Run): Outcome {
  const reason = String(run.reason ?? '')
  const signal = Number(run.signal ?? 0)
  if (run.state === 'running') return { text: 'Runs', tone: 'accent', hint: '' }
  const known = reasonWords(reason, signal)
  if (known) return { text: `${known[0]}.`, hint: known[1], tone: DENIALS.has(reason) ? 'deny' : CALM.has(reason) ? 'warn' : 'bad' }
  const code = typeof run.exit_code === 'number' ? run.exit_code : null
  if (code === 0) return { text: 'Ended well (exit code 0).', tone: 'good', hint: '' }
  if (code === null) return { text: 'Ended; how is not known.', tone: 'warn', hint: '' }
  return { text: `Ended with exit code ${code}${CODES[code] ? `: ${CODES[code]}` : ''}.`, tone: 'bad', hint: '' }
}

/** How long it took, or has been running. */
export function took(run: Run, now: number): string {
  const begun = Number(run.started_ms ?? 0)
  const end = Number(run.ended_ms ?? 0) || now
  return begun ? duration(Math.max(0, end - begun)) : ''
}

/** A command as one would type it: what a shell was given is shown without the shell. */
export function commandLine(command: readonly string[] | undefined): string {
  if (!command || command.length === 0) return ''
  const shell = command[0] ?? ''
  const flag = command[1] ?? ''
  if (command.length === 3 && /^(\/bin\/)?(sh|bash)$/.test(shell) && (flag === '-lc' || flag === '-c')) return command[2] ?? ''
  return command.map(quoted).join(' ')
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
