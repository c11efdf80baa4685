// A server that is broken or wants to be asked less: each tab says so in the server's words, with its hint, and has what was
// asked for once the server gives it. Nothing else of the page goes away.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf } from './harness.mjs'
import { newWallet } from './wallets.mjs'

/** What each tab asks for first, and what is there when it has it. */
const TABS = [
  ['terminals', (u) => u.pathname.endsWith('/live/terminal/sessions'), '.term-pane'],
  ['files', (u) => u.pathname.endsWith('/files'), '.files-row'],
  ['runs', (u) => u.pathname.endsWith('/runs'), '.runs-row'],
  ['ports', (u) => u.pathname.endsWith('/ports'), '.port-other'],
  ['snapshots', (u) => u.pathname === '/api/snapshots', 'text=No snapshots yet'],
  ['secrets', (u) => u.pathname.endsWith('/secrets'), 'text=Its profile uses no secrets'],
  ['policy', (u) => u.pathname.endsWith('/policy'), '.policy-sides'],
]
const ANSWERS = [
  { status: 500, body: { code: 'INTERNAL', error: 'the store <b>is</b> away', hint: 'look into the log' } },
  { status: 429, headers: { 'Retry-After': '1' }, body: { code: 'RATE_LIMITED', error: 'that is <b>too</b> often', hint: 'wait a second', retry_after_ms: 1000 } },
]

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'usage')
  await api(await tokenOf(page), 'POST', `/api/sandboxes/${id}/exec`, { command: 'echo something > note.txt' })
  for (const [n, [tab, asks, there]] of TABS.entries()) {
    const { status, headers = {}, body } = ANSWERS[n % ANSWERS.length]
    const refuse = (u) => u.pathname.startsWith('/api/') && asks(u)
    await page.route(refuse, (route) => route.fulfill({ status, headers, contentType: 'application/json', body: JSON.stringify(body) }))
    await page.goto(`/sandboxes/${id}/${tab}`)
    const failure = page.locator(`#panel-${tab}`).locator('.failure').first()
    const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`
    await failure.getByText(capital(body.error)).waitFor()
    await failure.getByText(capital(body.hint)).waitFor()
    assert.equal(await failure.locator('b').count(), 0)
    await page.locator('.sandbox-head').waitFor()
    await page.unroute(refuse)
    await failure.getByRole('button', { name: 'Try again' }).click()
    await page.locator(`#panel-${tab}`).locator(there).first().waitFor()
    assert.equal(await page.locator(`#panel-${tab}`).locator('.failure').count(), 0)
  }
  await dropSandbox(page, id)
})
