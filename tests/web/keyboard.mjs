// Without a mouse: sign in, find help, make a sandbox with changes, get around, sign out. What has the focus can be seen.
import { api, assert, dropSandbox, flow, signInByKey, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { ready } from './terminal.mjs'

/** Tab, until what has the focus is this. */
async function tabTo(page, locator) {
  for (let i = 0; i < 60; i++) {
    if (await locator.evaluate((el) => el === document.activeElement).catch(() => false)) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`the focus never came to ${locator}`)
}

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  const token = await signInByKey(page, newWallet())
  const first = page.getByRole('button', { name: 'New sandbox' })
  await first.waitFor()
  await tabTo(page, first)
  const outline = await first.evaluate((el) => getComputedStyle(el).outlineStyle)
  assert.equal(outline, 'solid')

  await page.keyboard.press('?')
  await page.getByRole('dialog').getByText('Show these keys').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  for (const name of ['one', 'two', 'three']) await api(token, 'POST', '/api/sandboxes', { profile: 'low', name })
  await page.getByRole('list', { name: 'Sandboxes' }).getByRole('listitem').nth(2).waitFor()
  await page.keyboard.press('n')
  const create = page.getByRole('button', { name: 'Create and open a terminal' })
  await create.waitFor()
  const radio = page.getByRole('radio', { checked: true })
  await tabTo(page, radio)
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowUp')
  await tabTo(page, page.getByLabel('Name', { exact: true }))
  await page.keyboard.type('by keys')
  await page.getByText("Only letters, digits, '.', '_' and '-'.").waitFor()
  await page.keyboard.press('Control+A')
  await page.keyboard.type('by-keys')
  await tabTo(page, create)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/terminals$/)
  const id = page.url().split('/')[4]

  // tabs by arrows, once the terminal is there: it takes the focus when it opens
  await ready(page)
  const chosen = page.getByRole('tablist', { name: 'Parts of the sandbox' }).getByRole('tab', { selected: true })
  await chosen.focus()
  const before = page.url()
  await page.keyboard.press('ArrowRight')
  await until(() => page.url() !== before, 'the next tab')
  assert.equal(await chosen.evaluate((el) => el === document.activeElement), true)

  // the list by arrows, a row by Enter, its menu by keys
  await page.goto('/sandboxes')
  const rows = page.getByRole('list', { name: 'Sandboxes' }).getByRole('listitem')
  await rows.nth(3).waitFor()
  const link = (n) => rows.nth(n).getByRole('link')
  await tabTo(page, link(0))
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await until(() => link(2).evaluate((el) => el === document.activeElement), 'the third row')
  const name = await rows.nth(2).locator('strong').textContent()
  await page.keyboard.press('Tab') // on in the row: its menu
  await page.keyboard.press('Enter')
  await page.getByRole('menu').waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Escape')
  await page.getByRole('menu').waitFor({ state: 'detached' })
  await link(2).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name }).waitFor()

  await dropSandbox(page, id)
  for (const { id: other } of (await api(token, 'GET', '/api/sandboxes')).sandboxes) await api(token, 'DELETE', `/api/sandboxes/${other}?force=true`)
  const who = page.getByRole('button', { name: /^Signed in as/ })
  await page.goto('/sandboxes')
  await who.waitFor()
  await tabTo(page, who)
  await page.keyboard.press('Enter')
  await page.getByRole('menuitem', { name: /Sign out/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
})
