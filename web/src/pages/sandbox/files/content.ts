// What bytes are: text that can be edited, or something else that is only shown for what it is.

export const EDIT_MAX = 2 << 20 // an editor in a page is no place for more
export const PEEK = 64 << 10 // of a file that is too large

export interface TextContent {
  kind: 'text'
  text: string
  /** How lines end; it is kept when saving. */
  lineEnd: '\n' | '\r\n'
  /** It begins with the mark that some editors put there; kept, too. */
  bom: boolean
}

export interface BinaryContent {
  kind: 'binary'
  why: string
}

/** UTF-8 without zero bytes is text; anything that would not be written back as it was is none. */
export function contentOf(bytes: Uint8Array): TextContent | BinaryContent {
  if (bytes.includes(0)) return { kind: 'binary', why: 'It has zero bytes in it, as programs and pictures do.' }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return { kind: 'binary', why: 'It is not UTF-8 text. An editor here would change bytes that you did not touch.' }
  }
  const bom = text.startsWith('\ufeff')
  if (bom) text = text.slice(1)
  const ends = text.match(/\r\n|\r|\n/g) ?? []
  const dos = ends.filter((e) => e === '\r\n').length
  if (ends.some((e) => e === '\r') || (dos > 0 && dos < ends.length)) return { kind: 'binary', why: 'Its lines end in different ways. An editor here would make them all the same.' }
  return { kind: 'text', text: dos ? text.replaceAll('\r\n', '\n') : text, lineEnd: dos ? '\r\n' : '\n', bom }
}

export function bytesOf(content: Omit<TextContent, 'kind'>): Uint8Array {
  const text = content.lineEnd === '\n' ? content.text : content.text.replaceAll('\n', content.lineEnd)
  return new TextEncoder().encode((content.bom ? '\ufeff' : '') + text)
}

/** The beginning of a file, as programmers look at it. */
export function hexDump(bytes: Uint8Array, most = 512): string {
  const lines: string[] = []
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, most))
    const hex = Array.from(row, (b) => b.toString(16).padStart(2, '0')).join(' ')
    const text = Array.from(row, (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : '·')).join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`)
  }
  return lines.join('\n')
}

export type Language =
  | 'c' | 'cpp' | 'java' | 'csharp' | 'kotlin' | 'go' | 'rust' | 'python' | 'javascript' | 'typescript' | 'json' | 'shell' | 'yaml' | 'toml'
  | 'css' | 'html' | 'xml' | 'diff' | 'dockerfile' | 'properties' | 'lua' | 'ruby'

const BY_ENDING: Record<string, Language> = {
  c: 'c', h: 'c', cc: 'cpp', cpp: 'cpp', cxx: 'cpp', hpp: 'cpp', java: 'java', cs: 'csharp', kt: 'kotlin', go: 'go', rs: 'rust', py: 'python', pyi: 'python',
  js: 'javascript', mjs: 'javascript', cjs: 'javascript', jsx: 'javascript', ts: 'typescript', tsx: 'typescript', mts: 'typescript', json: 'json', jsonl: 'json',
  sh: 'shell', bash: 'shell', zsh: 'shell', yaml: 'yaml', yml: 'yaml', toml: 'toml', css: 'css', html: 'html', htm: 'html', xml: 'xml', svg: 'xml',
  diff: 'diff', patch: 'diff', ini: 'properties', conf: 'properties', cfg: 'properties', env: 'properties', properties: 'properties',
  lua: 'lua', rb: 'ruby',
}

const BY_NAME: Record<string, Language> = {
  dockerfile: 'dockerfile', containerfile: 'dockerfile', '.bashrc': 'shell', '.profile': 'shell', '.bash_profile': 'shell', '.zshrc': 'shell', '.env': 'properties', gemfile: 'ruby', rakefile: 'ruby', 'meson.build': 'python',
}

const BY_FIRST_LINE: [RegExp, Language][] = [
  [/^#!.*\b(ba|da|z|k)?sh\b/, 'shell'], [/^#!.*\bpython/, 'python'], [/^#!.*\bnode\b/, 'javascript'], [/^#!.*\bruby\b/, 'ruby'], [/^<\?xml/, 'xml'], [/^<!doctype html/i, 'html'],
]

/** By its name, or else by its first line. */
export function languageOf(name: string, text = ''): Language | undefined {
  const small = name.toLowerCase()
  if (Object.hasOwn(BY_NAME, small)) return BY_NAME[small]
  const dot = small.lastIndexOf('.')
  const ending = dot >= 0 ? small.slice(dot + 1) : ''
  if (Object.hasOwn(BY_ENDING, ending)) return BY_ENDING[ending]
  const first = text.slice(0, 200).split('\n', 1)[0] ?? ''
  return BY_FIRST_LINE.find(([pattern]) => pattern.test(first))?.[1]
}
