// One file, open: text in an editor, everything else shown for what it is.
import '../../../style/editor.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Entry, SandboxInfo } from 'stockade-client'
import { visible } from '../../../lib/safe-text'
import { client } from '../../../lib/session'
import { dark } from '../../../lib/theme'
import { bytes } from '../../../lib/words'
import { Ago, ask, Badge, Button, Dialog, Failure, Icon, Skeleton, toast, useLoad } from '../../../ui'
import { Name } from '../name'
import type { Editor as CodeEditor } from './codemirror'
import { hexDump, languageOf, type TextContent } from './content'
import { DiskDiff, SnapshotDiff } from './diff'
import { draftOf, dropDraft, keepDraft, openFile, saveFile, type Opened } from './document'
import { sameFile } from './entries'
import { follow } from './folder'
import { nameOf, parentOf } from './paths'
import { statOf } from './actions'

interface EditorProps {
  sandbox: SandboxInfo
  path: string
  onClose: () => void
  onDownload: (path: string, entry: Entry) => unknown
}

export function FileEditor({ sandbox, path, onClose, onDownload }: EditorProps) {
  const store = client().sandboxes.of(sandbox).files
  const file = useLoad(() => openFile(store, path), [sandbox.id, path])
  return (
    <section class="editor" aria-label={`File ${visible(nameOf(path), 80)}`}>
      {file.state === 'loading' && <Skeleton lines={10} label="Opening the file" />}
      {file.state === 'failed' && <><Failure error={file.error} retry={file.reload} title="The file could not be opened" /><Button onClick={onClose}>Back to the folder</Button></>}
      {file.state === 'ready' && file.value.kind === 'text' && <TextEditor key={path} {...{ sandbox, path, onClose, onDownload }} opened={file.value} />}
      {file.state === 'ready' && file.value.kind !== 'text' && <Other {...{ path, onClose, onDownload }} opened={file.value} />}
    </section>
  )
}

/** Not text, or too much of it. */
function Other({ path, opened, onClose, onDownload }: Omit<EditorProps, 'sandbox'> & { opened: Exclude<Opened, { kind: 'text' }> }) {
  const { base } = opened
  return (
    <>
      <Bar path={path} base={base} onClose={onClose}>
        {opened.kind !== 'special' && <Button small icon="download" act={() => onDownload(path, base)}>Download</Button>}
      </Bar>
      {opened.kind === 'special' && <p class="editor-note">{base.kind === 'link' ? <>This is a link to <code><Name text={base.target ?? ''} /></code>. Open what it leads to by its own path.</> : `This is a ${base.kind}: there is nothing to read in it.`}</p>}
      {opened.kind === 'bytes' && <><p class="editor-note">It is not opened for editing. {opened.why} Here is its beginning:</p><pre class="editor-hex">{hexDump(opened.start)}</pre></>}
      {opened.kind === 'large' && <><p class="editor-note">It is too large to be edited in a page ({bytes(base.size)}). This is only its beginning; download it to have all of it.</p><pre class="editor-hex">{opened.start !== undefined ? visibleLines(opened.start) : hexDump(opened.bytes)}</pre></>}
    </>
  )
}

function visibleLines(text: string): string {
  return text.split('\n').slice(0, 1000).map((line) => visible(line.replaceAll('\t', '    '), 1000).replaceAll('‹␠›', ' ')).join('\n')
}

function Bar({ path, base, onClose, children }: { path: string; base: Entry | undefined; onClose: () => void; children?: preact.ComponentChildren }) {
  return (
    <header class="editor-bar row">
      <Button small kind="quiet" icon="back" onClick={onClose}>Back</Button>
      <strong class="grow break"><Name text={nameOf(path)} limit={80} /></strong>
      {base && <span class="quiet small only-wide">{bytes(base.size)}, changed <Ago ms={base.mtime_ms} /></span>}
      {children}
    </header>
  )
}

