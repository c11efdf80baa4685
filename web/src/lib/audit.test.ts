import type { Client } from 'stockade-client'
import { expect, it } from 'vitest'
import { further, searchEvents, searchOf, together, type Found } from './audit'

const NONE = { text: '', kinds: '', sandbox: '', since: '', until: '' }

it('fields that are empty, or make no sense, ask for nothing', () => {
  expect(searchOf(NONE)).toEqual({})
  expect(searchOf({ text: ' evil ', kinds: 'net.deny, run  auth', sandbox: 'x', since: '2026-01-02T03:04', until: 'never' })).toEqual({ text: 'evil', kinds: ['net.deny', 'run', 'auth'], sandbox: 'x', since_ms: Date.parse('2026-01-02T03:04') })
})

it('lines of the ledger become rows', async () => {
  const line = { seq: 7, time: '2026-01-02T03:04:05.678901Z', sandbox: 'abc', actor: 'gate', kind: 'net.deny', data: { host: 'evil.test', port: 80, reason: 'no-rule' } }
  const client = { searchEvents: () => Promise.resolve({ events: [line], next: null, looked: 3 }) } as unknown as Client
  const found = await searchEvents(client, {})
  expect(found).toMatchObject({ next: undefined, looked: 3, rows: [{ seq: 7, denied: true, sandbox: 'abc', actor: 'gate', text: 'Refused evil.test:80' }] })
})

it('older pages stay with the search that they belong to', () => {
  const page = (seq: number, next: number | undefined): Found => ({ rows: [{ seq } as Found['rows'][number]], next, looked: 10 })
  const first = page(9, 8)
  const older = further(first, further(first, undefined, page(8, 7)), page(7, undefined))
  expect(together(first, older)).toMatchObject({ rows: [{ seq: 9 }, { seq: 8 }, { seq: 7 }], next: undefined, looked: 30 })
  const other = page(5, 4)
  expect(together(other, older)).toBe(other)
  expect(together(other, further(other, older, page(4, 3)))).toMatchObject({ rows: [{ seq: 5 }, { seq: 4 }], next: 3 })
})
