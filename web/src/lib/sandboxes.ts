// All of one's sandboxes, kept fresh: loaded once, changed by what happens, compared with the server now and then. What a
// person does here shows at once and is put right if the server does not agree; nothing that fails is silent.
import { effect, signal } from '@preact/signals'
import { StockadeError, type CreateOptions, type LedgerEvent, type SandboxInfo, type Snapshot } from 'stockade-client'
import { onDeparture } from './departure'
import { live } from './live'
import { once, settle } from './once'
import { Order, mergeList } from './order'
import { waitAsked } from './pace'
import { beginLeaving, client, ended, session } from './session'
import { nameOf, sandboxOf, snapshotName } from './words'
import { toast } from './toast'

type List = ReadonlyMap<string, SandboxInfo>
type Listing = { readonly state: 'loading' | 'ready' } | { readonly state: 'failed'; readonly error: unknown }

const POLL_MS = 30_000
const UNDO_MS = 6_000
const FRESHEN_MS = 250
const APART_MS = 2_000 // between two requests because something happened

export const sandboxes = signal<List>(new Map())
export const listing = signal<Listing>({ state: 'loading' })
/** Asking again failed since then, though what is shown was asked for once. */
export const notFreshSince = signal<number | undefined>(undefined)
/** Those that are about to be deleted, and can still be kept. */
export const leavingSoon = signal<ReadonlySet<string>>(new Set())

const order = new Order()
let freshAt = 0

function put(info: SandboxInfo, at = order.now()): void {
  const next = new Map(sandboxes.value)
  const known = next.get(info.id)
  const isNew = order.learn(info.id, at)
  if (!isNew && !known) return
  if (isNew && info.state === 'deleted') next.delete(info.id)
  else next.set(info.id, isNew ? { ...known, ...info } : { ...info, ...known }) // what is old may still tell more than a list does
  sandboxes.value = next
}

function take(id: string, at = order.now()): void {
  if (!order.learn(id, at) || !sandboxes.value.has(id)) return
  const next = new Map(sandboxes.value)
  next.delete(id)
  sandboxes.value = next
}

let asking: Promise<boolean> | undefined
let following: Promise<boolean> | undefined

/** Asks for the whole list, as it is now or later; once, however many want it. False: it could not be had. */
export function loadSandboxes(): Promise<boolean> {
  if (!asking) return (asking = ask().finally(() => (asking = undefined)))
  // the one under way may have begun before what happened
  following ??= asking.then(() => {
    following = undefined
    return loadSandboxes()
  })
  return following
}

async function ask(): Promise<boolean> {
  const whose = session.peek()?.owner
  if (!whose) return false
  if (listing.peek().state === 'failed') listing.value = { state: 'loading' }
  const at = order.now()
  try {
    const found = new Map<string, SandboxInfo>()
    for await (const { info } of client().sandboxes.list({ page: 500 })) if (info.state !== 'deleted') found.set(info.id, info)
    if (session.peek()?.owner !== whose) return false
    sandboxes.value = mergeList(sandboxes.value, found, (id) => order.isNewer(id, at))
    order.learnAll(at)
    listing.value = { state: 'ready' }
    freshAt = Date.now()
    notFreshSince.value = undefined
    return true
  } catch (error) {
    if (session.peek()?.owner !== whose) return false
    if (listing.peek().state !== 'ready') listing.value = { state: 'failed', error }
    else notFreshSince.value = freshAt
    return false
  }
}

/** Asks for one, by id or name; undefined: there is none. */
export async function refreshSandbox(id: string): Promise<SandboxInfo | undefined> {
  const at = order.now()
  const whose = session.peek()?.owner
  try {
    const { info } = await client().sandboxes.get(id)
    if (session.peek()?.owner === whose) put(info, at)
    return info
  } catch (e) {
    if (!(e instanceof StockadeError && e.status === 404)) throw e
    take(id, at)
    return undefined
  }
}

// --- kept fresh

const stale = new Set<string>()
let freshening: ReturnType<typeof setTimeout> | undefined

function happened(events: LedgerEvent[]): void {
  for (const event of events) {
    const id = sandboxOf(event)
    if (!id) continue
    if (event.kind === 'sandbox.delete') take(id)
    else stale.add(id)
  }
  if (stale.size) freshenSoon()
}

let freshened = 0

function freshenSoon(): void {
  freshening ??= setTimeout(() => void freshen(), Math.max(FRESHEN_MS, freshened + APART_MS - Date.now(), waitAsked()))
}

/** However much happens, it is one request now and then: for the one that changed, or for all. */
async function freshen(): Promise<void> {
  freshening = undefined
  freshened = Date.now()
  const [id, ...others] = stale
  stale.clear()
  if (id === undefined || others.length) return void (await loadSandboxes())
  await refreshSandbox(id).catch((e: unknown) => {
    notFreshSince.value ??= freshened
    if (!(e instanceof StockadeError && (e.status === 429 || e.status === 503))) return // the poll, or the next connection, puts it right
    stale.add(id)
    freshenSoon()
  })
}

