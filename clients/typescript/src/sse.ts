// Server-sent events.
import { StockadeError } from './errors.js'
import { chunks, jsonObject } from './http.js'

const EVENT_MAX = 4 << 20 // of a line, and of all lines of an event

export interface ServerEvent {
  name: string
  data: Record<string, unknown>
}

/** What a stream says, until it ends. An event called error is thrown. */
export async function* events(response: Response): AsyncGenerator<ServerEvent, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  let name = 'message'
  let data: string[] = []
  let size = 0
  for await (const chunk of chunks(response)) {
    const [first = '', ...others] = decoder.decode(chunk, { stream: true }).split('\n')
    const lines: string[] = []
    rest += first
    for (const line of others) {
      lines.push(rest)
      rest = line
    }
    if (rest.length > EVENT_MAX) throw StockadeError.badAnswer(0, `a line of the stream is longer than ${EVENT_MAX >> 20} MiB`)
    for (const line of lines) {
      if (line === '') {
        if (data.length) {
          const value = jsonObject(data.join('\n'))
          if (!value) throw StockadeError.badAnswer(0, 'an event of the stream is no JSON object')
          if (name === 'error') throw StockadeError.of(0, value)
          yield { name, data: value }
        }
        name = 'message'
        data = []
        size = 0
      } else if (line.startsWith('event: ')) name = line.slice(7)
      else if (line.startsWith('data: ')) {
        data.push(line.slice(6))
        size += line.length
        if (size > EVENT_MAX) throw StockadeError.badAnswer(0, `an event of the stream is larger than ${EVENT_MAX >> 20} MiB`)
      }
    }
  }
}
