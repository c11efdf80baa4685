// A session that ends elsewhere, with things open in a sandbox: after signing in again they are as they were. Uploads wait
// for it. Whoever signs out instead is asked about what would be lost, and nobody else finds it.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { injectWallet, newWallet } from './wallets.mjs'
import { pane, ready, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const wallet = newWallet()
  await injectWallet(context, wallet)
  await signInByKey(page, wallet)
  const id = await openSandbox(page, 'policy', { profile: 'medium', allow: ['known.test'] })
  const again = async () => {
    await page.getByRole('dialog', { name: 'Sign in' }).waitFor()
    await page.getByRole('button', { name: 'Test Wallet' }).click()
    await page.getByRole('button', { name: 'Sign with Test Wallet' }).click()
    await page.getByRole('dialog', { name: 'Sign in' }).waitFor({ state: 'detached' })
  }
  const end = async () => api(await tokenOf(page), 'DELETE', '/api/auth/session')

  // a draft of rules
  const reach = page.getByRole('region', { name: 'What it may reach' })
  await reach.getByLabel('Allow another host').fill('kept.test')
  await reach.getByRole('button', { name: 'Add' }).click()
  await reach.getByRole('button', { name: 'Look at the change' }).waitFor()
  await end()
  await again()
  await reach.getByText('kept.test').first().waitFor()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  await reach.getByRole('button', { name: 'Put into force' }).waitFor()

  // a secret that is half typed
  await page.getByRole('tab', { name: 'Secrets' }).click()
  await page.getByRole('button', { name: 'Add a secret' }).click()
  await page.getByLabel('Path', { exact: true }).fill('/tmp/half')
  await page.getByLabel('Value', { exact: true }).fill('half-typed')
  await end()
  await again()
  assert.equal(await page.getByLabel('Path', { exact: true }).inputValue(), '/tmp/half')
  assert.equal(await page.getByLabel('Value', { exact: true }).inputValue(), 'half-typed')
  await page.getByRole('button', { name: 'Cancel' }).click()

  // a terminal
  await page.getByRole('tab', { name: 'Terminals' }).click()
  await ready(page)
  await end()
  await again()
  await until(async () => (await pane(page).getAttribute('data-state')) === 'open', 'the terminal again')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo be""fore', 'before')

  // uploads: none of many fails
  await page.getByRole('tab', { name: 'Files' }).click()
  await page.locator('.files-live.is-live').waitFor()
  let go = () => undefined
  const held = new Promise((resolve) => (go = resolve))
  await page.route(/\/files\?path=/, async (route) => {
    if (route.request().method() === 'PUT') await held
    await route.continue()
  })
  await page.locator('[data-pick=files]').setInputFiles(Array.from({ length: 40 }, (_, i) => ({ name: `up-${i}.txt`, mimeType: 'text/plain', buffer: Buffer.from(`text ${i}`) })))
  await page.getByText('Uploading 40 files').waitFor()
  await end()
  go()
  await again()
  await page.getByText('All uploaded').waitFor()
  assert.equal(await page.locator('.uploads-line[data-state=failed]').count(), 0)

  // signing out with a text that is not saved: asked first; who comes next does not have it
  await page.getByRole('button', { name: 'Clear' }).click()
  await page.getByRole('button', { name: 'New file' }).click()
  await page.getByRole('dialog').getByRole('textbox').fill('draft.txt')
  await page.keyboard.press('Enter')
  await page.locator('.cm-content').click()
  await page.keyboard.type('not saved')
  const out = async () => {
    await page.getByRole('button', { name: /Signed in as/ }).click()
    await page.getByRole('menuitem', { name: /Sign out/ }).click()
  }
  await out()
  await page.getByRole('dialog', { name: 'Sign out?' }).getByText('1 file with changes that are not saved').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  await dropSandbox(page, id)
  await out()
  await page.getByRole('dialog', { name: 'Sign out?' }).getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
  await page.getByRole('button', { name: 'Test Wallet' }).click()
  await page.getByRole('button', { name: 'Sign with Test Wallet' }).click()
  await page.locator('header.header').waitFor()
  assert.equal(await page.getByText('Not saved yet').count(), 0)
})
