// A client of Stockade's API, for Node 18 and later and for browsers. It needs nothing but the platform.
export { Client, type Signer } from './client.js'
export { CommandFailed, StockadeError, StreamEnded } from './errors.js'
export type { Span } from './files.js'
export { chunks, type Body, type Options, type WebSocketLike } from './http.js'
export type { EventOptions } from './ledger.js'
export { Output, Run, Terminal, type Attachment } from './runs.js'
export { Sandbox, type Command } from './sandbox.js'
export type * from './types.js'
