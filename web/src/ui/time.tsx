// Times as people say them; all of them on a page grow older together.
import { signal } from '@preact/signals'
import { ago, dateTime, isTime } from '../lib/words'

/** Now, to a few seconds. */
export const now = signal(Date.now())
if (typeof window !== 'undefined') setInterval(() => (now.value = Date.now()), 5_000)

/** "3 min ago"; the exact time when pointed at. */
export function Ago({ ms }: { ms: number }) {
  if (!isTime(ms)) return <>{ago(ms, 0)}</>
  return <time dateTime={new Date(ms).toISOString()} title={dateTime(ms)}>{ago(ms, Math.max(now.value, ms))}</time>
}
