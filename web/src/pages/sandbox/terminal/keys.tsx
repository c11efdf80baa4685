// Keys that a phone's keyboard does not have; only shown where fingers point.
const KEYS: readonly (readonly [label: string, title: string, data: string])[] = [
  ['Esc', 'Escape', '\u001b'],
  ['Tab', 'Tab', '\t'],
  ['^C', 'Interrupt', '\u0003'],
  ['^D', 'End of input', '\u0004'],
  ['↑', 'Up', '\u001b[A'],
  ['↓', 'Down', '\u001b[B'],
  ['←', 'Left', '\u001b[D'],
  ['→', 'Right', '\u001b[C'],
]

export function Keys({ send, focus }: { send: (data: string) => void; focus: () => void }) {
  const press = (data: string): void => {
    send(data)
    focus()
  }
  return (
    <div class="term-keys" role="toolbar" aria-label="Keys">
      {KEYS.map(([label, title, data]) => (
        <button key={label} type="button" class="button button-quiet" aria-label={title} onPointerDown={(e) => e.preventDefault()} onClick={() => press(data)}>{label}</button>
      ))}
    </div>
  )
}
