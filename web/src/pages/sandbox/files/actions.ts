// What can be done with files: each asks what it must know, does it, and says what happened. Moving can be undone;
// deleting cannot, so it asks.
import { StockadeError, type Entry, type SandboxInfo } from 'stockade-client'
import { download as save } from '../../../lib/download'
import { visible } from '../../../lib/safe-text'
import { client } from '../../../lib/session'
import { ask, askText, toast } from '../../../ui'
import { hasControls, isBelow, join, nameOf, parentOf, tidy, wrongName } from './paths'

const files = (sandbox: SandboxInfo) => client().sandboxes.of(sandbox).files

/** undefined: there is nothing. */
export async function statOf(sandbox: SandboxInfo, path: string): Promise<Entry | undefined> {
  try {
    return await files(sandbox).stat(path)
  } catch (e) {
    if (e instanceof StockadeError && e.status === 404) return undefined
    throw e
  }
}

/** Whether something may take that place: it is free, or it may be replaced. */
async function mayTake(sandbox: SandboxInfo, path: string): Promise<boolean> {
  const there = await statOf(sandbox, path)
  if (!there) return true
  if (there.kind === 'folder') {
    toast.error(new Error(`There is a folder called “${visible(nameOf(path), 60)}” already`))
    return false
  }
  return ask({ title: 'Replace what is there?', text: `There is already something called “${visible(nameOf(path), 80)}”. It would be gone for good.`, yes: 'Replace it', danger: true })
}

async function move(sandbox: SandboxInfo, from: string, to: string, said: string): Promise<boolean> {
  if (from === to || !(await mayTake(sandbox, to))) return false
  await files(sandbox).move(from, to)
  toast.undo(said, async () => {
    if (await statOf(sandbox, from)) throw new Error('Something else has taken its old name')
    await files(sandbox).move(to, from)
    toast.say('It is back where it was.')
  })
  return true
}

export async function rename(sandbox: SandboxInfo, path: string): Promise<string | undefined> {
  const old = nameOf(path)
  const name = await askText({ title: 'Rename', label: 'New name', yes: 'Rename it', value: hasControls(old) ? safeFileName(old) : old, check: wrongName })
  if (name === null) return undefined
  const to = join(parentOf(path), name)
  return (await move(sandbox, path, to, `Renamed to “${visible(name, 60)}”.`)) ? to : undefined
}

export async function moveTo(sandbox: SandboxInfo, path: string): Promise<string | undefined> {
  const check = (value: string): string | undefined => {
    if (!value.startsWith('/')) return 'A path begins with a slash.'
    if (isBelow(tidy(value), path)) return 'It cannot be moved into itself.'
    return undefined
  }
  const folder = await askText({ title: `Move “${visible(nameOf(path), 60)}”`, label: 'To which folder', yes: 'Move it', value: parentOf(path), check })
  return folder === null ? undefined : moveInto(sandbox, path, tidy(folder))
}

export async function moveInto(sandbox: SandboxInfo, path: string, folder: string): Promise<string | undefined> {
  const to = join(folder, nameOf(path))
  if (isBelow(folder, path) || to === path) return undefined
  return (await move(sandbox, path, to, `Moved to ${visible(folder, 80)}.`)) ? to : undefined
}

export async function removeAll(sandbox: SandboxInfo, entries: readonly { path: string; entry: Entry }[]): Promise<boolean> {
  const [first] = entries
  if (!first) return false
  const what = entries.length === 1 ? `“${visible(nameOf(first.path), 80)}”` : `${entries.length} things`
  const folders = entries.some((e) => e.entry.kind === 'folder')
  const text = folders ? 'Folders go with everything in them. This cannot be undone.' : 'This cannot be undone.'
  if (!(await ask({ title: `Delete ${what}?`, text, yes: 'Delete for good', danger: true }))) return false
  let done = 0
  try {
    for (const { path, entry } of entries) {
      await files(sandbox).remove(path, entry.kind === 'folder' ? { recursive: true } : {})
      done++
    }
  } finally {
    if (done) toast.say(done === entries.length ? `Deleted ${what}.` : `Deleted ${done} of ${entries.length}.`)
  }
  return true
}

export async function makeFolder(sandbox: SandboxInfo, folder: string): Promise<string | undefined> {
  const name = await askText({ title: 'New folder', label: 'Name', yes: 'Make it', check: wrongName })
  if (name === null) return undefined
  const path = join(folder, name)
  await files(sandbox).makeFolder(path)
  toast.say(`Made the folder “${visible(name, 60)}”.`)
  return path
}

export async function makeFile(sandbox: SandboxInfo, folder: string): Promise<string | undefined> {
  const name = await askText({ title: 'New file', label: 'Name', yes: 'Make it', check: wrongName })
  if (name === null) return undefined
  const path = join(folder, name)
  if (await statOf(sandbox, path)) throw new Error(`There is already something called “${visible(name, 60)}”`)
  await files(sandbox).write(path, '')
  return path
}

/** A folder comes as a tar archive. */
export async function download(sandbox: SandboxInfo, path: string, entry: Pick<Entry, 'kind'>): Promise<void> {
  const isFolder = entry.kind === 'folder'
  await save(client(), {
    path: `/api/sandboxes/${encodeURIComponent(sandbox.id)}/files${isFolder ? '/archive' : ''}`,
    query: { path },
    name: safeFileName(nameOf(path) || 'all') + (isFolder ? '.tar' : ''),
    first: () => files(sandbox).stat(path),
  })
}

/** On the reader's own disk a name has no tricks in it. */
function safeFileName(name: string): string {
  return visible(name, 120).replace(/[\\/:*?"<>|‹›]/g, '_').replace(/^\.+/, '_') || 'file'
}
