// Before unit tests: what browsers and later Nodes have. Debian 12's own is 18.
import { webcrypto } from 'node:crypto'

globalThis.crypto ??= webcrypto
