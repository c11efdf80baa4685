// A sandbox tries to reach what it may not: it shows at once, with why; one click allows it; the next request passes.
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PROFILE = 'profile: 1\nname: one-host\nextends: medium\nnetwork:\n  allow:\n    - {host: known.test}\n'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'activity', { profile_text: PROFILE })
  const token = await tokenOf(page)
  const request = async () => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: `curl -sS -m 20 http://${given.address}/` })).stdout
  const events = page.getByRole('list', { name: 'Events' })
  await events.getByText('Started', { exact: true }).waitFor()

  assert.match(await request(), /no-rule/)
  const denied = events.locator('.event-denied', { hasText: given.address })
  await denied.waitFor() // nobody reloaded anything
  const colours = await page.evaluate(() => ['.event-denied .event-text', '.event:not(.event-denied) .event-text'].map((s) => getComputedStyle(document.querySelector(s)).color))
  assert.notEqual(colours[0], colours[1])

  await denied.click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('no rule names this host').waitFor()
  await dialog.getByText('Allow the host, if the sandbox should reach it.').waitFor()
  await dialog.getByRole('button', { name: /^Allow 93/ }).click()
  // exactly what changes: one that is new, one that stays
  const changes = dialog.getByRole('list', { name: 'What changes' })
  await changes.locator('.rule-added', { hasText: given.address }).waitFor()
  assert.equal(await changes.locator('.rule-added').count(), 1)
  assert.equal(await changes.locator('.rule-removed').count(), 0)
  await changes.getByText('One rule stays as it is: known.test').waitFor()
  assert.match(await request(), /no-rule/) // looking changed nothing
  await dialog.getByRole('button', { name: `Allow ${given.address}:80`, exact: true }).click()
  const undo = toastWith(page, 'From the next connection on it may reach')
  await undo.hover() // it waits while one looks
  let said
  await until(async () => (said = await request()) === 'hello outside\n', 'the request that passes').catch((e) => assert.fail(`${e.message}: ${said}`))
  await events.getByText(`Reached ${given.address}:80`).first().waitFor()
  await events.getByText('May reach from now on').first().waitFor()

  // the policy says the same
  const policy = async () => (await api(token, 'GET', `/api/sandboxes/${id}/policy`)).effective
  const block = `${given.address}/32`
  assert.ok((await policy()).includes('known.test'))
  assert.ok((await policy()).includes(block))

  // and it can be taken back: it alone, whatever else was allowed since
  await api(token, 'PATCH', `/api/sandboxes/${id}/policy`, { add: ['later.test'] })
  await undo.getByRole('button', { name: 'Undo' }).click()
  await toastWith(page, `It may no longer reach ${given.address}:80.`).waitFor()
  const left = await policy()
  assert.ok(!left.includes(block), left)
  for (const host of ['known.test', 'later.test']) assert.ok(left.includes(host), left)
  await until(async () => /no-rule/.test(await request()), 'the request that is refused again')
  await dropSandbox(page, id)
})
