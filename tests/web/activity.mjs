// Filters, search, pause, the chain's badge; and texts of a sandbox that look like markup, which stay texts.
import { readFileSync } from 'node:fs'
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'activity')
  const token = await tokenOf(page)
  const run = (command) => api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })
  const events = page.getByRole('list', { name: 'Events' })
  await events.getByText('Made with the profile medium').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()

  await run(`: '${HOSTILE}'`)
  await events.getByText(HOSTILE).first().waitFor() // shown as what it is
  const first = events.locator('.event', { hasText: 'onerror' }).first()
  await first.click()
  await page.getByRole('dialog').getByText('run.start', { exact: true }).waitFor()
  await page.getByText('As it stands in the ledger').click()
  await page.getByRole('dialog').locator('pre').getByText('onerror').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal(await page.evaluate(() => window.broken), undefined)
  assert.equal(await page.locator('.activity img, .activity script').count(), 0)

  // nothing turns a sentence around, breaks it, or hides in it; the ledger's own line has it as an escape
  await run(`: 'a\u202etxt.exe\u200b'`)
  const turned = events.getByText("a‹U+202E›txt.exe‹U+200B›").first()
  await turned.waitFor()
  await turned.click()
  await page.getByText('As it stands in the ledger').click()
  const whole = await page.getByRole('dialog').locator('pre').textContent()
  assert.ok(whole.includes('a\\u202etxt.exe\\u200b'), whole)
  assert.ok(!/[\u202e\u200b]/.test(await page.locator('body').innerText()))
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  // a kind alone, then words
  await page.getByRole('button', { name: /^Runs/ }).click()
  await events.getByText('Made with the profile medium').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: /^Runs/ }).click()
  await page.getByRole('button', { name: /^Denials/ }).click()
  await page.getByText('Nothing fits').waitFor()
  await page.getByRole('button', { name: 'Show all' }).click()
  await page.keyboard.press('/')
  await page.keyboard.type('profile medium')
  await until(async () => (await events.locator('.event').count()) === 1, 'the one event with these words')
  await page.getByLabel('Search the activity').fill('')

  // paused: it is counted, and not shown
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await run('echo not-shown-yet')
  await page.getByText(/Paused · [1-9]/).waitFor()
  assert.equal(await events.getByText('not-shown-yet').count(), 0)
  await page.getByRole('button', { name: 'Go on' }).click()
  await events.getByText('not-shown-yet').first().waitFor()

  // the chain: signed, and checked here
  const badge = page.getByRole('button', { name: 'About the ledger’s chain' })
  await badge.getByText(/^Signature checked to \d+$/).waitFor()
  await badge.click()
  await page.getByRole('dialog').getByText('Your browser has checked that signature').waitFor()
  await page.getByRole('dialog').getByText('Every event carries the hash of the one before it').waitFor()
  const downloading = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download the evidence' }).click()
  const evidence = JSON.parse(readFileSync(await (await downloading).path(), 'utf8'))
  assert.equal(evidence.sandbox, id)
  await page.keyboard.press('Escape')
  // a ledger with another key than the one that was seen is not believed
  await page.evaluate(() => localStorage.setItem('stockade.ledger', JSON.stringify({ key: 'ab'.repeat(32), seq: 1, hash: 'x' })))
  await page.reload()
  await page.getByText('Chain broken').click()
  await page.getByRole('dialog').getByText('another key').waitFor()
  await page.getByRole('button', { name: /trust it from here/ }).click()
  await badge.getByText(/to \d+/).waitFor()
  await dropSandbox(page, id)
})
