// Words for flows with terminals.
import { until } from './harness.mjs'

/** Terminals that can be seen, or one of them. */
export function pane(page, index) {
  const all = page.locator('.term-tab-panel:not([hidden]) .term-pane')
  return index === undefined ? all.first() : all.nth(index)
}

/** What it shows. */
export async function rows(page, index = 0) {
  return (await pane(page, index).locator('.xterm-rows > div').allTextContents()).join('\n')
}

/** It is connected, and its shell waits. */
export async function ready(page, index = 0) {
  const at = pane(page, index)
  await at.waitFor()
  await until(async () => (await at.getAttribute('data-state')) === 'open', 'a terminal')
  await until(async () => /[$#]/.test(await rows(page, index)), 'its prompt')
}

/** Types a line and waits for what it prints. */
export async function run(page, line, answer, wait = true, index = 0) {
  await page.keyboard.type(`${line}\n`)
  if (wait) await until(async () => (await rows(page, index)).includes(answer), `'${answer}' after '${line}'`)
}
