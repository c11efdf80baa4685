// The folders, as a tree that is fetched as it is opened. Arrows walk it: right opens, left closes.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { client } from '../../../lib/session'
import { Icon, toast } from '../../../ui'
import { Name } from '../name'
import { sorted } from './entries'
import { isUnnameable, join, nameOf, parentOf, wayTo } from './paths'

const SHOWN_MAX = 500 // folders of one folder

interface TreeProps {
  sandbox: SandboxInfo
  at: string
  /** The folders of the folder that one is in, as they are now. */
  here: readonly string[] | undefined
  onGo: (path: string) => void
}

interface Line {
  path: string
  depth: number
  open: boolean
}

/** The lines that are seen, from the top. */
function linesOf(root: string, inside: ReadonlyMap<string, readonly string[]>, open: ReadonlySet<string>): Line[] {
  const lines: Line[] = []
  const add = (path: string, depth: number): void => {
    const isOpen = open.has(path)
    lines.push({ path, depth, open: isOpen })
    if (isOpen && depth < 60) for (const name of inside.get(path) ?? []) add(join(path, name), depth + 1)
  }
  add(root, 0)
  return lines
}

export function Tree({ sandbox, at, here, onGo }: TreeProps) {
  const [inside, setInside] = useState<ReadonlyMap<string, readonly string[]>>(new Map())
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(wayTo(at)))
  const [active, setActive] = useState(at)
  const place = useRef<HTMLDivElement>(null)

  const load = async (path: string): Promise<void> => {
    const entries = await client().sandboxes.of(sandbox).files.list(path)
    const names = sorted(entries.filter((e) => e.kind === 'folder' && !isUnnameable(e.name)), { key: 'name', down: false }).map((e) => e.name)
    setInside((known) => new Map(known).set(path, names.slice(0, SHOWN_MAX)))
  }
  const toggle = (path: string, to: boolean): void => {
    setOpen((known) => {
      const next = new Set(known)
      if (to) next.add(path)
      else next.delete(path)
      return next
    })
    if (to && !inside.has(path)) load(path).catch((e: unknown) => toast.error(e))
  }

  // the way to where one is stands open
  useEffect(() => {
    setActive(at)
    setOpen((known) => new Set([...known, ...wayTo(at)]))
    for (const path of at === '/' ? [] : wayTo(parentOf(at))) if (!inside.has(path)) load(path).catch(() => undefined)
  }, [at])
  useEffect(() => {
    if (here) setInside((known) => new Map(known).set(at, here.slice(0, SHOWN_MAX)))
  }, [at, here])

  const lines = linesOf('/', inside, open)
  const focus = (path: string | undefined): void => {
    if (path === undefined) return
    setActive(path)
    requestAnimationFrame(() => place.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus())
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const i = lines.findIndex((l) => l.path === active)
    const line = lines[i]
    if (!line) return
    if (event.key === 'ArrowDown') focus(lines[i + 1]?.path)
    else if (event.key === 'ArrowUp') focus(lines[i - 1]?.path)
    else if (event.key === 'Home') focus(lines[0]?.path)
    else if (event.key === 'End') focus(lines.at(-1)?.path)
    else if (event.key === 'ArrowRight') line.open ? focus(lines[i + 1]?.path) : toggle(line.path, true)
    else if (event.key === 'ArrowLeft') line.open ? toggle(line.path, false) : focus(parentOf(line.path))
    else if (event.key === 'Enter' || event.key === ' ') onGo(line.path)
    else return
    event.preventDefault()
  }
  const tabStop = lines.some((l) => l.path === active) ? active : lines[0]?.path
  return (
    <div class="files-tree" role="tree" aria-label="Folders" ref={place} onKeyDown={onKeyDown}>
      {lines.map((line) => (
        <div key={line.path} class="files-branch" role="treeitem" aria-level={line.depth + 1} aria-expanded={line.open} aria-selected={line.path === at} tabIndex={line.path === tabStop ? 0 : -1} style={{ paddingLeft: `${line.depth * 14}px` }} onClick={() => onGo(line.path)} onFocus={() => setActive(line.path)}>
          <button type="button" class="files-twist" tabIndex={-1} aria-hidden="true" onClick={(e) => { e.stopPropagation(); toggle(line.path, !line.open) }}>
            <Icon name={line.open ? 'down' : 'right'} size={14} />
          </button>
          {line.path === '/' ? <span>/</span> : <Name text={nameOf(line.path)} limit={40} />}
        </div>
      ))}
    </div>
  )
}
