// A session that ends elsewhere: the page asks to sign in again, and what was typed is still there afterwards.
import { api, assert, flow, tokenOf } from './harness.mjs'
import { injectWallet, newWallet } from './wallets.mjs'
import { signInByKey } from './harness.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const wallet = newWallet()
  await injectWallet(context, wallet)
  const token = await signInByKey(page, wallet)
  await page.goto('/create')
  await page.getByLabel('Name', { exact: true }).fill('half-typed')
  await api(token, 'DELETE', '/api/auth/session')
  await page.getByRole('dialog', { name: 'Sign in' }).waitFor()
  await page.getByRole('button', { name: 'Test Wallet' }).click()
  await page.getByRole('button', { name: 'Sign with Test Wallet' }).click()
  await page.getByRole('dialog', { name: 'Sign in' }).waitFor({ state: 'detached' })
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'half-typed')
  assert.notEqual(await tokenOf(page), token)
})
