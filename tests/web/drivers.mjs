// How a sandbox is kept apart: what works here is offered where one is made, forked and resumed, and whoever cannot have it
// is told why.
import { api, assert, dropSandbox, flow, signInByKey, signInByLink, tell, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  const token = await signInByKey(page, newWallet())
  const driverOf = async (id) => (await api(token, 'GET', `/api/sandboxes/${id}`)).driver
  await until(async () => (await api(token, 'GET', '/api/capabilities')).drivers.includes('gvisor'), 'gvisor')

  await page.goto('/create')
  const choice = page.getByLabel('How it is kept apart')
  await choice.waitFor()
  assert.deepEqual(await choice.locator('option').allTextContents(), ['chosen by policy', "native: on the host's kernel", 'gvisor: on a kernel of its own, in user space'])
  assert.equal(await choice.inputValue(), '')
  await choice.selectOption('gvisor')
  await page.getByLabel('Name', { exact: true }).fill('apart')
  await page.getByRole('button', { name: 'Create and open a terminal' }).click()
  await page.waitForURL(/\/sandboxes\/[0-9a-f]{16}\/terminals$/)
  const id = page.url().split('/')[4]
  assert.equal(await driverOf(id), 'gvisor')

  const menu = page.getByRole('button', { name: 'What to do with apart' })
  await menu.click()
  await page.getByRole('menuitem', { name: 'Fork' }).click()
  await page.getByRole('dialog').getByLabel('How it is kept apart').selectOption('native')
  await page.getByRole('dialog').getByLabel('Name of the new one').fill('nearer') // and the choice stays
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'nearer' }).waitFor()
  const fork = page.url().split('/')[4]
  assert.equal(await driverOf(fork), 'native')

  await page.getByRole('button', { name: 'Stop', exact: true }).click()
  await until(async () => (await api(token, 'GET', `/api/sandboxes/${fork}`)).state === 'stopped', 'its end')
  await page.getByRole('button', { name: 'What to do with nearer' }).click()
  await page.getByRole('menuitem', { name: 'Resume with another driver' }).click()
  await page.getByRole('dialog').getByRole('button', { name: /^gvisor/ }).click()
  await page.locator('.toast', { hasText: 'nearer runs again' }).waitFor()
  assert.equal(await driverOf(fork), 'gvisor')

  await tell('lose')
  await page.goto('/create')
  await choice.selectOption('gvisor')
  await page.getByRole('button', { name: 'Create and open a terminal' }).click()
  await page.locator('.summary').getByText('is not installed').waitFor()
  await until(async () => !(await api(token, 'GET', '/api/capabilities')).drivers.includes('gvisor'), 'another look')
  const operator = await visitor()
  await signInByLink(operator.page, { operator: true })
  await operator.page.getByRole('link', { name: 'Operator' }).click()
  await operator.page.getByRole('tab', { name: 'Drivers' }).click()
  await operator.page.getByText('does not work here').waitFor()
  await operator.page.getByText('its program is not installed').waitFor()
  await tell('find')
  await dropSandbox(page, fork)
  await dropSandbox(page, id)
})
