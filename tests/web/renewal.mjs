// Sessions that are short: they are renewed by one tab for all, and nobody notices. Terminals go on when the token that
// opened them ends, and what is typed in a page stays.
import { assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const began = Date.now()
  const renewals = []
  context.on('response', (r) => r.url().endsWith('/api/auth/session/renew') && renewals.push(r.status()))
  const first = await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals', { profile: 'medium', allow: ['known.test'] }) // one with a network: its rules can be changed while it runs
  await ready(page)
  await page.evaluate(() => {
    window.states = []
    new MutationObserver(() => window.states.push(document.querySelector('.term-pane')?.dataset.state)).observe(document.querySelector('.term-pane'), { attributes: true, attributeFilter: ['data-state'] })
  })
  const other = await context.newPage() // with what is typed and not saved
  await other.goto(`/sandboxes/${id}/policy`)
  const reach = other.getByRole('region', { name: 'What it may reach' })
  await reach.getByLabel('Allow another host').fill('kept.test')
  await reach.getByRole('button', { name: 'Add' }).click()
  await reach.getByText('kept.test').first().waitFor()
  await reach.getByLabel('Allow another host').fill('half-ty')

  // the token that opened the terminal has ended: it is open again, and was never refused
  const opened = await page.evaluate(() => JSON.parse(localStorage.getItem('stockade.session')).expires_at_ms)
  await page.bringToFront()
  await until(async () => Date.now() > opened + 3000 && (await pane(page).getAttribute('data-state')) === 'open', 'the end of the token')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo still-""here', 'still-here')
  const states = await page.evaluate(() => window.states)
  assert.ok(states.includes('connecting'), `it was connected anew: ${states}`)
  assert.ok(!states.includes('refused'), `nobody was refused: ${states}`)
  assert.notEqual(await tokenOf(page), first)
  assert.equal(await page.getByRole('dialog', { name: 'Sign in' }).count(), 0)

  // the other tab has the same session, and what was typed in it
  assert.equal(await tokenOf(other), await tokenOf(page))
  assert.equal(await reach.getByLabel('Allow another host').inputValue(), 'half-ty')
  await reach.getByText('kept.test').first().waitFor()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  await reach.getByRole('button', { name: 'Put into force' }).waitFor()
  assert.ok(renewals.every((status) => status === 200), `renewals: ${renewals}`)
  assert.ok(renewals.length <= 3 + (Date.now() - began) / 8000, `two tabs do not renew twice: ${renewals.length} in ${Date.now() - began} ms`)
  await dropSandbox(page, id)
})
