// The colours: every text can be read on every ground that it stands on (WCAG AA), in both themes.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import * as editor from '../pages/sandbox/files/colours'

const css = readFileSync(new URL('tokens.css', import.meta.url), 'utf8')

type Colours = Record<string, string>

function blockAfter(selector: string): Colours {
  const from = css.indexOf(selector)
  expect(from, selector).toBeGreaterThanOrEqual(0)
  const body = css.slice(css.indexOf('{', from) + 1, css.indexOf('}', from))
  return Object.fromEntries([...body.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map((m) => [m[1], m[2]]))
}

function luminance(hex: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (light + 0.05) / (dark + 0.05)
}

const TEXT: readonly (readonly [string, string])[] = [
  ...['bg', 'surface', 'surface-2'].flatMap((ground) => ['text', 'text-quiet', 'accent'].map((text) => [text, ground] as const)),
  ...['good', 'warn', 'deny', 'bad', 'accent'].flatMap((tone) => [[tone, `${tone}-soft`], [tone, 'surface']] as const),
  ['on-accent', 'accent'],
  ['on-accent', 'accent-strong'],
  ['surface', 'bad'],
]
const LINES: readonly (readonly [string, string])[] = [['line-strong', 'surface'], ['line-strong', 'bg'], ['accent', 'bg']]

describe.each([['light', ':root {'], ['dark', ":root[data-theme='dark']"]])('%s', (name, selector) => {
  const colours = blockAfter(selector)
  const of = (name: string): string => colours[name] ?? expect.fail(`there is no --${name}`)

  it.each(TEXT)('%s can be read on %s', (text, ground) => {
    expect(contrast(of(text), of(ground))).toBeGreaterThanOrEqual(4.5)
  })

  it.each(Object.entries(name === 'light' ? editor.LIGHT : editor.DARK))('%s can be read in the editor, also in the line that one is in', (_name, colour) => {
    for (const ground of ['surface', 'accent-soft']) expect(contrast(colour, of(ground))).toBeGreaterThanOrEqual(4.5)
  })

  it.each(LINES)('%s can be seen on %s', (line, ground) => {
    expect(contrast(of(line), of(ground))).toBeGreaterThanOrEqual(3)
  })
})

it('has one dark, however it was chosen', () => {
  expect(blockAfter(":root:not([data-theme='light'])")).toEqual(blockAfter(":root[data-theme='dark']"))
})

/** [selector, opacity] of every rule that has one, in all style sheets. */
function opacities(): [string, string][] {
  const folder = new URL('.', import.meta.url)
  return readdirSync(folder).filter((name) => name.endsWith('.css')).flatMap((name) => {
    const rules = readFileSync(new URL(name, folder), 'utf8').matchAll(/([^{};]+)\{([^{}]*)\}/g)
    return [...rules].flatMap(([, selector = '', body = '']) => [...body.matchAll(/(?<![\w-])opacity:\s*([\d.]+)/g)].map((m): [string, string] => [selector.trim(), m[1] ?? '']))
  })
}

it('makes no text paler than its colour, but what cannot be used', () => {
  const found = opacities()
  expect(found.length).toBeGreaterThan(0)
  expect(found.filter(([selector, value]) => value !== '0' && value !== '1' && !/:disabled/.test(selector))).toEqual([])
})
