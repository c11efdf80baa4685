// A file as it was in a snapshot.
import { StockadeError } from 'stockade-client'
import { readSome } from '../../../lib/bounded'
import { session, watchedFetch } from '../../../lib/session'
import { contentOf, EDIT_MAX } from './content'

export type Then =
  | { kind: 'text'; text: string }
  | { kind: 'missing' } // the snapshot has no such file
  | { kind: 'unlike'; why: string } // it has, but not as text

export async function fileInSnapshot(snapshot: string, path: string): Promise<Then> {
  const response = await watchedFetch(`/api/snapshots/${encodeURIComponent(snapshot)}/files?path=${encodeURIComponent(path)}`, {
    headers: { Authorization: `Bearer ${session.value?.token ?? ''}` },
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error',
  })
  if (!response.ok) {
    const error = StockadeError.of(response.status, await response.json().catch(() => undefined), response.headers.get('x-request-id') ?? '')
    if (response.status === 404 && error.code === 'NOT_FOUND') return { kind: 'missing' }
    if (error.code === 'NO_ROUTE') return { kind: 'unlike', why: 'This server does not show single files of snapshots.' }
    throw error
  }
  if (!response.headers.has('content-disposition')) return { kind: 'unlike', why: 'There it is a folder.' }
  const { bytes, whole } = await readSome(response, EDIT_MAX)
  if (!whole) return { kind: 'unlike', why: 'There it is too large to be compared here.' }
  const content = contentOf(bytes)
  return content.kind === 'text' ? { kind: 'text', text: content.text } : { kind: 'unlike', why: `There: ${content.why}` }
}
