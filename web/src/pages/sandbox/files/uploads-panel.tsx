// What is being uploaded, and how far it is.
import { visible } from '../../../lib/safe-text'
import { bytes, count } from '../../../lib/words'
import { Button, Icon, IconButton, inWords } from '../../../ui'
import { Name } from '../name'
import { nameOf } from './paths'
import { isOver, mostWanted, totals, type Upload, type Uploads } from './upload'

const LINES_MAX = 100

export function UploadsPanel({ uploads }: { uploads: Uploads }) {
  const list = uploads.list.value
  if (list.length === 0) return null
  const sum = totals(list)
  const percent = sum.size ? Math.floor((100 * sum.sent) / sum.size) : 100
  const shown = mostWanted(list, LINES_MAX)
  return (
    <section class="uploads card" aria-label="Uploads">
      <header class="row">
        <strong class="grow" role="status">
          {sum.open ? `Uploading ${count(sum.open, 'file')}: ${bytes(sum.sent)} of ${bytes(sum.size)}` : sum.failed ? `${count(sum.failed, 'file')} could not be uploaded` : 'All uploaded'}
        </strong>
        {sum.failed > 1 && <Button small icon="refresh" onClick={() => uploads.retryAll()}>Try all again</Button>}
        {sum.open > 0 ? <Button small onClick={() => uploads.cancelAll()}>Cancel all</Button> : <Button small kind="quiet" onClick={() => uploads.clear()}>Clear</Button>}
      </header>
      {sum.open > 0 && <progress max={100} value={percent} aria-label="All uploads">{percent} %</progress>}
      <ul>
        {shown.map((u) => <Line key={u.id} upload={u} uploads={uploads} />)}
        {list.length > shown.length && <li class="quiet small">and {list.length - shown.length} more</li>}
      </ul>
    </section>
  )
}

function Line({ upload, uploads }: { upload: Upload; uploads: Uploads }) {
  const { state, size, sent, error } = upload
  const word = state === 'failed' ? inWords(error).join(' ') : { waits: 'waits', sends: `${bytes(sent)} of ${bytes(size)}`, done: bytes(size), cancelled: 'cancelled: nothing of it was kept' }[state]
  const percent = size ? Math.floor((100 * sent) / size) : 0
  return (
    <li class="uploads-line" data-state={state} title={visible(upload.path)}>
      {state === 'done' && <Icon name="check" size={16} />}
      {state === 'failed' && <Icon name="warn" size={16} />}
      <span class="grow"><Name text={nameOf(upload.path)} limit={60} /> <span class="quiet small">{word}</span></span>
      {state === 'sends' && <progress max={100} value={percent} aria-label={visible(nameOf(upload.path), 60)}>{percent} %</progress>}
      {!isOver(upload) && <IconButton icon="close" label="Cancel" onClick={() => uploads.cancel(upload.id)} />}
      {(state === 'failed' || state === 'cancelled') && <IconButton icon="refresh" label="Try again" onClick={() => uploads.retry(upload.id)} />}
    </li>
  )
}
