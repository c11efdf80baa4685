// How much JavaScript is shipped, as browsers get it (gzip): in all, and before the first page is painted. Ends with 1 if
// that is more than promised.   node scripts/size.mjs [dist]
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const ALL = 350 * 1024
const FIRST = 120 * 1024

const dist = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '../dist')
const scripts = readdirSync(join(dist, 'assets')).filter((name) => name.endsWith('.js'))
const text = new Map(scripts.map((name) => [name, readFileSync(join(dist, 'assets', name), 'utf8')]))
const size = new Map(scripts.map((name) => [name, gzipSync(text.get(name), { level: 9 }).length]))

/** What a script imports before it runs. */
const needs = (name) => [...text.get(name).matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)].map((found) => found[1])

const page = readFileSync(join(dist, 'index.html'), 'utf8')
const first = new Set()
const queue = [...page.matchAll(/(?:src|href)="\/?(assets\/[^"]+\.js)"/g)].map((found) => posix.basename(found[1]))
if (!queue.length) throw new Error('index.html names no script')
for (const name of queue) {
  if (first.has(name)) continue
  first.add(name)
  queue.push(...needs(name))
}

const sum = (names) => [...names].reduce((all, name) => all + size.get(name), 0)
const kib = (n) => `${(n / 1024).toFixed(1)} KiB`
for (const name of [...scripts].sort((a, b) => size.get(b) - size.get(a))) console.log(`${kib(size.get(name)).padStart(10)}  ${name}${first.has(name) ? '  (first paint)' : ''}`)
const [all, before] = [sum(scripts), sum(first)]
console.log(`first paint ${kib(before)} of ${kib(FIRST)}, in all ${kib(all)} of ${kib(ALL)}`)
process.exit(all > ALL || before > FIRST ? 1 : 0)
