// A table of a few dozen rows; longer lists are for VirtualList.
import type { ComponentChildren } from 'preact'

export interface Column<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  /** Numbers stand right. */
  readonly right?: boolean
  /** Left out where there is little room. */
  readonly wide?: boolean
}

export function Table<T>({ columns, rows, rowKey, label, onRow }: { columns: readonly Column<T>[]; rows: readonly T[]; rowKey: (row: T) => string | number; label: string; onRow?: (row: T) => void }) {
  const names = (c: Column<T>): string => `${c.right ? 'right' : ''} ${c.wide ? 'only-wide' : ''}`
  return (
    <div class="table-frame">
      <table class="table" aria-label={label}>
        <thead><tr>{columns.map((c) => <th key={c.title} scope="col" class={names(c)}>{c.title}</th>)}</tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} {...(onRow ? { class: 'row-link', onClick: () => onRow(row) } : {})}>
              {columns.map((c) => <td key={c.title} class={names(c)}>{c.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
