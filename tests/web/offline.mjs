// The network is gone and nobody closes a connection: the page says so, a terminal says that what is typed is not sent, and
// both come back. Signing out is done here at once, and what the server does not know yet is said.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, rows, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const token = await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals')
  await ready(page)
  await run(page, 'echo be""fore', 'before')
  await context.setOffline(true)
  await page.locator('.connection').waitFor()
  await until(async () => (await pane(page).getAttribute('data-state')) === 'away', 'the terminal to be away')
  await page.keyboard.type('x')
  await page.getByText('Not connected: what you type is not sent.').waitFor()
  await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: 'meanwhile' })
  await context.setOffline(false)
  await page.locator('.connection').waitFor({ state: 'detached' })
  await toastWith(page, 'happened meanwhile').waitFor()
  await until(async () => (await pane(page).getAttribute('data-state')) === 'open', 'the terminal again')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo af""ter', 'after')
  assert.ok(!(await rows(page)).includes('xecho'), 'what was typed while it was away is nowhere')
  await dropSandbox(page, id)
  for (const { id: left } of (await api(token, 'GET', '/api/sandboxes')).sandboxes) await api(token, 'DELETE', `/api/sandboxes/${left}?force=true`)

  await page.goto('/')
  await page.getByText('Run something that you do not trust').waitFor()
  const mine = await tokenOf(page)
  await context.setOffline(true)
  await page.getByRole('button', { name: /Signed in as/ }).click()
  await page.getByRole('menuitem', { name: /Sign out/ }).click()
  await toastWith(page, 'there the session ends by itself at').waitFor()
  await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
  await context.setOffline(false)
  await until(async () => (await fetch(`${url}/api/auth/whoami`, { headers: { Authorization: `Bearer ${mine}` } })).status === 401, 'the end at the server')
})
