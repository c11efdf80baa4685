// Given to the gate, as a file and as a variable; wiped. The values are nowhere in the page afterwards.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PROFILE = 'profile: 1\nname: keyed\nextends: medium\nsecrets: [API_KEY]\nnetwork:\n  allow:\n    - {host: api.test, secret: API_KEY}\n'
const VALUES = ['first-value-1111', 'gate-value-3f9a7c21', 'file-value-77d0b1e4', "variable's \"value\" $(id) 9c", 'other-value-5b2f', 'twice-value-e01d']

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const sent = []
  page.on('request', (r) => sent.push(`${r.method()} ${new URL(r.url()).pathname}${new URL(r.url()).search}`))
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'secrets', { profile_text: PROFILE, secrets: { API_KEY: VALUES[0] } })
  const token = await tokenOf(page)
  const run = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  const gate = page.getByRole('list', { name: 'Secrets at the gate' })
  await gate.getByText('has a value').waitFor()
  await gate.getByText('May go to api.test (web (ports 80 and 443)).').waitFor()

  const dialog = page.getByRole('dialog')
  const give = dialog.getByRole('button', { name: 'Give it' })
  await gate.getByRole('button', { name: 'Replace' }).click()
  await give.click()
  await dialog.getByText('A value is needed.').waitFor()
  await dialog.getByLabel('Value').fill(VALUES[1])
  assert.equal(await dialog.getByLabel('Value').getAttribute('type'), 'password')
  await give.click()
  await toastWith(page, 'API_KEY has a value').waitFor()
  await dialog.waitFor({ state: 'detached' })
  assert.match(await run('echo $API_KEY'), /^stockade-secret-[0-9a-f]+\n$/) // inside there is a placeholder

  await page.getByRole('button', { name: 'Add a secret' }).click()
  await dialog.getByLabel(/A file inside/).check()
  await dialog.getByLabel('Path').fill('relative')
  await dialog.getByLabel('Value').fill(VALUES[2])
  await give.click()
  await dialog.getByText('The path has to begin with /.').waitFor()
  await dialog.getByLabel('Path').fill('/home/agent/.token')
  await give.click()
  await toastWith(page, '/home/agent/.token is written').waitFor()
  assert.equal(await run('cat ~/.token; stat -c %a ~/.token'), `${VALUES[2]}600\n`)

  // what is there is replaced only by who says so
  await page.getByRole('button', { name: 'Add a secret' }).click()
  await dialog.getByLabel(/A file inside/).check()
  await dialog.getByLabel('Path').fill('/home/agent/.token')
  await dialog.getByLabel('Value').fill(VALUES[4])
  await give.click()
  const question = page.getByRole('dialog', { name: 'Replace what is there?' })
  await question.getByRole('button', { name: 'Cancel' }).click()
  await question.waitFor({ state: 'detached' })
  assert.equal(await run('cat ~/.token'), VALUES[2])
  assert.equal(await dialog.getByLabel('Value').inputValue(), VALUES[4]) // and what was typed is still there
  await give.click()
  await question.getByRole('button', { name: 'Replace it' }).click()
  await dialog.first().waitFor({ state: 'detached' })
  assert.equal(await run('cat ~/.token'), VALUES[4])

  // a sandbox that stands still meanwhile takes nothing away that was typed; Enter twice gives it once
  await page.getByRole('button', { name: 'Add a secret' }).click()
  await dialog.getByLabel(/A file inside/).check()
  await dialog.getByLabel('Path').fill('/home/agent/.twice')
  await dialog.getByLabel('Value').fill(VALUES[5])
  for (const [verb, state] of [['pause', 'Paused'], ['unpause', 'Running']]) {
    await api(token, 'POST', `/api/sandboxes/${id}/${verb}`, {})
    await page.locator('.sandbox-head').getByText(state, { exact: true }).waitFor()
    assert.equal(await dialog.getByLabel('Value').inputValue(), VALUES[5])
  }
  let looks = 0
  let go
  const may = new Promise((resolve) => (go = resolve))
  const look = (u) => u.pathname.endsWith('/files/stat') && u.searchParams.get('path') === '/home/agent/.twice'
  await page.route(look, async (route) => {
    looks++
    await may
    await route.continue()
  })
  await dialog.getByLabel('Value').press('Enter')
  await dialog.getByLabel('Value').press('Enter')
  await until(() => looks, 'the look at what is there')
  go()
  await toastWith(page, '/home/agent/.twice is written').waitFor()
  await dialog.waitFor({ state: 'detached' })
  assert.equal(looks, 1)
  assert.equal(sent.filter((line) => line.startsWith('PUT') && line.includes('.twice')).length, 1)
  assert.equal(await run('cat ~/.twice'), VALUES[5])

  await page.getByRole('button', { name: 'Add a secret' }).click()
  await dialog.getByLabel(/A variable of new shells/).check()
  await dialog.getByLabel('Name of the variable').fill('MY TOKEN')
  await dialog.getByLabel('Value').fill(VALUES[3])
  await give.click()
  await dialog.getByText(/A variable’s name has letters/).waitFor()
  await dialog.getByLabel('Name of the variable').fill('MY_TOKEN')
  await give.click()
  const inside = page.getByRole('list', { name: 'Variables inside' })
  await inside.getByText('MY_TOKEN').waitFor()
  assert.equal(await run('printf %s "$MY_TOKEN"'), VALUES[3])
  await inside.getByRole('button', { name: 'Remove' }).click()
  await dialog.getByRole('button', { name: 'Remove it' }).click()
  await inside.waitFor({ state: 'detached' })
  assert.equal(await run('printf %s "$MY_TOKEN"'), '')

  await page.getByRole('button', { name: 'Wipe all values' }).click()
  await page.getByRole('button', { name: 'Wipe them' }).click()
  await gate.getByText('no value').waitFor()
  assert.deepEqual((await api(token, 'GET', `/api/sandboxes/${id}/secrets`)).secrets, [{ name: 'API_KEY', given: false }])

  // nowhere: not in what is shown, not in fields, not in what the browser keeps, not in addresses, not in the ledger
  const kept = await page.evaluate(() => document.documentElement.outerHTML + [...document.querySelectorAll('input, textarea')].map((i) => i.value).join('\n') + JSON.stringify({ ...localStorage, ...sessionStorage }) + JSON.stringify(history.state))
  const state = JSON.stringify(await context.storageState())
  const ledger = await (await fetch(`${process.env.WEB_URL}/api/sandboxes/${id}/events?from=0&follow=false`, { headers: { Authorization: `Bearer ${token}` } })).text()
  for (const value of VALUES) for (const [where, text] of Object.entries({ kept, state, ledger, sent: sent.join('\n') })) assert.ok(!text.includes(value), `${value} is in ${where}`)
  await until(async () => (await page.locator('input[type=password]').count()) === 0, 'no field with a value')
  await dropSandbox(page, id)
})
