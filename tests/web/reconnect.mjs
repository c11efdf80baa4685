// The operator is killed: the page says so, comes back by itself, says what it missed, and does not lose what was done.
import { api, assert, flow, signInByKey, tell, toastWith, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const token = await signInByKey(page, newWallet())
  await page.getByText('Run something that you do not trust').waitFor()
  const { id: before } = await api(token, 'POST', '/api/sandboxes', { profile: 'medium', name: 'before' })
  const stateOf = async (id) => (await api(token, 'GET', `/api/sandboxes/${id}`)).state
  const row = (name) => page.getByRole('list', { name: 'Sandboxes' }).getByRole('listitem').filter({ hasText: name })
  const stop = async (name) => {
    await page.getByRole('button', { name: `What to do with ${name}` }).click()
    await page.getByRole('menuitem', { name: 'Stop' }).click()
  }
  await row('before').waitFor()
  const { id: halted } = await api(token, 'POST', '/api/sandboxes', { profile: 'medium', name: 'halted' })
  await row('halted').waitFor()
  await stop('halted')
  await row('halted').getByText('Stopped').waitFor()

  // with -9; the warden starts another. What is said then is said for some seconds
  await Promise.all([toastWith(page, 'Back again.').waitFor(), tell('kill_operator')])
  await page.locator('.connection').waitFor({ state: 'detached' })
  await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: 'after' })
  await row('after').waitFor() // the stream goes on
  await row('halted').getByText('Stopped').waitFor() // what was done before stays done
  assert.equal(await stateOf(halted), 'stopped')
  assert.equal(await stateOf(before), 'running')

  // no network at all: it is said, what is known stays, what is tried says that it may not have been done
  await context.setOffline(true)
  await tell('kill_operator') // what is open is cut, too
  await page.locator('.connection').waitFor()
  await row('before').waitFor()
  await stop('before')
  await toastWith(page, 'The server cannot be reached.').waitFor()
  await row('before').getByText('Running').waitFor()

  // meanwhile something happens, and afterwards that is told
  await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: 'meanwhile' })
  await context.setOffline(false)
  await page.locator('.connection').waitFor({ state: 'detached' })
  await toastWith(page, 'happened meanwhile').waitFor()
  await row('meanwhile').waitFor()

  // what was not done then can be done now
  assert.equal(await stateOf(before), 'running')
  await stop('before')
  await row('before').getByText('Stopped').waitFor()
  assert.equal(await stateOf(before), 'stopped')
  for (const { id } of (await api(token, 'GET', '/api/sandboxes')).sandboxes) await api(token, 'DELETE', `/api/sandboxes/${id}?force=true`)
  await until(async () => (await page.getByText('Run something that you do not trust').count()) === 1, 'the empty list')
})
