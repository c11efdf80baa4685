// Which of the files that are about to be uploaded would replace something, and what is to be done with them: asked once
// for all.
import { StockadeError, type Entry, type SandboxInfo } from 'stockade-client'
import { visible } from '../../../lib/safe-text'
import { client } from '../../../lib/session'
import { choose } from '../../../ui'
import { join } from './paths'
import type { Source } from './upload'

const FOLDERS_MAX = 50 // that are looked into; what is beyond them is asked about as a whole

/** What is in a folder; undefined: it is not there, or is none. */
export type Look = (path: string) => Promise<readonly Entry[] | undefined>

export interface Taken {
  readonly sources: ReadonlySet<Source>
  /** Not everything could be looked at: there may be more. */
  readonly more: boolean
}

export async function findTaken(folder: string, sources: readonly Source[], look: Look): Promise<Taken> {
  const inside = new Map<string, Promise<ReadonlyMap<string, Entry['kind']>>>()
  let more = false
  const kinds = (path: string): Promise<ReadonlyMap<string, Entry['kind']>> => {
    const known = inside.get(path)
    if (known) return known
    if (inside.size >= FOLDERS_MAX) {
      more = true
      return Promise.resolve(new Map())
    }
    const asked = look(path).then((entries) => new Map((entries ?? []).map((e) => [e.name, e.kind])))
    inside.set(path, asked)
    return asked
  }
  const kindOf = async (path: readonly string[]): Promise<Entry['kind'] | undefined> => {
    let at = folder
    for (const [i, word] of path.entries()) {
      const kind = (await kinds(at)).get(word)
      if (i === path.length - 1 || kind !== 'folder') return i === path.length - 1 ? kind : undefined
      at = join(at, word)
    }
    return undefined
  }
  const found = new Set<Source>()
  for (const source of sources) {
    if (!source.file) continue // a folder that is there stays
    const kind = await kindOf(source.path.split('/'))
    if (kind !== undefined && kind !== 'folder') found.add(source)
  }
  return { sources: found, more }
}

function listFor(sandbox: SandboxInfo): Look {
  return async (path) => {
    try {
      return await client().sandboxes.of(sandbox).files.list(path)
    } catch (e) {
      if (e instanceof TypeError && e.message.includes('is no folder')) return undefined
      if (e instanceof StockadeError && e.status === 404) return undefined
      throw e
    }
  }
}

/** Those that shall be uploaded. */
export async function askAboutTaken(sandbox: SandboxInfo, folder: string, sources: readonly Source[]): Promise<readonly Source[]> {
  const { sources: taken, more } = await findTaken(folder, sources, listFor(sandbox))
  if (taken.size === 0 && !more) return sources
  const [first] = taken
  const what = taken.size === 1 && !more && first ? `“${visible(first.path, 80)}” is there already.` : `${more ? 'At least ' : ''}${taken.size} of ${sources.length} files are there already.`
  const left = sources.length - taken.size
  const answer = await choose({
    title: 'Replace what is there?',
    text: `${what} What is replaced is gone for good.${more ? ' Not all folders could be looked into: there may be others.' : ''}`,
    choices: [...(left > 0 && !more ? [{ value: 'skip', title: `Upload only the other ${left}` }] : []), { value: 'replace', title: taken.size === 1 && !more ? 'Replace it' : 'Replace them', danger: true }],
  })
  if (answer === 'replace') return sources
  return answer === 'skip' ? sources.filter((s) => !taken.has(s)) : []
}
