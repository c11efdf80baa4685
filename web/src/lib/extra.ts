// Routes that a server may not have. It says so with a code of its own: that is "absent", and pages say it too instead of
// showing a failure.
import { StockadeError, type Client } from 'stockade-client'

/** This server does not have the route. */
export class Absent extends Error {
  override readonly name = 'Absent'
}

/** Asks for one thing that may be missing. */
export async function askMaybe<T>(client: Client, what: string, method: string, template: string): Promise<T> {
  try {
    return await client.call<T>(method, template)
  } catch (e) {
    if (e instanceof StockadeError && (e.code === 'NO_ROUTE' || e.code === 'BAD_METHOD')) throw new Absent(what)
    throw e
  }
}
