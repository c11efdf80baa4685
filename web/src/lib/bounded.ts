// Reading what somebody else chose the size of: no more than so many bytes come into memory, whatever was said before.

export interface Some {
  readonly bytes: Uint8Array
  /** That was all of it. */
  readonly whole: boolean
}

export async function readSome(response: Response, most: number): Promise<Some> {
  const reader = response.body?.getReader()
  const parts: Uint8Array[] = []
  let size = 0
  let whole = true
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    const room = most - size
    parts.push(value.subarray(0, room))
    size += Math.min(value.length, room)
    if (value.length <= room) continue
    whole = false
    await reader.cancel().catch(() => undefined) // the rest is not wanted
    break
  }
  const bytes = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return { bytes, whole }
}
