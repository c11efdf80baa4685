// Asked for against in force; what it may reach is changed with a look at the change first; what is wrong is said in words.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PROFILE = 'profile: 1\nname: one-host\nextends: medium\nnetwork:\n  allow:\n    - {host: known.test}\n    - {host: "*.wide.test", ports: any}\n'
const RICH = 'profile: 1\nname: rich\nextends: medium\nsecrets: [API_KEY]\nnetwork:\n  allow:\n    - {host: known.test}\n    - {host: api.test, secret: API_KEY, methods: [GET]}\n'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const token = await tokenOf(page)
  const id = await openSandbox(page, 'policy', { profile_text: PROFILE })
  const effective = async (of = id) => (await api(token, 'GET', `/api/sandboxes/${of}/policy`)).effective
  const reach = page.getByRole('region', { name: 'What it may reach' })
  const put = reach.getByRole('button', { name: 'Put into force' })
  await reach.getByText('every host below wide.test').waitFor()
  await page.getByRole('article', { name: 'In force' }).getByText('It may reach known.test on ports 80 and 443.').waitFor()
  await page.getByRole('article', { name: 'In force' }).getByText('It may run any program that it can see').waitFor()

  // as text, to the letter
  await page.getByRole('button', { name: 'As text', exact: true }).click()
  const text = await page.getByRole('article', { name: 'In force' }).locator('pre').innerText()
  assert.equal(text.trim(), (await effective()).trim())

  // what is no host is said by the server, and nothing is changed
  const field = reach.getByLabel('Allow another host')
  await field.fill('bad_host!')
  await reach.getByRole('button', { name: 'Add' }).click()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  await reach.getByText(/is not a host name/).waitFor()
  await reach.getByRole('button', { name: 'Forget it' }).click()
  assert.doesNotMatch(await effective(), /bad_host/)

  // one in, one out; looked at, then put into force
  await field.fill('new.test:8443')
  await reach.getByRole('button', { name: 'Add' }).click()
  await reach.getByRole('button', { name: 'Take known.test away' }).click()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  const changes = reach.getByRole('list', { name: 'What changes' })
  await changes.locator('.rule-added', { hasText: 'new.test' }).waitFor()
  await changes.locator('.rule-removed', { hasText: 'known.test' }).waitFor()
  assert.match(await effective(), /known\.test/)
  // somebody else allows something meanwhile: what was looked at is not what would be done, and has to be looked at again
  await api(token, 'PATCH', `/api/sandboxes/${id}/policy`, { add: ['meanwhile.test'] })
  await put.waitFor({ state: 'detached' })
  await reach.getByRole('list', { name: 'Rules' }).getByText('meanwhile.test').waitFor()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  await changes.locator('.rule-removed', { hasText: 'known.test' }).waitFor()
  assert.equal(await changes.locator('.rule-removed').count(), 1) // theirs is not taken away
  await put.click()
  await toastWith(page, 'It holds from the next connection on').waitFor()
  await reach.getByText('port 8443').waitFor()
  const now = await effective()
  assert.match(now, /new\.test, ports: \[8443\]/)
  assert.match(now, /wide\.test/)
  assert.match(now, /meanwhile\.test/)
  assert.doesNotMatch(now, /known\.test/)
  await dropSandbox(page, id)

  // rules with terms are not lost by an addition, and cannot be taken away here
  const rich = await openSandbox(page, 'policy', { profile_text: RICH, secrets: { API_KEY: 'a-value-of-a-key' } })
  await reach.getByText('the gate puts the secret API_KEY in').waitFor()
  await field.fill('more.test')
  await reach.getByRole('button', { name: 'Add' }).click()
  await reach.getByRole('button', { name: 'Look at the change' }).click()
  await put.click()
  await put.waitFor({ state: 'detached' })
  assert.match(await effective(rich), /more\.test/)
  assert.match(await effective(rich), /api\.test, methods: \[GET\], secret: API_KEY/)
  await dropSandbox(page, rich)

  // a profile of the host: asked for beside in force, and where they differ; somebody else's change shows by itself
  const plain = await openSandbox(page, 'policy', { profile: 'medium', allow: ['known.test'] })
  const asked = page.getByRole('article', { name: 'Asked for' })
  await asked.getByText('It reaches nothing: no host, no address, not even names.').waitFor()
  await asked.getByText(/uses more than 2 GiB of memory/).waitFor()
  await page.getByRole('table', { name: 'Where they differ' }).getByText('network.allow').waitFor()
  await page.getByRole('article', { name: 'In force' }).getByText('It may reach known.test').waitFor()
  await api(token, 'PATCH', `/api/sandboxes/${plain}/policy`, { add: ['elsewhere.test'] })
  await reach.getByText('elsewhere.test').first().waitFor()
  await dropSandbox(page, plain)
})
