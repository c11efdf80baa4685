// Files of a sandbox: folders as a tree, the open folder as a live list, and one file open in the editor.
import '../../style/files.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { route, setQuery } from '../../lib/route'
import { stateMeans } from '../../lib/words'
import { Button, Empty, Failure, Icon, IconButton, Skeleton, toast } from '../../ui'
import { download, makeFile, makeFolder, moveInto, moveTo, removeAll, rename } from './files/actions'
import { drafts } from './files/document'
import { FileEditor } from './files/editor'
import { matching, sorted, type Sort } from './files/entries'
import { useFolder } from './files/folder'
import { fromDrop, fromInput } from './files/gather'
import { FileList } from './files/list'
import { join, nameOf, parentOf, tidy, wayTo } from './files/paths'
import { askAboutTaken } from './files/taken'
import { Tree } from './files/tree'
import { uploadsOf } from './files/sandbox-uploads'
import type { Source, Uploads } from './files/upload'
import { UploadsPanel } from './files/uploads-panel'
import { Name } from './name'

export default function Files({ sandbox }: { sandbox: SandboxInfo }) {
  if (sandbox.state !== 'running') return <Empty icon="folder" title="Its files cannot be read now" hint={`${stateMeans(sandbox)} Files can be seen while it runs.`} />
  return <Explorer sandbox={sandbox} />
}

function Explorer({ sandbox }: { sandbox: SandboxInfo }) {
  const { query } = route.value
  const file = query.get('file')
  const home = useRef('/')
  if (sandbox.cwd) home.current = sandbox.cwd // lists of sandboxes do not say it
  const folder = tidy(query.get('path') ?? (file ? parentOf(tidy(file)) : home.current))
  const uploads = uploadsOf(sandbox)
  const open = (path: string): void => setQuery({ path, file: undefined })
  const mine = drafts.value.filter((d) => d.sandbox === sandbox.id && d.path !== file)
  return (
    <div class="files">
      {mine.length > 0 && (
        <p class="files-drafts" role="status">
          <Icon name="edit" size={16} />
          <span>Not saved yet:</span>
          {mine.map((d) => <Button key={d.path} small kind="quiet" onClick={() => setQuery({ path: parentOf(d.path), file: d.path })}><Name text={nameOf(d.path)} limit={40} /></Button>)}
        </p>
      )}
      {file ? <FileEditor key={tidy(file)} sandbox={sandbox} path={tidy(file)} onClose={() => open(folder)} onDownload={(path, entry) => download(sandbox, path, entry)} /> : <FolderView sandbox={sandbox} path={folder} uploads={uploads} open={open} />}
      <UploadsPanel uploads={uploads} />
    </div>
  )
}

