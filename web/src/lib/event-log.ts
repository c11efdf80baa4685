// Events of the ledger in bounded memory, filtered as they come. Nothing here draws: whoever does asks once a frame.
import type { LedgerEvent } from 'stockade-client'
import { isDenial } from './denial'
import { eventWords } from './event-words'
import { Newest, weightOf } from './newest'
import { visible } from './safe-text'

const TEXT_MAX = 500 // characters of a sentence; whoever opens the event sees all of it

export interface Row {
  seq: number
  at: number
  kind: string
  actor: string
  sandbox: string
  text: string
  denied: boolean
  data: Record<string, unknown>
  /** The whole line, for whoever opens it. */
  line: Record<string, unknown>
  /** About how much memory it takes. */
  bytes: number
}

export interface Filter {
  /** Families ('net') or kinds ('net.deny'); none: all. */
  kinds: ReadonlySet<string>
  text: string
  denialsOnly: boolean
}

export const NO_FILTER: Filter = { kinds: new Set(), text: '', denialsOnly: false }

function object(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

/** What came from a sandbox is in the sentence as what it is: nothing in it turns the text around, or hides. */
export function rowOf(event: LedgerEvent): Row {
  const line = event.data
  const data = object(line['data'])
  return {
    seq: event.seq,
    at: Date.parse(String(line['time'] ?? '')) || 0,
    kind: event.kind,
    actor: visible(String(line['actor'] ?? ''), 120),
    sandbox: visible(String(line['sandbox'] ?? ''), 120),
    text: visible(eventWords(event.kind, data), TEXT_MAX),
    denied: isDenial(event.kind),
    data,
    line,
    bytes: weightOf(line),
  }
}

export function familyOf(kind: string): string {
  return kind.split('.')[0] ?? kind
}

export function matches(row: Row, filter: Filter): boolean {
  if (filter.denialsOnly && !row.denied) return false
  if (filter.kinds.size && !filter.kinds.has(row.kind) && !filter.kinds.has(familyOf(row.kind))) return false
  if (!filter.text) return true
  const wanted = filter.text.toLowerCase()
  return row.text.toLowerCase().includes(wanted) || row.kind.includes(wanted) || row.actor.toLowerCase().includes(wanted) || String(row.seq) === wanted
}

/** Oldest first. What is older than the newest `capacity`, or too much to keep, is let go of; the ledger still has it. */
export class EventLog {
  readonly #rows: Newest<Row>
  #view: Row[] = []
  #filter: Filter = NO_FILTER
  #families = new Map<string, number>()
  /** How many came, and how many of them are not kept any more. */
  total = 0
  dropped = 0
  denials = 0

  constructor(
    readonly capacity = 20_000,
    bytesMax?: number,
  ) {
    this.#rows = new Newest(capacity, (row) => row.bytes, bytesMax)
  }

  get size(): number {
    return this.#rows.items.length
  }

  get view(): readonly Row[] {
    return this.#view
  }

  get last(): Row | undefined {
    return this.#rows.last
  }

  /** How many of each family there were, for the filter's buttons. */
  get families(): ReadonlyMap<string, number> {
    return this.#families
  }

  /** Returns how many of them are shown. An event that came before (after a reconnect) is passed over. */
  push(batch: readonly LedgerEvent[]): number {
    let shown = 0
    let last = this.last?.seq ?? -1
    for (const event of batch) {
      if (event.seq <= last) continue
      last = event.seq
      const row = rowOf(event)
      this.#rows.add(row)
      this.total++
      if (row.denied) this.denials++
      const family = familyOf(row.kind)
      this.#families.set(family, (this.#families.get(family) ?? 0) + 1)
      if (matches(row, this.#filter)) {
        this.#view.push(row)
        shown++
      }
    }
    this.#trim()
    return shown
  }

  setFilter(filter: Filter): void {
    this.#filter = filter
    this.#view = this.#rows.items.filter((row) => matches(row, filter))
  }

  #trim(): void {
    const gone = this.#rows.trim()
    if (!gone) return
    this.dropped += gone
    const first = this.#rows.items[0]?.seq ?? Infinity
    const at = this.#view.findIndex((row) => row.seq >= first)
    this.#view = at < 0 ? [] : this.#view.slice(at)
  }
}
