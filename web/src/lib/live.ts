// What happens to one's sandboxes, as it happens: one stream of the ledger's events for the whole app. It goes on from where
// it was cut, and counts what came in late. Events are handed out in batches, a few times a second, so that many of them
// freeze nothing. What sandboxes try on the network is not among them: who looks at one follows that (activity.ts).
import { effect, signal } from '@preact/signals'
import { StockadeError, type LedgerEvent } from 'stockade-client'
import { breather } from './breathe'
import { CatchUp } from './catch-up'
import { waitAsked } from './pace'
import { client, ended, session } from './session'
import { untilVisible, whileVisible } from './visible'

export type LiveState = 'connecting' | 'live' | 'reconnecting' | 'offline' | 'busy'
type Listener = { readonly kinds: readonly string[]; readonly fn: (events: LedgerEvent[]) => void }

/** All that anybody here listens to. */
const KINDS = ['sandbox', 'snapshot', 'disk', 'run.start', 'run.end', 'secret']
const BATCH_MS = 120
const OFFLINE_MS = 8_000
const LASTING_MS = 5_000 // a connection that held this long was a good one
const SETTLED_MS = 3_000

const listeners = new Set<Listener>()
const state = signal<LiveState>('connecting')
/** How many events came in that happened while the connection was broken; undefined: that cannot be told. */
const missed = signal<number | undefined>(undefined)
/** Counts up each time the connection is there again: what is not in events is asked for again. */
const returned = signal(0)
/** Counts up when it broke, is there again, and all that was missed has come: that is told to people. */
const mended = signal(0)

/** 'sandbox' stands for 'sandbox.start' and all others of the family; '*' for everything. */
export function matches(kinds: readonly string[], kind: string): boolean {
  return kinds.some((k) => k === '*' || k === kind || (kind.startsWith(k) && kind[k.length] === '.'))
}

let waiting: LedgerEvent[] = []
let timer: ReturnType<typeof setTimeout> | undefined

function hand(): void {
  timer = undefined
  const batch = waiting
  waiting = []
  for (const { kinds, fn } of [...listeners]) {
    const own = batch.filter((event) => matches(kinds, event.kind))
    if (own.length) fn(own)
  }
}

function take(event: LedgerEvent): void {
  waiting.push(event)
  timer ??= setTimeout(hand, BATCH_MS)
}

/** Calls fn with what happens from now on, in order. kinds: 'sandbox', 'run.end', '*'. Returns how to stop. */
function on(kinds: readonly string[], fn: (events: LedgerEvent[]) => void): () => void {
  const listener = { kinds, fn }
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

// --- the connection, of whoever is signed in

let last: number | undefined // event that came; what comes after it is asked for
let greeted = false // it was there once
let gap = false // there was a time without it
let brokenAt: number | undefined
let lastBreak = 0

const catchUp = new CatchUp((n) => {
  missed.value = n
  mended.value++
})

function broke(busy: boolean): void {
  gap = true
  brokenAt ??= lastBreak = Date.now()
  state.value = busy ? 'busy' : Date.now() - brokenAt > OFFLINE_MS ? 'offline' : greeted ? 'reconnecting' : 'connecting'
}

function connected(): void {
  state.value = 'live'
  if (greeted && brokenAt !== undefined) catchUp.begin(last !== undefined)
  if (greeted && gap) returned.value++
  if (!greeted) setTimeout(() => void findLast(), SETTLED_MS)
  greeted = true
  gap = false
  brokenAt = undefined
}

/** Where the ledger stands, for those to whom nothing has happened yet: after a break it is known what was missed. */
async function findLast(): Promise<void> {
  const whose = session.peek()?.owner
  if (!whose || last !== undefined || state.peek() !== 'live') return
  const found = await client().searchEvents({ limit: 1 }).catch(() => undefined)
  if (found && last === undefined && state.peek() === 'live' && session.peek()?.owner === whose) last = found.events[0]?.seq ?? found.next ?? 0
}

/** Reads until it is cut; returns or throws then. */
async function listen(stop: AbortSignal): Promise<void> {
  const breathe = breather()
  const onConnection = (there: boolean): void => {
    if (there && !stop.aborted) connected()
  }
  for await (const event of client().events({ kinds: KINDS, signal: stop, onConnection, patienceMs: -1, ...(last === undefined ? {} : { after: last }) })) {
    last = event.seq
    catchUp.saw(event)
    take(event)
    const turn = breathe()
    if (turn) await turn
  }
}

/** How long before the next attempt: longer each time, and never before the server wants it. */
export function waitBefore(attempt: number, error: unknown, asked = waitAsked()): number {
  const own = Math.min(5_000, 100 * 2 ** Math.min(attempt, 10)) * (0.75 + Math.random() / 2)
  return Math.max(own, asked, error instanceof StockadeError ? (error.retryAfterMs ?? 3_000) : 0)
}

let hurry: () => void = () => undefined

async function follow(stop: AbortSignal): Promise<void> {
  for (let attempt = 0; !stop.aborted; attempt++) {
    // a page that nobody sees takes no connection from those that are seen; it goes on from where it was
    await untilVisible(stop)
    if (stop.aborted) return
    const seen = whileVisible(stop)
    const cut = new AbortController()
    const end = (): void => cut.abort()
    seen.signal.addEventListener('abort', end, { once: true })
    hurry = end
    const begun = Date.now()
    let error: unknown
    try {
      await listen(cut.signal)
    } catch (e) {
      error = e
    } finally {
      seen.end()
    }
    if (stop.aborted) return
    gap = true
    if (Date.now() - begun > LASTING_MS) attempt = 0
    if (seen.signal.aborted) continue
    if (cut.signal.aborted && attempt === 0) continue // the network changed: a new connection tells more
    const code = error instanceof StockadeError ? error.status : 0
    if (code === 401) return // leads to the sign-in page
    broke(code === 429 || code === 503)
    await new Promise<void>((resolve) => {
      const wait = setTimeout(resolve, waitBefore(attempt, error))
      hurry = () => (clearTimeout(wait), resolve())
    })
  }
}

let abort: AbortController | undefined
let following: string | undefined // the token
let owner: string | undefined

function restart(): void {
  const now = session.value && !ended.value ? session.value : undefined
  if (now?.token === following) return
  following = now?.token
  abort?.abort()
  abort = undefined
  if (!now) return void (gap = true)
  if (owner !== now.owner) {
    last = undefined
    greeted = gap = false
    state.value = 'connecting'
    brokenAt = undefined
    catchUp.end()
  }
  owner = now.owner
  abort = new AbortController()
  const { signal: stop } = abort
  queueMicrotask(() => void follow(stop))
}

/** Follows the session: whoever signs in gets their own stream. Once, in the shell. */
export function beginLive(): () => void {
  const stop = effect(restart)
  const changed = (): void => hurry()
  addEventListener('online', changed)
  addEventListener('offline', changed)
  return () => {
    stop()
    removeEventListener('online', changed)
    removeEventListener('offline', changed)
  }
}

/** When it was last noticed that the connection is broken; 0: never. What was opened before may be dead, too. */
function brokeAt(): number {
  return lastBreak
}

/** Calls fn each time the connection is there again, from now on. (subscribe() would call it at once.) */
function onReturned(fn: () => void): () => void {
  let told = returned.peek()
  return returned.subscribe((now) => {
    if (now === told) return
    told = now
    queueMicrotask(fn)
  })
}

export const live = { state, missed, returned, mended, on, onReturned, brokeAt }
