// A file of the server, saved by the browser itself: it streams to the disk and is never in the page.
import type { Client } from 'stockade-client'

interface Download {
  /** Without a query; a ticket for it stands in for the token, once. */
  path: string
  query?: Readonly<Record<string, string>>
  /** What it is called on the reader's own disk. */
  name: string
  /** Asks for something small that would be refused for the same reasons: what a browser saves nobody can look at before. */
  first: () => Promise<unknown>
}

export async function download(client: Client, { path, query = {}, name, first }: Download): Promise<void> {
  await first()
  const words = new URLSearchParams({ ...query, ticket: await client.ticket(path) })
  const link = document.createElement('a')
  link.href = `${path}?${words.toString()}`
  link.download = name
  link.rel = 'noopener'
  document.body.append(link)
  link.click()
  link.remove()
}
