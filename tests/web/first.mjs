// From the link that `stockade up` prints to a prompt that answers, as somebody does it who has read nothing: at most three
// clicks. How long it took is said, and not judged: bench/web does that.
import { api, assert, dropSandbox, flow, tell, tokenOf } from './harness.mjs'
import { ready, run } from './terminal.mjs'

const MOST = 3

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  let clicks = 0
  await context.exposeFunction('clicked', () => clicks++)
  await context.addInitScript(() => addEventListener('click', (event) => event.isTrusted && window.clicked(), { capture: true }))
  const link = await tell('link')
  const began = Date.now()
  await page.goto(link)
  await page.getByText('It cannot see your files').waitFor() // what it may not do is said before there is one
  await page.getByText('It reaches nobody').waitFor()
  await page.getByRole('button', { name: 'New sandbox' }).click()
  await ready(page)
  console.log(`from the link to the prompt: ${Date.now() - began} ms, ${clicks} clicks`)
  assert.ok(clicks > 0 && clicks <= MOST, `${clicks} clicks`)
  await run(page, 'echo he""re', 'here') // nobody had to click into it
  assert.ok(clicks <= MOST, `${clicks} clicks`)
  const id = page.url().split('/')[4]

  // again, by somebody who has one already: what it may do is said first
  clicks = 0
  await page.goto('/')
  await page.getByRole('button', { name: 'New sandbox' }).click()
  await page.locator('.summary-text').getByText('It reaches nothing').waitFor()
  await page.getByRole('button', { name: 'Create and open a terminal' }).click()
  await page.waitForURL((at) => at.pathname.endsWith('/terminals') && !at.pathname.includes(id))
  await ready(page)
  assert.ok(clicks > 0 && clicks <= MOST, `${clicks} clicks`)
  await run(page, 'echo he""re', 'here')
  await dropSandbox(page, page.url().split('/')[4])
  await dropSandbox(page, id)
  assert.deepEqual((await api(await tokenOf(page), 'GET', '/api/sandboxes')).sandboxes, [])
})
