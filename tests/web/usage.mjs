// Plots that grow while something computes, against what the policy allows; what is not measured says so.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'usage')
  const token = await tokenOf(page)
  const { run } = await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: 'while :; do :; done', background: true })
  const processors = page.getByRole('img', { name: /^Processors: in use/ })
  await processors.locator('canvas').waitFor()
  /** Of one processor, as the plot says it. */
  const busy = async () => {
    const [, value, unit] = /in use ([\d.]+) (%|cpu)/.exec((await processors.getAttribute('aria-label')) ?? '') ?? []
    return unit === '%' ? Number(value) / 100 : Number(value)
  }
  await until(async () => (await busy()) > 0.2, 'a processor that computes')
  await page.getByRole('img', { name: /^Memory: in use \d/ }).waitFor()
  // the disk and the network, or a word where this host measures none
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: 'head -c 20000000 /dev/urandom > some; sync' })
  for (const [title, label, keys] of [['Disk, read and written', /^Disk, read and written: read [\d.]+ .+\/s, written [\d.]+ .+\/s$/, ['io_read', 'io_write']], ['Network', /^Network: in [\d.]+ .+\/s, out [\d.]+ .+\/s$/, ['net_in', 'net_out']]]) {
    const { samples } = await until(async () => {
      const found = await api(token, 'GET', `/api/sandboxes/${id}/usage/history`)
      return found.samples.length > 1 && found
    }, 'measurements')
    const figure = page.locator('figure', { hasText: title })
    if (keys.every((key) => samples.every((s) => s[key] === null))) await figure.getByText('Not measured on this host.').waitFor()
    else await page.getByRole('img', { name: label }).locator('canvas').waitFor()
  }
  await page.getByText('Processor time', { exact: true }).waitFor()
  await until(async () => Number(await page.getByRole('meter', { name: 'Processor time' }).evaluate((m) => m.value)) > 0, 'the budget that goes down')
  await page.getByText(/ of 2 h$/).waitFor() // its budget, from the policy
  await page.getByRole('img', { name: /^Budget of processor time: used \d/ }).locator('canvas').waitFor()
  await api(token, 'POST', `/api/sandboxes/${id}/runs/${run}/cancel`, {})
  await until(async () => (await busy()) < 0.05, 'a processor that rests')

  await api(token, 'POST', `/api/sandboxes/${id}/stop`, {})
  await page.getByText('It does not run').waitFor()
  await dropSandbox(page, id)
})
