// Two texts line by line: what to leave out and what to put in. Myers' algorithm, with an end to its work: texts that
// differ too much are told as "all of it went, all of this came".

export interface DiffLine {
  kind: 'same' | 'gone' | 'new'
  text: string
  /** Numbers of the line before and after, from 1; 0 where there is none. */
  before: number
  after: number
}

export interface LineDiff {
  lines: DiffLine[]
  /** They differ so much that nobody looked for what they have in common. */
  coarse: boolean
}

const EDITS_MAX = 2000
const STEPS_MAX = 20_000_000 // lines that are compared: few edits in many lines that are alike take as many as one likes

export function splitLines(text: string): string[] {
  if (text === '') return []
  const lines = text.split('\n')
  if (lines[lines.length - 1] === '') lines.pop()
  return lines
}

/** Numbers in place of lines, so that to compare two of them is one step, however long they are. */
function numbered(...texts: string[][]): Int32Array[] {
  const known = new Map<string, number>()
  const of = (line: string): number => {
    const number = known.get(line) ?? known.size
    known.set(line, number)
    return number
  }
  return texts.map((lines) => Int32Array.from(lines, of))
}

/** For each line of a and b whether it stays; null if that takes more edits or steps than allowed. */
function common(a: Int32Array, b: Int32Array, editsMax: number, stepsMax: number): [number, number][] | null {
  const max = Math.min(a.length + b.length, editsMax)
  const trail: Int32Array[] = []
  let steps = 0
  let best = new Int32Array(2 * max + 3)
  const at = (k: number): number => k + max + 1
  for (let d = 0; d <= max; d++) {
    trail.push(best.slice())
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (best[at(k - 1)] ?? 0) < (best[at(k + 1)] ?? 0))
      let x = down ? (best[at(k + 1)] ?? 0) : (best[at(k - 1)] ?? 0) + 1
      let y = x - k
      const from = x
      while (x < a.length && y < b.length && a[x] === b[y]) x++, y++
      steps += x - from + 1
      if (steps > stepsMax) return null
      best[at(k)] = x
      if (x >= a.length && y >= b.length) return walkBack(a.length, b.length, trail, at)
    }
    best = best.slice()
  }
  return null
}

function walkBack(x: number, y: number, trail: Int32Array[], at: (k: number) => number): [number, number][] {
  const pairs: [number, number][] = []
  for (let d = trail.length - 1; d >= 0; d--) {
    const best = trail[d]!
    const k = x - y
    const down = k === -d || (k !== d && (best[at(k - 1)] ?? 0) < (best[at(k + 1)] ?? 0))
    const from = down ? k + 1 : k - 1
    const startX = d === 0 ? 0 : (best[at(from)] ?? 0)
    const startY = d === 0 ? 0 : startX - from
    while (x > startX && y > startY && (d > 0 ? x > (down ? startX : startX + 1) : true)) pairs.push([--x, --y])
    x = startX
    y = startY
  }
  return pairs.reverse()
}

export function lineDiff(before: string, after: string, editsMax = EDITS_MAX, stepsMax = STEPS_MAX): LineDiff {
  const a = splitLines(before)
  const b = splitLines(after)
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head++
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++
  const [was, is] = numbered(a.slice(head, a.length - tail), b.slice(head, b.length - tail)) as [Int32Array, Int32Array]
  const found = common(was, is, editsMax, stepsMax)
  const pairs: [number, number][] = []
  for (let i = 0; i < head; i++) pairs.push([i, i])
  for (const [x, y] of found ?? []) pairs.push([x + head, y + head])
  for (let i = tail; i > 0; i--) pairs.push([a.length - i, b.length - i])
  pairs.push([a.length, b.length])
  const lines: DiffLine[] = []
  let x = 0
  let y = 0
  for (const [px, py] of pairs) {
    while (x < px) lines.push({ kind: 'gone', text: a[x]!, before: ++x, after: 0 })
    while (y < py) lines.push({ kind: 'new', text: b[y]!, before: 0, after: ++y })
    if (x < a.length && y < b.length) lines.push({ kind: 'same', text: a[x]!, before: ++x, after: ++y })
  }
  return { lines, coarse: found === null }
}

/** Only what differs, with some lines around it; a number stands for so many lines that are the same. */
export function hunks(lines: DiffLine[], around = 3): (DiffLine | number)[] {
  const keep = new Uint8Array(lines.length)
  lines.forEach((line, i) => {
    if (line.kind === 'same') return
    for (let j = Math.max(0, i - around); j <= Math.min(lines.length - 1, i + around); j++) keep[j] = 1
  })
  const shown: (DiffLine | number)[] = []
  let left = 0
  lines.forEach((line, i) => {
    if (keep[i]) {
      if (left) shown.push(left)
      left = 0
      shown.push(line)
    } else left++
  })
  if (left) shown.push(left)
  return shown
}
