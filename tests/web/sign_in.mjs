// Signing in by the link that `stockade up` prints, first sandbox by one click, signing out of all tabs at once.
import { assert, dropSandbox, flow, tell, tokenOf, until } from './harness.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const link = await tell('link')
  await page.goto(link)
  await page.getByRole('button', { name: 'New sandbox' }).waitFor()
  assert.ok(!page.url().includes('#link='), 'the code is out of the address bar')
  assert.equal(await page.evaluate(() => history.length <= 2), true)

  // the same link a second time is refused, in words
  const other = await visitor()
  await other.page.goto(link)
  await other.page.getByRole('alert').waitFor()
  assert.equal(await other.page.evaluate(() => localStorage.getItem('stockade.session')), null)

  // a text that is no link says so; a fresh one that is pasted works
  await other.page.getByLabel('One-time link').fill('https://elsewhere.example/#nothing')
  await other.page.getByRole('button', { name: 'Use the link' }).click()
  await other.page.getByText('This is not a link that signs anybody in.').waitFor()
  await other.page.getByLabel('One-time link').fill(await tell('link'))
  await other.page.getByRole('button', { name: 'Use the link' }).click()
  await other.page.getByRole('button', { name: 'New sandbox' }).waitFor()

  // three clicks at most to a terminal: the link, this one
  await page.getByRole('button', { name: 'New sandbox' }).click()
  await page.waitForURL(/\/sandboxes\/[0-9a-f]{16}\/terminals$/)
  await page.getByText('Running').first().waitFor()
  const id = page.url().split('/')[4]

  // two tabs of the same browser: signing out of one signs out of the other, and the token is worth nothing any more
  const second = await context.newPage()
  await second.goto('/sandboxes')
  await second.getByRole('list', { name: 'Sandboxes' }).getByText(id).waitFor()
  await dropSandbox(page, id)
  await second.getByText('Run something that you do not trust').waitFor() // live: it is gone without a reload
  const token = await tokenOf(page)
  await page.getByRole('button', { name: /^Signed in as/ }).click()
  await page.getByRole('menuitem', { name: /Sign out/ }).click()
  await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
  await second.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
  await until(async () => (await fetch(`${process.env.WEB_URL}/api/auth/whoami`, { headers: { Authorization: `Bearer ${token}` } })).status === 401, 'the end of the session')
})
