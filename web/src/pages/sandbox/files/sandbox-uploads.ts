// The uploads of each sandbox. They go on while one looks at something else, and end when somebody else signs in.
import { StockadeError, type SandboxInfo } from 'stockade-client'
import { onDeparture } from '../../../lib/departure'
import { client, ended, refused, session, untilSignedIn } from '../../../lib/session'
import { count } from '../../../lib/words'
import { isOver, Uploads } from './upload'

/** By XMLHttpRequest: fetch cannot tell how much of a body has gone. */
function sendFile(url: string, token: string, file: Blob, progress: (sent: number) => void, stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const abort = (): void => request.abort()
    stop.addEventListener('abort', abort, { once: true })
    request.open('PUT', url)
    request.setRequestHeader('Authorization', `Bearer ${token}`)
    request.setRequestHeader('Content-Type', 'application/octet-stream')
    request.responseType = 'json'
    request.upload.onprogress = (event) => progress(event.loaded)
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve()
      else {
        if (request.status === 401) refused(token)
        reject(StockadeError.of(request.status, request.response as unknown, request.getResponseHeader('x-request-id') ?? ''))
      }
    }
    request.onerror = () => reject(new TypeError('network: the upload was cut'))
    request.onabort = () => reject(new DOMException('cancelled', 'AbortError'))
    request.onloadend = () => stop.removeEventListener('abort', abort)
    request.send(file)
  })
}

/** What was begun with a token is cut when that token ends, also where there is a newer one: then it is sent again. */
async function sendAsMe(url: string, file: Blob, progress: (sent: number) => void, stop: AbortSignal): Promise<void> {
  const token = session.peek()?.token ?? ''
  try {
    await sendFile(url, token, file, progress, stop)
  } catch (e) {
    if (e instanceof TypeError && (ended.peek() || session.peek()?.token !== token)) throw new StockadeError(401, 'BAD_TOKEN', 'the session ended while it was sent')
    throw e
  }
}

const known = new Map<string, Uploads>()

export function uploadsOf(sandbox: SandboxInfo): Uploads {
  let found = known.get(sandbox.id)
  if (!found) {
    const at = `/api/sandboxes/${encodeURIComponent(sandbox.id)}/files`
    found = new Uploads(
      (path, file, progress, stop) => sendAsMe(`${at}?path=${encodeURIComponent(path)}`, file, progress, stop),
      (path) => client().sandboxes.of(sandbox).files.makeFolder(path, { recursive: true }),
      untilSignedIn,
    )
    known.set(sandbox.id, found)
  }
  return found
}

/** Those that are not through. */
function open(): number {
  let sum = 0
  for (const { list } of known.values()) for (const one of list.peek()) if (!isOver(one)) sum++
  return sum
}

onDeparture({
  lost: () => (open() ? count(open(), 'upload') : ''),
  drop: () => {
    for (const uploads of known.values()) uploads.cancelAll()
    known.clear()
  },
})

addEventListener('beforeunload', (event) => {
  if (open()) event.preventDefault()
})
