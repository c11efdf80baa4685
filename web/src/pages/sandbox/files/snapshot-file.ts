// A file as it was in a snapshot.
import { StockadeError } from 'stockade-client'
import { readSome } from '../../../lib/bounded'
import { client } from '../../../lib/session'
import { contentOf, EDIT_MAX } from './content'

export type Then =
  | { kind: 'text'; text: string }
  | { kind: 'missing' } // the snapshot has no such file
  | { kind: 'unlike'; why: string } // it has, but not as text

/** By its path in the sandbox. */
export async function fileInSnapshot(snapshot: string, path: string): Promise<Then> {
  let response: Response
  try {
    response = await client().snapshots.open(snapshot, path)
  } catch (e) {
    if (e instanceof StockadeError && e.status === 404) return { kind: 'missing' }
    if (e instanceof StockadeError && e.status === 409) return { kind: 'unlike', why: 'There it is a link, or leads through one.' }
    throw e
  }
  if (!response.headers.has('content-disposition')) {
    void response.body?.cancel()
    return { kind: 'unlike', why: 'There it is a folder.' }
  }
  const { bytes, whole } = await readSome(response, EDIT_MAX)
  if (!whole) return { kind: 'unlike', why: 'There it is too large to be compared here.' }
  const content = contentOf(bytes)
  return content.kind === 'text' ? { kind: 'text', text: content.text } : { kind: 'unlike', why: `There: ${content.why}` }
}
