// Values that programs inside are meant to see: files of the sandbox, and variables of its login shells, which are files too.
// They are written and never read back: only their names are.
import { StockadeError, type Client, type Entry, type Sandbox, type SandboxInfo } from 'stockade-client'
import { readSome } from './bounded'

const PROFILE_MAX = 64 << 10 // of ~/.profile, which the sandbox writes, too
const FOLDER = '.secrets/env'
const HOOK = `# variables that were given as secrets: one file each, named like the variable
for f in "$HOME"/${FOLDER}/*; do [ -f "$f" ] && export "\${f##*/}=$(cat "$f")"; done
`

export function isVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name)
}

/** What is wrong with a path for a file with a secret; undefined: nothing. */
export function pathProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'The path has to begin with /.'
  if (path.endsWith('/') || path.split('/').includes('..')) return 'The path has to name a file.'
  return undefined
}

async function home(client: Client, sandbox: SandboxInfo): Promise<string> {
  const cwd = sandbox.cwd ?? (await client.sandboxes.get(sandbox.id)).info.cwd ?? '/'
  return cwd === '/' ? '' : cwd
}

function isMissing(e: unknown): boolean {
  return e instanceof StockadeError && e.status === 404
}

/** What would not be written back as it was is not touched. */
function plainText(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Error(`${path} is not plain text: nothing can be added to it, and the variable is not set`)
  }
}

async function profileOf(files: Sandbox['files'], path: string): Promise<string> {
  try {
    const { bytes, whole } = await readSome(await files.open(path), PROFILE_MAX)
    if (!whole) throw new Error(`${path} is larger than ${PROFILE_MAX >> 10} KiB: it is not read, and the variable is not set`)
    return plainText(bytes, path)
  } catch (e) {
    if (isMissing(e)) return ''
    throw e
  }
}

export async function variables(client: Client, sandbox: SandboxInfo): Promise<string[]> {
  try {
    const found = await client.sandboxes.of(sandbox).files.list(`${await home(client, sandbox)}/${FOLDER}`)
    return found.filter((e) => e.kind === 'file' && isVariable(e.name)).map((e) => e.name).sort()
  } catch (e) {
    if (isMissing(e)) return []
    throw e
  }
}

export async function giveVariable(client: Client, sandbox: SandboxInfo, name: string, value: string): Promise<void> {
  if (!isVariable(name)) throw new TypeError(`'${name}' is no name of a variable`)
  const { files } = client.sandboxes.of(sandbox)
  const at = await home(client, sandbox)
  const profile = await profileOf(files, `${at}/.profile`)
  await files.makeFolder(`${at}/${FOLDER}`, { recursive: true, mode: 0o700 })
  await files.write(`${at}/${FOLDER}/${name}`, value, 0o600)
  if (!profile.includes(HOOK)) await files.write(`${at}/.profile`, `${profile}${profile && !profile.endsWith('\n') ? '\n' : ''}${HOOK}`, 0o600)
}

export async function takeVariable(client: Client, sandbox: SandboxInfo, name: string): Promise<void> {
  if (!isVariable(name)) throw new TypeError(`'${name}' is no name of a variable`)
  await client.sandboxes.of(sandbox).files.remove(`${await home(client, sandbox)}/${FOLDER}/${name}`)
}

/** What stands where a file with a secret would go; undefined: nothing. */
export async function whatIsAt(client: Client, sandbox: SandboxInfo, path: string): Promise<Entry | undefined> {
  try {
    return await client.sandboxes.of(sandbox).files.stat(path)
  } catch (e) {
    if (isMissing(e)) return undefined
    throw e
  }
}

export async function giveFile(client: Client, sandbox: SandboxInfo, path: string, value: string): Promise<void> {
  await client.sandboxes.of(sandbox).files.write(path, value, 0o600)
}
