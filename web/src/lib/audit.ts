// A search in the ledger, newest first.
import type { Client, EventSearch } from 'stockade-client'
import { rowOf, type Row } from './event-log'

export interface Found {
  rows: Row[]
  /** Ask for those before this number next; undefined: that was all. A page may be empty and not the last. */
  next: number | undefined
  /** How many events were looked at for it. */
  looked: number
}

/** Pages behind the first, which belong to that one alone. */
export interface Older extends Found {
  readonly first: Found
}

/** All that was found for a first page; older ones of another search are left out. */
export function together(first: Found, older: Older | undefined): Found {
  if (older?.first !== first) return first
  return { rows: [...first.rows, ...older.rows], next: older.next, looked: first.looked + older.looked }
}

/** With one more page behind it. */
export function further(first: Found, older: Older | undefined, page: Found): Older {
  const before = older?.first === first ? older : { rows: [], looked: 0 }
  return { first, rows: [...before.rows, ...page.rows], next: page.next, looked: before.looked + page.looked }
}

/** What the fields of a form ask for; empty ones ask for nothing. */
export function searchOf(fields: { text: string; kinds: string; sandbox: string; since: string; until: string }): EventSearch {
  const search: EventSearch = {}
  const kinds = fields.kinds.split(/[\s,]+/).filter(Boolean)
  const since = Date.parse(fields.since)
  const until = Date.parse(fields.until)
  if (fields.text.trim()) search.text = fields.text.trim()
  if (kinds.length) search.kinds = kinds
  if (fields.sandbox.trim()) search.sandbox = fields.sandbox.trim()
  if (!Number.isNaN(since)) search.since_ms = since
  if (!Number.isNaN(until)) search.until_ms = until
  return search
}

export async function searchEvents(client: Client, search: EventSearch): Promise<Found> {
  const found = await client.searchEvents(search)
  // lines of the ledger, as they stand there
  const rows = found.events.map((line) => rowOf({ seq: line.seq, kind: line.kind, data: line as unknown as Record<string, unknown> }))
  return { rows, next: found.next ?? undefined, looked: found.looked }
}
