// The operator is killed: the page says that it reconnects, goes on by itself, and has what happened meanwhile, once.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tell, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'activity')
  const token = await tokenOf(page)
  const run = (command) => api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })
  const events = page.getByRole('list', { name: 'Events' })
  await run('echo before')
  await events.getByText('echo before').waitFor()
  await page.locator('.activity-bar').evaluate((bar) => {
    window.said = []
    new MutationObserver(() => window.said.push(bar.textContent)).observe(bar, { subtree: true, childList: true, characterData: true })
  })
  await tell('kill_operator')
  await until(() => page.evaluate(() => window.said.some((text) => text.includes('Reconnecting'))), 'the page to say that it reconnects')
  await until(() => run('echo after').then(() => true, () => false), 'the operator')
  await events.getByText('echo after').first().waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.equal(await events.getByText('echo before').count(), 1)
  await dropSandbox(page, id)
})
