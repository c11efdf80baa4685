// Who is signed in. The token is kept in this browser, for all tabs: signing out of one is signing out of all. Whatever is
// refused because the session has ended leads to the sign-in page, over the place where one was, which stays as it is.
import { effect, signal } from '@preact/signals'
import { Client, StockadeError, type Session as Opened, type WebSocketLike } from 'stockade-client'
import { noteDate, serverNow } from './clock'
import { departed } from './departure'
import { notePace } from './pace'
import { steadyResponse, steadySocket } from './steady'

export interface Session {
  readonly token: string
  readonly owner: string
  readonly address: string
  readonly operator: boolean
  /** Of the server's clock. */
  readonly expires_at_ms: number
  /** From when it was given to when it ends; 0: not known. */
  readonly lasts_ms: number
  /** The server does not renew it any more. */
  readonly final: boolean
}

const KEY = 'stockade.session'

/** null: nobody is signed in. */
export const session = signal<Session | null>(null)
/** It ended by itself, and not because somebody signed out. */
export const ended = signal(false)

export function parseSession(text: string | null): Session | null {
  try {
    const found = JSON.parse(text ?? 'null') as Partial<Session> | null
    if (typeof found?.token !== 'string' || typeof found.owner !== 'string' || typeof found.expires_at_ms !== 'number') return null
    const { token, owner, expires_at_ms } = found
    return { token, owner, address: String(found.address ?? ''), operator: found.operator === true, expires_at_ms, lasts_ms: typeof found.lasts_ms === 'number' ? found.lasts_ms : 0, final: found.final === true }
  } catch {
    return null
  }
}

// --- the API

let leaving = false

/** The page is going away: what is asked from now on is sent all the same. false: it is there again. */
export function beginLeaving(on = true): void {
  leaving = on
}

/** The server does not know this token any more. */
export function refused(token: string | undefined): void {
  if (token && session.value?.token === token) ended.value = true
}

/** fetch, which also notices what the server says about the time, about asking too much, and whether it still knows us. */
export async function watchedFetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, leaving ? { ...init, keepalive: true } : init)
  noteDate(response.headers.get('date'))
  notePace(response.status, response.headers.get('retry-after'))
  if (response.status === 401) refused(/^Bearer (.+)$/.exec(new Headers(init?.headers).get('Authorization') ?? '')?.[1])
  return steadyResponse(response)
}

/** As whoever has this token, whatever becomes of the session. */
export function newClient(token?: string): Client {
  const Socket = (globalThis as { WebSocket?: typeof WebSocket }).WebSocket
  // the page was loaded from there: it is no less safe than the page itself
  return new Client(location.origin, {
    insecureHttp: true,
    fetch: watchedFetch,
    ...(Socket ? { WebSocket: steadySocket(Socket as unknown as new (url: string) => WebSocketLike & WebSocket) } : {}),
    ...(token ? { token } : {}),
  })
}

let made: { who: string; client: Client } | undefined

/** The API, as whoever is signed in: the same object for as long as that is the same person, with the newest token. */
export function client(): Client {
  const now = session.value
  const who = now ? `${now.owner} ${now.operator}` : ''
  if (made?.who !== who) made = { who, client: newClient(now?.token) }
  made.client.token = now?.token
  return made.client
}

// --- coming and going

function become(next: Session | null): void {
  const before = session.peek()
  // streams that are open go on with the new token when they are cut
  if (made && (!next || made.who === `${next.owner} ${next.operator}`)) made.client.token = next?.token
  session.value = next
  if (before?.token !== next?.token) ended.value = false
  if (before && before.owner !== next?.owner) departed()
}

/** Here and in all tabs. */
export function keep(next: Session | null): void {
  become(next)
  if (next) localStorage.setItem(KEY, JSON.stringify(next))
  else localStorage.removeItem(KEY)
}

/** What another tab has put there. */
export function stored(): Session | null {
  return parseSession(localStorage.getItem(KEY))
}

/** Another tab has it newer. */
export function adopt(): void {
  const now = session.peek()
  const next = stored()
  if (JSON.stringify(now) !== JSON.stringify(next)) become(next)
}

export function lastsFor(expires_at_ms: number): number {
  const now = serverNow()
  return now === undefined ? 0 : Math.max(0, expires_at_ms - now)
}

async function opened(by: Client, found: Opened): Promise<Session> {
  const who = await by.whoami()
  const next: Session = { token: found.token, owner: who.owner, address: who.address, operator: who.operator, expires_at_ms: who.expires_at_ms, lasts_ms: lastsFor(who.expires_at_ms), final: false }
  keep(next)
  return next
}

export async function signInWithLink(code: string): Promise<Session> {
  const by = newClient()
  return opened(by, await by.signInWithLink(code))
}

/** sign: shows the text, has it signed by the wallet, and gives the signature. */
export async function signInWithWallet(address: string, sign: (text: string) => Promise<string>): Promise<Session> {
  const by = newClient()
  return opened(by, await by.signIn(address, sign))
}

/** Ends it at the server. False: that could not be done now. */
async function endAtServer(token: string): Promise<boolean> {
  try {
    await newClient(token).signOut()
    return true
  } catch (e) {
    return e instanceof StockadeError && e.status === 401
  }
}

/** Somebody else's turn, by a link that was opened here: the session that there was ends at the server, too. */
export async function changeWithLink(code: string): Promise<void> {
  const before = session.peek()?.token
  await signInWithLink(code)
  if (before) void endAtServer(before)
}

/** Here and in all tabs, at once. The server is told, again and again if it cannot be reached; that is said by whoever waits. */
export async function signOut(): Promise<void> {
  const had = session.peek()
  keep(null)
  if (!had || (await endAtServer(had.token))) return
  void (async () => {
    for (let wait = 5_000; (serverNow() ?? Date.now()) < had.expires_at_ms; wait = Math.min(wait * 2, 60_000)) {
      await new Promise((resolve) => setTimeout(resolve, wait))
      if (await endAtServer(had.token)) return
    }
  })()
  const at = new Date(had.expires_at_ms).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })
  throw new Error(`You are signed out in this browser. The server could not be told yet: there the session ends by itself at ${at}`)
}

/** Until somebody is signed in, with another token than this one; or it is not wanted any more. */
export function untilSignedIn(stop: AbortSignal, than?: string): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stop.removeEventListener('abort', done)
      queueMicrotask(() => end())
      resolve()
    }
    const end = effect(() => {
      if (stop.aborted || (session.value && !ended.value && session.value.token !== than)) done()
    })
    stop.addEventListener('abort', done, { once: true })
  })
}
