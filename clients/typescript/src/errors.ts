// What can go wrong. Whatever the server refuses, or says that makes no sense, is a StockadeError with a code, a message and
// a hint. Codes that are ours: BAD_CHALLENGE (a text to be signed that is not about signing in here), REDIRECTED (an answer
// that points elsewhere), BAD_ANSWER (something else than what the API has).

export class StockadeError extends Error {
  override readonly name = 'StockadeError'

  constructor(
    /** Of HTTP; 0 if it was said in the middle of a stream. */
    readonly status: number,
    /** For programs: NOT_FOUND, CONFLICT, NO_TOKEN, … */
    readonly code: string,
    message: string,
    /** The next step, or ''. */
    readonly hint: string = '',
    readonly retryAfterMs?: number,
    readonly requestId: string = '',
  ) {
    super(message)
  }

  override toString(): string {
    return `${this.code}: ${this.message}${this.hint ? ` (${this.hint})` : ''}`
  }

  /** From a body of the form that all errors have; anything else came from somebody in between. */
  static of(status: number, body: unknown, requestId = ''): StockadeError {
    const b = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
    if (typeof b['code'] !== 'string') return new StockadeError(status, 'UNKNOWN', `the answer is ${status} without a reason`, '', undefined, requestId)
    const wait = b['retry_after_ms']
    return new StockadeError(status, b['code'], String(b['error'] ?? ''), String(b['hint'] ?? ''), typeof wait === 'number' ? wait : undefined, requestId)
  }

  /** Never followed: the token is for nobody else. A browser does not say where to. */
  static redirected(status: number, location: string | null): StockadeError {
    const where = location ? JSON.stringify(location.slice(0, 200)) : 'a place that we are not told'
    return new StockadeError(status, 'REDIRECTED', `the answer is ${status || 'a redirect'} and points to ${where}, where we do not go`, 'use that as the URL if it is the right server')
  }

  static badAnswer(status: number, what: string): StockadeError {
    return new StockadeError(status, 'BAD_ANSWER', what, 'is this the URL of a Stockade server?')
  }
}

/** A stream was cut before it said how it ended: the connection broke, or the session was revoked. */
export class StreamEnded extends Error {
  override readonly name = 'StreamEnded'

  constructor(
    message: string,
    /** Of a WebSocket's close; 1008: not permitted any more. */
    readonly code?: number,
  ) {
    super(message)
  }
}

/** A command did not end with 0. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed'
}
