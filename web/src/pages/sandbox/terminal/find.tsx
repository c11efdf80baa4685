// A line to search in what a terminal has shown.
import { useEffect, useRef, useState } from 'preact/hooks'
import { IconButton } from '../../../ui'

interface FindProps {
  found: { index: number; count: number }
  onFind: (text: string, direction: 'next' | 'previous', typed: boolean) => void
  onClose: () => void
}

export function Find({ found, onFind, onClose }: FindProps) {
  const [text, setText] = useState('')
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => input.current?.focus(), [])
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') onClose()
    else if (event.key === 'Enter') onFind(text, event.shiftKey ? 'previous' : 'next', false)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  const change = (value: string): void => {
    setText(value)
    onFind(value, 'next', true)
  }
  return (
    <div class="term-find" role="search" onKeyDown={onKeyDown}>
      <input ref={input} class="input" type="search" aria-label="Search in this terminal" placeholder="Search" value={text} onInput={(e) => change(e.currentTarget.value)} />
      <span class="quiet small" role="status">{text === '' ? '' : found.count === 0 ? 'nothing' : found.index < 0 ? `${found.count}+` : `${found.index + 1} of ${found.count}`}</span>
      <IconButton icon="back" label="Previous" onClick={() => onFind(text, 'previous', false)} />
      <IconButton icon="right" label="Next" onClick={() => onFind(text, 'next', false)} />
      <IconButton icon="close" label="Close search" onClick={onClose} />
    </div>
  )
}
