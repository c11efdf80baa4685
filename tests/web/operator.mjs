// Every part of the page says something true, and it is for operators alone. Doctor and Verify: operator_papers.mjs.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, signInByLink, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PROFILE = 'profile: 1\nname: one-host\nextends: medium\nnetwork:\n  allow:\n    - {host: known.test}\n'

await flow(async ({ visitor }) => {
  const user = await visitor()
  await signInByKey(user.page, newWallet())
  assert.equal(await user.page.getByRole('link', { name: 'Operator' }).count(), 0)
  await user.page.goto('/operator')
  await user.page.getByText('This page is for operators').waitFor()

  const { page } = await visitor()
  await signInByLink(page, { operator: true })
  const id = await openSandbox(user.page, 'activity', { profile_text: PROFILE })
  const token = await tokenOf(user.page)
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: `curl -sS -m 20 http://${id}.evil.test/` })
  await page.getByRole('link', { name: 'Operator' }).click()
  await page.getByText('ledger: well').waitFor()
  await page.getByText('Promised to sandboxes').waitFor()
  await page.getByText('Load of the last minute').waitFor()
  // the pool as the server tells of it: how many are kept, and of what
  const pool = page.locator('.card', { has: page.getByRole('heading', { name: 'Pool' }) })
  await until(async () => {
    const { size, kinds } = await api(await tokenOf(page), 'GET', '/api/operator/pool')
    const said = await pool.innerText()
    return size > 0 && kinds.length > 0 && said.includes(` ready; ${size} of each kind are kept`) && kinds.every(({ profile }) => said.includes(`${profile}: `))
  }, 'the pool')
  const part = async (name) => {
    await page.getByRole('tab', { name }).click()
    await page.getByRole('tabpanel').locator('.skeleton').waitFor({ state: 'detached' })
  }
  await part('Drivers')
  await page.getByText('native', { exact: true }).waitFor()
  await page.getByText('Snapshots, forks and rollback: yes').waitFor()
  await part('Gate')
  await page.getByRole('table', { name: 'Verdicts by name' }).getByText(`${id}.evil.test`).waitFor()
  await part('Owners')
  const { owner } = await api(token, 'GET', '/api/auth/whoami')
  await page.getByRole('table', { name: 'Owners' }).getByText(owner).waitFor()
  await part('Audit')
  await page.getByLabel('Kinds').fill('net.deny')
  await page.getByLabel('Words').fill(`${id}.evil`)
  await page.getByRole('button', { name: 'Search' }).click()
  await until(async () => page.url().includes('kinds=net.deny'), 'the address of the search')
  const found = page.getByRole('table', { name: 'Events' })
  await found.getByText(`Refused GET ${id}.evil.test:80`).first().click() // somebody else's, found by words
  await page.getByRole('dialog').getByText('"reason": "no-rule"').waitFor()
  await page.keyboard.press('Escape')
  await page.getByLabel('Words').fill('surely-not-there')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByText('Nothing fits').waitFor()
  // with the keys alone
  await page.getByRole('tab', { name: 'Audit' }).focus()
  await page.keyboard.press('ArrowLeft')
  await page.getByRole('table', { name: 'Owners' }).waitFor()
  await dropSandbox(user.page, id)
})
