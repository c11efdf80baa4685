// What is in the folder, as a list: the keyboard walks it, Enter opens, Delete deletes, F2 renames; things can be dragged
// into folders.
import { useState } from 'preact/hooks'
import type { Entry } from 'stockade-client'
import { visible } from '../../../lib/safe-text'
import { bytes } from '../../../lib/words'
import { Ago, Icon, Menu, toast, VirtualList, type MenuItem, type OpenProps } from '../../../ui'
import { Name } from '../name'
import { kindWord, modeWord, type Sort, type SortKey } from './entries'
import { isUnnameable, join } from './paths'

export interface ListActions {
  open(path: string, entry: Entry): void
  download(path: string, entry: Entry): unknown
  rename(path: string): unknown
  moveTo(path: string): unknown
  moveInto(path: string, folder: string): unknown
  remove(paths: { path: string; entry: Entry }[]): unknown
}

interface ListProps {
  folder: string
  entries: readonly Entry[]
  sort: Sort
  onSort: (sort: Sort) => void
  chosen: ReadonlySet<string>
  onChoose: (names: ReadonlySet<string>) => void
  actions: ListActions
}

const DRAGGED = 'application/x-stockade-path'
const WHY = 'Its name is not text; only a program inside can name it'

export function FileList({ folder, entries, sort, onSort, chosen, onChoose, actions }: ListProps) {
  const heading = (key: SortKey, title: string): preact.JSX.Element => (
    <button type="button" class={`files-sort files-${key}`} aria-pressed={sort.key === key} onClick={() => onSort({ key, down: sort.key === key ? !sort.down : key !== 'name' })}>
      {title}{sort.key === key && <span aria-label={sort.down ? 'downwards' : 'upwards'}>{sort.down ? ' ↓' : ' ↑'}</span>}
    </button>
  )
  const open = (e: Entry): void => {
    if (isUnnameable(e.name)) toast.say(`${WHY}.`)
    else actions.open(join(folder, e.name), e)
  }
  const named = (e: Entry): { path: string; entry: Entry } => ({ path: join(folder, e.name), entry: e })
  const onKey = (event: KeyboardEvent, e: Entry): boolean => {
    if (event.key !== 'Delete' && event.key !== 'F2') return false
    const some = entries.filter((one) => chosen.has(one.name) && !isUnnameable(one.name))
    if (isUnnameable(e.name)) toast.say(`${WHY}.`)
    else if (event.key === 'F2') void actions.rename(join(folder, e.name))
    else void actions.remove(chosen.has(e.name) ? some.map(named) : [named(e)])
    return true
  }
  const all = entries.length > 0 && entries.every((e) => chosen.has(e.name))
  return (
    <div class="files-list">
      <div class="files-head">
        <input type="checkbox" aria-label="Choose all" checked={all} onChange={() => onChoose(new Set(all ? [] : entries.map((e) => e.name)))} />
        {heading('name', 'Name')}
        {heading('size', 'Size')}
        {heading('mtime_ms', 'Changed')}
        <span class="files-mode">Rights</span>
        <span />
      </div>
      <VirtualList items={entries} rowHeight={44} keyOf={(e) => e.name} label="Files" boxClass="files-box" onOpen={(e) => open(e)}
        onKey={onKey} render={(entry, button) => <Row button={button} entry={entry} path={join(folder, entry.name)} chosen={chosen.has(entry.name)} actions={actions}
          choose={(on) => {
            const next = new Set(chosen)
            if (on) next.add(entry.name)
            else next.delete(entry.name)
            onChoose(next)
          }} />} />
    </div>
  )
}

function Row({ entry, path, chosen, choose, actions, button }: { button: OpenProps; entry: Entry; path: string; chosen: boolean; choose: (on: boolean) => void; actions: ListActions }) {
  const [over, setOver] = useState(false)
  const why = isUnnameable(entry.name) ? WHY : undefined
  const items: MenuItem[] = [
    { title: entry.kind === 'folder' ? 'Download as an archive' : 'Download', icon: 'download', act: () => actions.download(path, entry), why: why ?? (['file', 'folder', 'link'].includes(entry.kind) ? undefined : 'Only files and folders can be read') },
    { title: 'Rename', icon: 'edit', act: () => actions.rename(path), why },
    { title: 'Move…', icon: 'right', act: () => actions.moveTo(path), why },
    { title: 'Delete', icon: 'trash', danger: true, act: () => actions.remove([{ path, entry }]), why },
  ]
  const isFolder = entry.kind === 'folder'
  const drop = (event: DragEvent): void => {
    const from = event.dataTransfer?.getData(DRAGGED)
    setOver(false)
    if (!from) return
    event.preventDefault()
    event.stopPropagation()
    void actions.moveInto(from, path)
  }
  const dragOver = (event: DragEvent): void => {
    if (!event.dataTransfer?.types.includes(DRAGGED)) return
    event.preventDefault()
    event.stopPropagation()
    setOver(true)
  }
  return (
    <div class={`files-row${over ? ' files-over' : ''}`} data-kind={entry.kind} draggable={!why} onDragStart={(e) => e.dataTransfer?.setData(DRAGGED, path)}
      {...(isFolder ? { onDragOver: dragOver, onDragLeave: () => setOver(false), onDrop: drop } : {})}
      title={why}>
      <input type="checkbox" aria-label={`Choose ${visible(entry.name, 60)}`} checked={chosen} onClick={(e) => e.stopPropagation()} onChange={(e) => choose(e.currentTarget.checked)} />
      <span class="files-name">
        <Icon name={isFolder ? 'folder' : entry.kind === 'link' ? 'link' : entry.kind === 'file' ? 'file' : 'block'} />
        <button type="button" class="files-open bare-text" {...button}><span class="said">{kindWord(entry)} </span><Name text={entry.name} limit={80} /></button>
        {entry.target !== undefined && <span class="quiet small"> → <Name text={entry.target} limit={60} /></span>}
      </span>
      <span class="files-size">{entry.kind === 'file' ? bytes(entry.size) : ''}</span>
      <span class="files-mtime_ms quiet"><Ago ms={entry.mtime_ms} /></span>
      <code class="files-mode quiet">{modeWord(entry.mode)}</code>
      <Menu label={`What to do with ${visible(entry.name, 60)}`} items={items} />
    </div>
  )
}
