// A sandbox that stands still, or could not be stopped, and goes on: its terminals are those that were there, where they were,
// and no other. One that was stopped has a new shell when it runs again, and only one.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, rows, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  let made = 0
  page.on('request', (r) => void (r.method() === 'POST' && r.url().endsWith('/live/terminal/sessions') && made++))
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals', { profile: 'medium', name: 'stands-still' })
  const token = await tokenOf(page)
  const there = async () => (await api(token, 'GET', `/api/sandboxes/${id}/live/terminal/sessions`)).sessions.map((s) => s.session_id).sort()
  const tabs = page.locator('.term-tabs [role=tab]')
  const isOpen = (count) => until(async () => (await page.locator('.term-pane[data-state=open]').count()) === count, `${count} terminals`)
  const looks = async () => ({
    tabs: await page.locator('.term-tabs .term-name').allTextContents(),
    shown: await tabs.evaluateAll((all) => all.map((t) => t.getAttribute('aria-selected'))),
    panes: await page.locator('.term-pane').evaluateAll((all) => all.map((p) => [p.dataset.session, p.parentElement.className])),
  })
  const menu = async (item) => {
    await page.getByRole('button', { name: 'What to do with stands-still' }).click()
    await page.getByRole('menuitem', { name: item, exact: true }).click()
  }

  // three of them: two above each other, one in a tab behind
  await ready(page)
  await run(page, 'remember=me; echo se""t-$remember', 'set-me')
  await page.getByRole('button', { name: 'New terminal' }).click()
  await isOpen(2)
  await tabs.first().click()
  await page.getByRole('button', { name: 'More', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Split below' }).click()
  await isOpen(3)
  const panel = page.locator('.term-tab-panel:not([hidden])')
  assert.match(await panel.getAttribute('class'), /term-column/)
  const [above, below] = await Promise.all([0, 1].map((i) => pane(page, i).boundingBox()))
  assert.ok(below.y >= above.y + above.height - 1, 'one is below the other')
  const [before, had] = [await looks(), await there()]
  assert.equal(made, 3)

  // paused, and on again
  await menu('Pause')
  await page.getByText('No terminal now').waitFor()
  assert.equal(await page.locator('.term-pane').count(), 0)
  await page.locator('.sandbox-actions').getByRole('button', { name: 'Go on' }).click()
  await isOpen(3)
  assert.deepEqual(await looks(), before)
  assert.deepEqual(await there(), had)
  assert.equal(made, 3, 'nobody asked for another one')
  await until(async () => (await rows(page)).includes('set-me'), 'what it had shown')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo still-$remember', 'still-me')

  // a stop that fails
  const stop = (u) => u.pathname.endsWith('/stop')
  await page.route(stop, (route) => route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ code: 'BUSY', error: 'not now' }) }))
  await page.locator('.sandbox-actions').getByRole('button', { name: 'Stop' }).click()
  await toastWith(page, /not now/i).waitFor()
  await isOpen(3)
  assert.deepEqual(await looks(), before)
  assert.deepEqual(await there(), had)
  assert.equal(made, 3, 'nobody asked for another one')
  await page.unroute(stop)

  // stopped: all shells have ended, and one is there by itself when it runs again
  await page.locator('.sandbox-actions').getByRole('button', { name: 'Stop' }).click()
  await page.getByText('No terminal now').waitFor()
  await page.locator('.sandbox-actions').getByRole('button', { name: 'Resume' }).click()
  await ready(page)
  assert.equal(await page.locator('.term-pane').count(), 1)
  assert.equal(made, 4)
  assert.equal((await there()).length, 1)
  await dropSandbox(page, id)
})