function TextEditor({ sandbox, path, opened, onClose, onDownload }: EditorProps & { opened: Extract<Opened, { kind: 'text' }> }) {
  const kept = draftOf(sandbox.id, path)
  const place = useRef<HTMLDivElement>(null)
  const editor = useRef<CodeEditor>()
  const text = useRef(kept?.text ?? opened.content.text)
  const [base, setBase] = useState<Entry>(kept?.base ?? opened.base)
  const content = useRef<TextContent>(kept?.content ?? opened.content)
  const [dirty, setDirty] = useState(kept !== undefined)
  const [stale, setStale] = useState(kept !== undefined && !sameFile(kept.base, opened.base))
  const [conflict, setConflict] = useState<{ now: Entry | undefined } | null>(null)
  const [compare, setCompare] = useState<'disk' | 'snapshot' | null>(null)
  const [onDisk, setOnDisk] = useState('')
  const [failed, setFailed] = useState<unknown>()
  const store = () => client().sandboxes.of(sandbox).files
  const saving = useRef(false)
  const gone = useRef(false)
  const baseNow = useRef(base)
  baseNow.current = base

  const save = async (force = false): Promise<void> => {
    if (saving.current) return
    saving.current = true
    const sent = text.current
    try {
      const found = await saveFile(store(), path, baseNow.current, { ...content.current, text: sent }, force)
      if (found.kind === 'conflict') return setConflict({ now: found.now })
      setBase(found.base)
      baseNow.current = found.base
      content.current = { ...content.current, text: sent }
      setStale(false)
      setConflict(null)
      if (text.current === sent) {
        dropDraft(sandbox.id, path)
        setDirty(false)
      } else keep()
      toast.say('Saved.')
    } finally {
      saving.current = false
    }
  }
  const saveHere = useRef(save)
  saveHere.current = save
  const keep = (): void => keepDraft({ sandbox: sandbox.id, path, text: text.current, base: baseNow.current, content: content.current })
  const changed = (now: string): void => {
    text.current = now
    const differs = now !== content.current.text
    setDirty(differs)
    if (differs) keep()
    else dropDraft(sandbox.id, path)
  }
  /** Takes what is on the disk now. Unasked, nothing that was typed or saved while it was read is given up for it. */
  const reload = async (asked = true): Promise<void> => {
    const [typed, known] = [text.current, baseNow.current]
    const now = await openFile(store(), path)
    if (!asked && (gone.current || baseNow.current !== known)) return // closed, or saved: that is looked at by itself
    if (!asked && (saving.current || text.current !== typed)) return setStale(true)
    if (now.kind !== 'text') throw new Error('It is no text any more')
    content.current = now.content
    setBase(now.base)
    baseNow.current = now.base
    setStale(false)
    setConflict(null)
    editor.current?.replace(now.content.text)
    text.current = now.content.text
    setDirty(false)
    dropDraft(sandbox.id, path)
  }
  const discard = async (): Promise<void> => {
    if (await ask({ title: 'Give up your changes?', text: 'What you typed since the file was read is gone then.', yes: 'Give them up', danger: true })) await reload()
  }
  const compareDisk = async (): Promise<void> => {
    const now = await openFile(store(), path)
    setOnDisk(now.kind === 'text' ? now.content.text : '')
    setCompare('disk')
  }

  useEffect(() => {
    import('./codemirror').then(
      ({ Editor }) => {
        if (gone.current || !place.current) return
        editor.current = new Editor(place.current, {
          text: text.current, language: languageOf(nameOf(path), text.current), readOnly: false, dark: dark.peek(), label: `Text of ${visible(nameOf(path), 80)}`,
          onChange: changed, onSave: () => void saveHere.current().catch((e: unknown) => toast.error(e)),
        })
        editor.current.focus()
      },
      (e: unknown) => setFailed(e),
    )
    return () => {
      gone.current = true
      editor.current?.destroy()
    }
  }, [])
  useEffect(() => {
    if (editor.current) editor.current.dark = dark.value
  }, [dark.value])

  // somebody else may write it while it is open
  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async (): Promise<void> => {
      timer = undefined
      if (saving.current) return
      const now = await statOf(sandbox, path).catch(() => baseNow.current)
      if (stop.signal.aborted || saving.current || (now && sameFile(now, baseNow.current))) return
      if (now && text.current === content.current.text) await reload(false).catch(() => setStale(true))
      else setStale(true)
    }
    void follow(sandbox, parentOf(path), stop.signal, () => (timer ??= setTimeout(() => void look(), 1000)))
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [])

  if (failed !== undefined) return <Failure error={failed} title="The editor could not be loaded" />
  return (
    <>
      <Bar path={path} base={base} onClose={onClose}>
        {dirty && <Badge tone="warn">not saved</Badge>}
        <Button small kind="quiet" icon="camera" onClick={() => setCompare('snapshot')}>Compare</Button>
        <Button small kind="quiet" icon="download" act={() => onDownload(path, base)}>Download</Button>
        {dirty && <Button small kind="quiet" act={discard}>Give up changes</Button>}
        <Button small kind="primary" disabled={!dirty} act={() => save()} title="Ctrl+S">Save</Button>
      </Bar>
      {stale && (
        <p class="editor-stale" role="status">
          <Icon name="warn" size={16} />
          <span class="grow">Somebody has changed this file since you opened it.</span>
          <Button small act={compareDisk}>Compare</Button>
          <Button small act={dirty ? discard : reload}>Load theirs</Button>
        </p>
      )}
      <div class="editor-place" ref={place} />
      {conflict && (
        <Dialog title={conflict.now ? 'Somebody else has changed this file' : 'This file is not there any more'} onClose={() => setConflict(null)} foot={<>
          <Button onClick={() => setConflict(null)}>Go on editing</Button>
          {conflict.now && <Button act={compareDisk}>Compare</Button>}
          {conflict.now && <Button act={reload}>Load theirs, give up mine</Button>}
          <Button kind="danger" act={() => save(true)}>{conflict.now ? 'Overwrite theirs' : 'Save it anew'}</Button>
        </>}>
          <p>{conflict.now ? 'Nothing was saved. What is on the disk is not what you began with.' : 'It was deleted or moved while you edited it. Nothing was saved.'}</p>
        </Dialog>
      )}
      {compare === 'disk' && <DiskDiff before={onDisk} after={text.current} onClose={() => setCompare(null)} />}
      {compare === 'snapshot' && <SnapshotDiff sandbox={sandbox} path={path} text={text.current} onClose={() => setCompare(null)} />}
    </>
  )
}
