// Creation: what it may do is said before it is made, changes are checked by the server as they are typed, and what is made
// is what was said.
import { api, assert, dropSandbox, flow, signInByKey, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  const token = await signInByKey(page, newWallet())
  await page.getByRole('link', { name: 'Choose first what it may do' }).click()
  const said = page.locator('.summary-text')
  await said.getByText('It reaches nothing').waitFor()
  await said.getByText('2 GiB of memory').waitFor()

  await page.getByRole('radio', { name: /^low/ }).check()
  await said.getByText('2 GiB of memory').waitFor({ state: 'detached' })
  await page.getByRole('radio', { name: /^medium/ }).check()
  await said.getByText('2 GiB of memory').waitFor()

  await page.getByLabel('Hosts that it may reach').fill('packages.example.org')
  await said.getByText('packages.example.org').waitFor()
  await page.getByLabel('Hosts that it may reach').fill('not a host!')
  await page.locator('.field-error').first().waitFor()
  const button = page.getByRole('button', { name: 'Create and open a terminal' })
  assert.equal(await button.isDisabled(), true)
  await page.getByLabel('Hosts that it may reach').fill('packages.example.org')
  await until(async () => button.isEnabled(), 'the button')

  await page.getByText('Limits', { exact: true }).first().click()
  await page.getByLabel('Memory', { exact: true }).fill('9999TiB')
  await page.locator('.field-wrong').getByText('9999').or(page.locator('.field-wrong .field-error')).first().waitFor()
  await page.getByLabel('Memory', { exact: true }).fill('512MiB')
  await said.getByText('512 MiB of memory').waitFor()
  await page.getByLabel('Name', { exact: true }).fill('with-less')
  await button.click()
  await page.waitForURL(/\/sandboxes\/[0-9a-f]{16}\/terminals$/)
  const id = page.url().split('/')[4]
  const policy = JSON.stringify(await api(token, 'GET', `/api/sandboxes/${id}/policy`))
  assert.ok(policy.includes('512MiB') && policy.includes('packages.example.org'), policy)
  assert.equal((await api(token, 'GET', `/api/sandboxes/${id}`)).name, 'with-less')

  // fork and snapshot, from the page
  await page.getByRole('button', { name: 'What to do with with-less' }).click()
  await page.getByRole('menuitem', { name: 'Snapshot' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('kept')
  await page.keyboard.press('Enter')
  await page.locator('.toast', { hasText: 'Snapshot kept of with-less is made' }).waitFor()
  assert.deepEqual((await api(token, 'GET', '/api/snapshots')).snapshots.map((s) => s.name), ['kept'])
  await page.getByRole('button', { name: 'What to do with with-less' }).click()
  await page.getByRole('menuitem', { name: 'Fork' }).click()
  await page.getByRole('dialog').getByLabel('Name of the new one').fill('a fork')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').getByRole('alert').waitFor() // a name that cannot be
  await page.getByRole('dialog').getByLabel('Name of the new one').fill('a-fork')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'a-fork' }).waitFor()
  const fork = page.url().split('/')[4]
  assert.notEqual(fork, id)
  await dropSandbox(page, fork)
  await dropSandbox(page, id)
  for (const s of (await api(token, 'GET', '/api/snapshots')).snapshots) await api(token, 'DELETE', `/api/snapshots/${s.id}`)
})
