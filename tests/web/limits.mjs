// With the limits that a server has by default: a page that is open asks seldom, is refused nothing, and is up to date.
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, tokenOf } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const asked = []
  const refused = []
  context.on('request', (r) => r.url().includes('/api/') && asked.push(`${r.method()} ${new URL(r.url()).pathname}`))
  context.on('response', (r) => r.status() === 429 && refused.push(r.url()))
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'usage')
  const second = await context.newPage()
  await second.goto('/')
  await second.getByRole('list', { name: 'Sandboxes' }).getByText(id).waitFor()
  const token = await tokenOf(page)
  for (let i = 0; i < 3; i++) await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: `more-${i}` })
  await second.getByRole('list', { name: 'Sandboxes' }).getByText('more-2').waitFor()
  asked.length = 0
  await new Promise((resolve) => setTimeout(resolve, given.watch_ms)) // how much is asked in a time can only be seen by letting it pass
  assert.deepEqual(refused, [])
  const most = (40 * given.watch_ms) / 60_000
  assert.ok(asked.length <= most, `${asked.length} requests by two windows, at most ${most}:\n${asked.join('\n')}`)
  assert.equal(await second.getByText('Not up to date').count(), 0)
  for (const { id: left } of (await api(token, 'GET', '/api/sandboxes')).sandboxes) if (left !== id) await api(token, 'DELETE', `/api/sandboxes/${left}?force=true`)
  await dropSandbox(page, id)
})
