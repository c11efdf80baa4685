// A page that is open does not throw its user out: the session is renewed before it ends, by one of the tabs for all of
// them, for as long as the server does that.
import { StockadeError } from 'stockade-client'
import { serverNow } from './clock'
import { adopt, ended, keep, lastsFor, newClient, session, stored, type Session } from './session'

const LOOK_MS = 5_000
const BEFORE_MS = 10 * 60_000
const AGAIN_MS = 30_000 // after it could not be had
const NOTE = 'stockade.renewing'
const NOTE_MS = 15_000

/** What to do with a session at this moment of the server's clock; undefined: the clock is not known. */
export function due(now: Session, clock: number | undefined): 'nothing' | 'renew' | 'over' {
  if (clock === undefined) return 'nothing' // the first answer tells it
  const left = now.expires_at_ms - clock
  if (left <= 0) return 'over'
  const before = now.lasts_ms ? Math.min(BEFORE_MS, now.lasts_ms / 2) : BEFORE_MS
  return left <= before && !now.final ? 'renew' : 'nothing'
}

/** One tab at a time. Over plain http browsers have no locks: there a note in the storage stands for one. */
async function alone(fn: () => Promise<void>): Promise<void> {
  const locks = (navigator as Partial<Navigator>).locks
  if (locks) return locks.request(NOTE, { ifAvailable: true }, (lock) => (lock ? fn() : undefined))
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 3_000))
  if (Math.abs(Date.now() - Number(localStorage.getItem(NOTE) ?? 0)) < NOTE_MS) return
  localStorage.setItem(NOTE, String(Date.now()))
  await fn()
}

let notBefore = 0

async function renew(): Promise<void> {
  adopt() // another tab may have done it
  const now = session.peek()
  if (!now || ended.peek() || due(now, serverNow()) !== 'renew') return
  const isCurrent = (): boolean => session.peek()?.token === now.token
  try {
    const { token, expires_at_ms } = await newClient(now.token).renew()
    if (isCurrent()) keep({ ...now, token, expires_at_ms, lasts_ms: lastsFor(expires_at_ms) })
  } catch (e) {
    // not for longer: all tabs are told, and nobody asks again; whatever else it is may be over soon
    if (e instanceof StockadeError && e.status === 403 && isCurrent()) keep({ ...now, final: true })
    else notBefore = Date.now() + Math.max(AGAIN_MS, e instanceof StockadeError ? (e.retryAfterMs ?? 0) : 0)
  }
}

let renewing = false

async function look(): Promise<void> {
  const now = session.peek()
  if (!now || ended.peek() || renewing) return
  const what = due(now, serverNow())
  if (what === 'over') {
    adopt()
    if (session.peek()?.token === now.token) ended.value = true
  } else if (what === 'renew' && Date.now() >= notBefore) {
    renewing = true
    await alone(renew).finally(() => (renewing = false))
  }
}

export function beginSession(): void {
  session.value = stored()
  addEventListener('storage', (event) => {
    if (event.key === 'stockade.session' || event.key === null) adopt()
  })
  setInterval(() => void look(), LOOK_MS)
  void look()
}
