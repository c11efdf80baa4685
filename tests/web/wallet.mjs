// A browser wallet signs in: it is found, its text is shown before it signs, a "no" is taken for one, markup is text.
import { assert, flow, tokenOf, url, api } from './harness.mjs'
import { injectWallet, newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const wallet = newWallet()
  const good = await injectWallet(context, wallet)
  const evil = await injectWallet(context, newWallet(), { name: '<img src=x onerror=alert(1)>', icon: 'https://elsewhere.example/track.png' })
  await page.goto('/')
  await page.getByRole('button', { name: '<img src=x onerror=alert(1)>' }).waitFor()
  assert.equal(await page.locator('img[src=x]').count(), 0)

  // a text is shown first; going back signs nothing
  await page.getByRole('button', { name: 'Test Wallet' }).click()
  const text = page.getByLabel('The text to be signed')
  await text.waitFor()
  const shown = await text.textContent()
  assert.ok(shown.includes(`${new URL(url).host} wants you to sign in with your Ethereum account`), shown)
  assert.ok(shown.includes(wallet.address) && shown.includes('Nonce: '), shown)
  await page.getByRole('button', { name: 'Back' }).click()
  await text.waitFor({ state: 'detached' })
  assert.deepEqual(good.asked.map((a) => a.method), ['eth_requestAccounts'])

  // "no" in the wallet
  await page.getByRole('button', { name: 'Test Wallet' }).click()
  await text.waitFor()
  good.refuse = true
  await page.getByRole('button', { name: 'Sign with Test Wallet' }).click()
  await page.getByText('You said no in Test Wallet. Nothing was signed.').waitFor()
  assert.equal(await page.evaluate(() => localStorage.getItem('stockade.session')), null)

  // "yes": what is signed is what was shown
  good.refuse = false
  await page.getByRole('button', { name: 'Test Wallet' }).click()
  await text.waitFor()
  const now = await text.textContent()
  await page.getByRole('button', { name: 'Sign with Test Wallet' }).click()
  await page.getByRole('button', { name: 'New sandbox' }).waitFor()
  const signed = good.asked.findLast((a) => a.method === 'personal_sign').params
  assert.equal(Buffer.from(signed[0].slice(2), 'hex').toString('utf8'), now)
  assert.equal(signed[1].toLowerCase(), wallet.address.toLowerCase())
  assert.equal((await api(await tokenOf(page), 'GET', '/api/auth/whoami')).address.toLowerCase(), wallet.address.toLowerCase())
  assert.deepEqual(evil.asked, [])
})
