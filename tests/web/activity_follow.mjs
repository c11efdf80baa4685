// More than a screenful: it begins with the newest and stays there, unless somebody reads elsewhere or walks through it by keys.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'usage')
  const token = await tokenOf(page)
  const run = (command) => api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })
  for (let i = 1; i <= 30; i++) await run(`echo row-${i}.`)
  const events = page.getByRole('list', { name: 'Events' })
  /** It is drawn, and inside of what is seen of the list. */
  const isSeen = async (text) => {
    const [row, box] = [await events.getByText(text).first().boundingBox({ timeout: 1000 }).catch(() => null), await events.boundingBox()]
    return row !== null && box !== null && row.y >= box.y && row.y + row.height <= box.y + box.height
  }
  const top = () => events.evaluate((box) => box.scrollTop)
  await page.goto(`/sandboxes/${id}/activity`)
  await until(() => isSeen('echo row-30.'), 'the newest')
  assert.equal(await events.getByText('echo row-1.').count(), 0) // far above
  await run('echo row-31.')
  await until(() => isSeen('echo row-31.'), 'the one after it')

  // Tab leads into it: one row, and one that is there
  const stops = events.locator('[data-open][tabindex="0"]')
  assert.equal(await stops.count(), 1)
  await page.getByRole('group', { name: 'Kinds' }).getByRole('button').last().focus()
  await page.keyboard.press('Tab')
  await until(() => stops.evaluate((button) => button === document.activeElement), 'the focus in the list')
  const count = async () => Number(await events.getByRole('listitem').first().getAttribute('aria-setsize'))
  const focused = () => page.evaluate(() => Number(document.activeElement?.closest('[data-index]')?.getAttribute('data-index') ?? -1))
  await until(async () => {
    await page.keyboard.press('End')
    return (await focused()) === (await count()) - 1
  }, 'the last row with the focus')
  const [at, walked, known] = [await top(), await focused(), await count()]
  await run('echo row-32.')
  await until(async () => (await count()) > known, 'more of them')
  assert.equal(await top(), at, 'nobody is pulled away')
  assert.equal(await focused(), walked)

  // who went up by hand stays there, who is at the end again follows again
  await page.evaluate(() => document.activeElement?.blur())
  await events.hover()
  await until(async () => {
    await page.mouse.wheel(0, -5000)
    return (await top()) === 0
  }, 'the beginning')
  const above = await count()
  await run('echo row-33.')
  await until(async () => (await count()) > above, 'more of them')
  assert.equal(await top(), 0)
  await until(async () => {
    await page.mouse.wheel(0, 50_000)
    return isSeen('echo row-33.')
  }, 'the end')
  await run('echo row-34.')
  await until(() => isSeen('echo row-34.'), 'what came last')
  await dropSandbox(page, id)
})
