// The operator is killed with -9 while somebody sits at a terminal: the shell goes on, the page says that it is away, comes
// back by itself, and shows what was printed meanwhile.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tell, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, rows, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals')
  await ready(page)
  await run(page, 'remember=me; echo be""fore-the-kill', 'before-the-kill')
  await run(page, '(until [ -e /tmp/go ]; do sleep 0.1; done; i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo mean""while-$i; done; echo all-pri""nted; touch /tmp/done) & echo wai""ts', 'waits')
  const session = await pane(page).getAttribute('data-session')
  await page.evaluate(() => {
    window.states = []
    new MutationObserver(() => window.states.push(document.querySelector('.term-pane')?.dataset.state)).observe(document.querySelector('.term-pane'), { attributes: true, attributeFilter: ['data-state'] })
  })
  const token = await tokenOf(page)
  await context.setOffline(true) // it stays away until everything is printed
  await tell('kill_operator')
  await until(async () => (await page.evaluate(() => window.states)).includes('away'), 'the page to say that it is away')
  const exec = (command) => api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })
  await until(() => exec('touch /tmp/go').then(() => true, () => false), 'the next operator')
  await until(async () => (await exec('ls /tmp')).stdout.includes('done'), 'everything to be printed')
  assert.ok(!(await rows(page)).includes('meanwhile-'))
  await context.setOffline(false)
  await until(async () => (await pane(page).getAttribute('data-state')) === 'open', 'the terminal again')
  assert.equal(await pane(page).getAttribute('data-session'), session)
  await until(async () => (await rows(page)).includes('all-printed'), 'what was printed meanwhile')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo still-$remember', 'still-me')

  // what has scrolled away is there, each line once
  await page.keyboard.press('Control+Shift+F')
  await page.getByRole('searchbox', { name: 'Search in this terminal' }).fill('before-the-kill')
  await page.getByText(/^1 of 1$/).waitFor()
  await page.getByRole('searchbox', { name: 'Search in this terminal' }).fill('meanwhile-217')
  await page.getByText(/^1 of 1$/).waitFor()
  await page.keyboard.press('Escape')

  // and so it is after a reload
  await page.reload()
  await ready(page)
  await until(async () => (await rows(page)).includes('still-me'), 'the scrollback')
  await dropSandbox(page, id)
})
