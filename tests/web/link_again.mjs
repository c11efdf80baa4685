// A one-time link that is opened by somebody who is signed in: it is out of the address bar at once, and changes nothing
// unless they want it.
import { api, assert, flow, signInByKey, tell, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  const before = await signInByKey(page, newWallet())
  const question = page.getByRole('dialog', { name: /Sign in anew/ })

  await page.goto(await tell('link'))
  await question.waitFor()
  assert.ok(!page.url().includes('link='), page.url())
  await question.getByRole('button', { name: 'Cancel' }).click()
  await question.waitFor({ state: 'detached' })
  assert.equal(await tokenOf(page), before)

  // in the page that is there already
  const link = await tell('link')
  await page.evaluate((hash) => (location.hash = hash), new URL(link).hash)
  await question.waitFor()
  assert.ok(!page.url().includes('link='), page.url())
  await question.getByRole('button', { name: 'Use the link' }).click()
  await until(async () => (await tokenOf(page)) !== before, 'the other session')
  await page.locator('header.header').waitFor()
  const { owner } = await api(await tokenOf(page), 'GET', '/api/auth/whoami')
  assert.equal(await page.evaluate(() => JSON.parse(localStorage.getItem('stockade.session')).owner), owner)
  await until(async () => (await fetch(`${url}/api/auth/whoami`, { headers: { Authorization: `Bearer ${before}` } })).status === 401, 'the end of the session that there was')
})