/** Once, in the shell. */
export function beginSandboxes(): () => void {
  let owner: string | undefined
  const stops = [
    live.on(['sandbox', 'snapshot.rollback', 'disk.lost'], happened),
    effect(() => {
      const now = session.value?.owner
      if (now === owner) return
      owner = now
      sandboxes.value = new Map()
      listing.value = { state: 'loading' }
      notFreshSince.value = undefined
      if (now) queueMicrotask(() => void loadSandboxes())
    }),
    effect(() => {
      if (live.returned.value) queueMicrotask(() => void loadSandboxes())
    }),
  ]
  const poll = setInterval(() => {
    if (session.peek() && !ended.peek() && !waitAsked() && document.visibilityState === 'visible') void loadSandboxes()
  }, POLL_MS)
  const back = (): void => beginLeaving(false)
  addEventListener('pagehide', deleteNow)
  addEventListener('pageshow', back)
  return () => {
    stops.forEach((stop) => stop())
    clearInterval(poll)
    removeEventListener('pagehide', deleteNow)
    removeEventListener('pageshow', back)
  }
}

// --- what can be done

/** Shows a state at once; if it could not be had, what it was before, and throws. */
async function change(info: SandboxInfo, meanwhile: SandboxInfo['state'], what: 'stop' | 'resume' | 'pause' | 'unpause', how: { driver?: string } = {}): Promise<SandboxInfo> {
  const place = `life ${info.id}`
  put({ ...info, state: meanwhile })
  try {
    const next = await once(place, [what, how], (key) => client().sandboxes.of(info)[what]({ ...how, key }))
    put(next)
    return next
  } catch (e) {
    put(info)
    void refreshSandbox(info.id).then(() => settle(place), () => undefined)
    throw e
  }
}

export async function createSandbox(options: Omit<CreateOptions, 'key'>): Promise<SandboxInfo> {
  const { info } = await once('create', options, (key) => client().sandboxes.create({ ...options, key }))
  put(info)
  return info
}

export async function stopSandbox(info: SandboxInfo): Promise<void> {
  const next = await change(info, 'stopping', 'stop')
  toast.undo(`${nameOf(info)} is stopped. ${info.persistent ? 'Its files are kept.' : 'Its files are gone.'}`, () => resumeSandbox(next), { label: 'Resume' })
}

/** driver: another one than it had. */
export async function resumeSandbox(info: SandboxInfo, driver?: string): Promise<void> {
  await change(info, 'starting', 'resume', driver ? { driver } : {})
  toast.say(`${nameOf(info)} runs again.`)
}

export async function pauseSandbox(info: SandboxInfo): Promise<void> {
  const next = await change(info, info.state, 'pause')
  toast.undo(`${nameOf(info)} stands still.`, () => unpauseSandbox(next), { label: 'Go on' })
}

export async function unpauseSandbox(info: SandboxInfo): Promise<void> {
  await change(info, info.state, 'unpause')
  toast.say(`${nameOf(info)} goes on.`)
}

export async function forkSandbox(info: SandboxInfo, name?: string, driver?: string): Promise<SandboxInfo> {
  const how = { ...(name ? { name } : {}), ...(driver ? { driver } : {}) }
  const made = await once(`fork ${info.id}`, how, (key) => client().sandboxes.of(info).fork({ ...how, key }))
  put(made.info)
  return made.info
}

export async function snapshotSandbox(info: SandboxInfo, name?: string): Promise<Snapshot> {
  const made = await once(`snapshot ${info.id}`, name ?? '', (key) => client().sandboxes.of(info).snapshot({ key, ...(name ? { name } : {}) }))
  toast.say(`Snapshot ${snapshotName(made)} of ${nameOf(info)} is made.`)
  return made
}

// --- deleting, with a moment to think again

const dying = new Map<string, { readonly info: SandboxInfo; readonly hide: () => void; begun: boolean }>()

function setDying(): void {
  leavingSoon.value = new Set(dying.keys())
}

async function reallyDelete(id: string): Promise<void> {
  const found = dying.get(id)
  if (!found || found.begun) return
  found.begun = true
  found.hide()
  try {
    await client().sandboxes.of(found.info).delete({ force: true })
    take(id)
  } catch (e) {
    if (e instanceof StockadeError && e.status === 404) take(id)
    else toast.error(e)
  } finally {
    dying.delete(id)
    setDying()
  }
}

/** It is deleted in six seconds, later while somebody looks at the message, and not at all if that is undone. */
export function deleteSandbox(info: SandboxInfo): void {
  const { id } = info
  if (dying.has(id)) return
  const hide = toast.undo(`${nameOf(info)} will be deleted in a moment, with its files.`, () => keepSandbox(id), { ms: UNDO_MS, over: () => void reallyDelete(id) })
  dying.set(id, { info, hide, begun: false })
  setDying()
}

export function keepSandbox(id: string): void {
  const found = dying.get(id)
  if (!found || found.begun) return
  found.hide()
  dying.delete(id)
  setDying()
}

/** Whoever deleted them is gone, and nobody else may: they stay, and that is said. */
onDeparture({
  drop: () => {
    for (const [id, { info, begun }] of [...dying]) {
      if (begun) continue
      keepSandbox(id)
      toast.say(`${nameOf(info)} was not deleted: you left before.`)
    }
  },
})

/** Deletes now what was to be deleted in a moment. */
export async function finishDeleting(): Promise<void> {
  await Promise.all([...dying.keys()].map(reallyDelete))
}

/** The page goes away: what was to be deleted is deleted now, and not forgotten. */
function deleteNow(): void {
  if (dying.size) beginLeaving()
  void finishDeleting()
}