function FolderView({ sandbox, path, uploads, open }: { sandbox: SandboxInfo; path: string; uploads: Uploads; open: (path: string) => void }) {
  const folder = useFolder(sandbox, path)
  const [sort, setSort] = useState<Sort>({ key: 'name', down: false })
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [dropping, setDropping] = useState(false)
  useEffect(() => {
    setText('')
    setChosen(new Set())
  }, [path])
  const picker = useRef<HTMLInputElement>(null)
  const folderPicker = useRef<HTMLInputElement>(null)
  const entries = useMemo(() => sorted(matching(folder.entries, text), sort), [folder.entries, text, sort])
  const folders = useMemo(() => (folder.state === 'ready' ? sorted(folder.entries.filter((e) => e.kind === 'folder'), { key: 'name', down: false }).map((e) => e.name) : undefined), [folder.entries, folder.state])
  const picked = folder.entries.filter((e) => chosen.has(e.name))

  const add = async (sources: readonly Source[]): Promise<void> => {
    if (sources.length === 0) return toast.say('There was nothing to upload.')
    const wanted = await askAboutTaken(sandbox, path, sources)
    if (wanted.length) uploads.add(path, wanted)
  }
  const drop = (event: DragEvent): void => {
    setDropping(false)
    if (!event.dataTransfer?.types.includes('Files')) return
    event.preventDefault()
    fromDrop(event.dataTransfer.items).then(add, (e: unknown) => toast.error(e))
  }
  const pick = (input: HTMLInputElement): void => {
    add(fromInput(input.files ?? [])).catch((e: unknown) => toast.error(e))
    input.value = ''
  }
  /** Errors are shown, and the list is asked for again in any case. */
  const act = (fn: () => Promise<unknown>): Promise<void> =>
    fn().then(
      () => folder.reload(),
      (e: unknown) => {
        toast.error(e)
        folder.reload()
      },
    )
  const edit = (at: string | undefined): void => {
    if (at) setQuery({ path, file: at })
  }
  return (
    <div class={`files-view${dropping ? ' files-dropping' : ''}`} onDrop={drop} onDragLeave={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) setDropping(false) }}
      onDragOver={(e) => { if (e.dataTransfer?.types.includes('Files')) { e.preventDefault(); setDropping(true) } }}>
      <Tree sandbox={sandbox} at={path} here={folders} onGo={open} />
      <div class="files-main">
        <div class="files-bar row">
          <nav class="files-way grow" aria-label="Where we are">
            {wayTo(path).map((at) => <button key={at} type="button" class="files-step" aria-current={at === path ? 'page' : undefined} onClick={() => open(at)}>{at === '/' ? '/' : <Name text={nameOf(at)} limit={30} />}</button>)}
          </nav>
          <span class={`small quiet files-live${folder.live ? ' is-live' : ''}`} role="status">{folder.live ? 'live' : 'not live'}</span>
          <IconButton icon="refresh" label="Look again" onClick={folder.reload} />
        </div>
        <div class="files-bar row">
          <input class="input files-filter" type="search" aria-label="Filter by name" placeholder="Filter" value={text} onInput={(e) => setText(e.currentTarget.value)} />
          <Button small icon="plus" act={() => act(async () => edit(await makeFile(sandbox, path)))}>New file</Button>
          <Button small icon="folder" act={() => act(() => makeFolder(sandbox, path))}>New folder</Button>
          <Button small icon="upload" onClick={() => picker.current?.click()}>Upload files</Button>
          <Button small icon="upload" onClick={() => folderPicker.current?.click()}>Upload a folder</Button>
          <Button small kind="quiet" icon="download" act={() => download(sandbox, path, { kind: 'folder' })}>Download all</Button>
          <input ref={picker} type="file" multiple hidden aria-hidden="true" data-pick="files" onChange={(e) => pick(e.currentTarget)} />
          <input ref={folderPicker} type="file" multiple hidden aria-hidden="true" data-pick="folder" {...{ webkitdirectory: true }} onChange={(e) => pick(e.currentTarget)} />
          {picked.length > 0 && <Button small kind="danger" icon="trash" act={() => act(async () => { if (await removeAll(sandbox, picked.map((entry) => ({ path: join(path, entry.name), entry })))) setChosen(new Set()) })}>Delete {picked.length} chosen</Button>}
        </div>
        {folder.state === 'loading' && <Skeleton lines={8} label="Reading the folder" />}
        {folder.state === 'failed' && <Failure error={folder.error} retry={folder.reload} title="The folder could not be read" />}
        {folder.state === 'ready' && folder.error !== undefined && <Failure error={folder.error} retry={folder.reload} title="This may not be up to date" />}
        {folder.state === 'ready' && entries.length === 0 && (text ? <Empty icon="search" title="Nothing is called that here" /> : <Empty icon="folder" title="This folder is empty" hint="Drop files here to upload them." />)}
        {folder.state === 'ready' && entries.length > 0 && (
          <FileList folder={path} entries={entries} sort={sort} onSort={setSort} chosen={chosen} onChoose={setChosen} actions={{
            open: (at, entry) => (entry.kind === 'folder' ? open(at) : setQuery({ path, file: at })),
            download: (at, entry) => download(sandbox, at, entry),
            rename: (at) => act(() => rename(sandbox, at)),
            moveTo: (at) => act(() => moveTo(sandbox, at)),
            moveInto: (at, to) => act(() => moveInto(sandbox, at, to)),
            remove: (paths) => act(() => removeAll(sandbox, paths)),
          }} />
        )}
      </div>
      {dropping && <div class="files-drop" aria-hidden="true"><p>Drop them here to upload into <Name text={path} limit={60} /></p></div>}
    </div>
  )
}
