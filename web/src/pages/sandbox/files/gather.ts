// What was dropped on the page, or chosen: all files, those in folders with the way to them, and folders that are empty.
import type { Source } from './upload'

export const FILES_MAX = 20_000

/** What is needed of FileSystemEntry. */
interface Node {
  readonly isFile: boolean
  readonly isDirectory: boolean
  readonly name: string
}
interface FileNode extends Node {
  file(found: (file: File) => void, failed: (e: unknown) => void): void
}
interface FolderNode extends Node {
  createReader(): { readEntries(found: (entries: Node[]) => void, failed: (e: unknown) => void): void }
}

async function all(folder: FolderNode): Promise<Node[]> {
  const reader = folder.createReader()
  const found: Node[] = []
  for (;;) {
    // some at a time, until there are none
    const some = await new Promise<Node[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (some.length === 0) return found
    found.push(...some)
  }
}

async function walk(node: Node, way: string, found: Source[]): Promise<void> {
  if (found.length >= FILES_MAX) throw new Error(`more than ${FILES_MAX} files at once; put them into an archive and unpack it inside`)
  if (node.isFile) {
    const file = await new Promise<File>((resolve, reject) => (node as FileNode).file(resolve, reject))
    found.push({ path: way + node.name, file })
  } else if (node.isDirectory) {
    const inside = await all(node as FolderNode)
    if (inside.length === 0) found.push({ path: way + node.name, file: null })
    for (const one of inside) await walk(one, `${way}${node.name}/`, found)
  }
}

/** Must be called while the drop is handled: what was dropped is gone afterwards. */
export function fromDrop(items: Iterable<{ kind: string; webkitGetAsEntry(): Node | null; getAsFile(): File | null }>): Promise<Source[]> {
  const nodes: (Node | File)[] = []
  for (const item of items) {
    const found = item.kind === 'file' ? (item.webkitGetAsEntry() ?? item.getAsFile()) : null
    if (found) nodes.push(found)
  }
  return (async () => {
    const found: Source[] = []
    for (const node of nodes) {
      if ('isFile' in node) await walk(node, '', found)
      else found.push({ path: node.name, file: node })
    }
    return found
  })()
}

export function fromInput(files: Iterable<File>): Source[] {
  return Array.from(files, (file) => ({ path: file.webkitRelativePath || file.name, file }))
}
