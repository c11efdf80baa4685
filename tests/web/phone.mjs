// On a phone: nothing is wider than the screen, what is pressed is large enough, and the way from the list to a sandbox works.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const LEAST = 44

/** Each tab of a sandbox, and what is there when it is. */
const TABS = [
  ['terminals', '', '.xterm-rows'], ['files', '?path=/tmp/desk', '.files-row'], ['files', '?file=/tmp/desk/a', '.cm-content'], ['runs', '', '.runs-row'], ['activity', '', '.event'],
  ['ports', '', '.port-other'], ['snapshots', '', '.snapshots-head'], ['secrets', '', '.secrets-head'], ['policy', '', '.policy-sides'], ['usage', '', '.budgets'],
]

async function fits(page, where) {
  const all = await page.evaluate(() => document.documentElement.scrollWidth)
  const inner = page.viewportSize().width
  assert.ok(all <= inner, `${where} is ${all} wide on a screen of ${inner}`)
  const small = await page.evaluate((least) => {
    const found = []
    for (const tab of document.querySelectorAll('[role=tab][aria-selected=true]')) {
      const { left, right } = tab.getBoundingClientRect()
      if (left < 0 || right > innerWidth) found.push(`${tab.textContent} is open and cannot be seen`)
    }
    for (const el of document.querySelectorAll('main button, main .input:not(:disabled), main summary, header button, header a, [role=tab]')) {
      const { width, height } = el.getBoundingClientRect()
      if (width && height && (height < least - 0.5 || width < least - 8.5) && !el.closest('.said, .toast')) found.push(`${el.getAttribute('aria-label') ?? el.textContent} ${width}×${height}`)
    }
    return found
  }, LEAST)
  return small
}

await flow(async ({ visitor }) => {
  const { page } = await visitor({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 })
  await page.goto('/')
  await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
  assert.deepEqual(await fits(page, 'the sign-in page'), [])
  await signInByKey(page, newWallet())
  await page.getByRole('button', { name: 'New sandbox' }).waitFor()
  assert.deepEqual(await fits(page, 'the first page'), [])
  const id = await openSandbox(page, '', { profile: 'medium', name: 'a-rather-long-name-for-a-sandbox-that-somebody-gave-it' })
  await api(await tokenOf(page), 'POST', `/api/sandboxes/${id}/exec`, { command: 'mkdir -p /tmp/desk/inner; echo x > /tmp/desk/a' })
  for (const [tab, query, there] of TABS) {
    await page.goto(`/sandboxes/${id}/${tab}${query}`)
    await page.locator(`#panel-${tab}`).locator(there).first().waitFor()
    await page.waitForFunction(() => !document.querySelector('.skeleton'))
    assert.deepEqual(await fits(page, tab), [], tab)
  }
  await page.goto('/sandboxes')
  const row = page.getByRole('listitem').first()
  await row.getByText('medium', { exact: true }).waitFor() // what it is shows here, too
  assert.deepEqual(await fits(page, 'the list'), [])
  await row.tap()
  await page.waitForURL(new RegExp(id))
  await page.goto('/sandboxes')
  await page.getByRole('button', { name: 'New sandbox' }).tap()
  await page.getByRole('button', { name: 'Create and open a terminal' }).waitFor()
  assert.deepEqual(await fits(page, 'the creation'), [])
  await dropSandbox(page, id)
})
