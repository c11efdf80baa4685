// What the doctor finds, what the drivers can enforce by that, and the latest report of `stockade verify`: none yet, a real
// one, and one that is bad news and means harm.
import { assert, flow, signInByLink, tell, until } from './harness.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  await signInByLink(page, { operator: true })
  await page.getByRole('link', { name: 'Operator' }).click()
  const panel = page.getByRole('tabpanel')
  const part = async (name) => {
    await page.getByRole('tab', { name }).click()
    await panel.locator('.skeleton').waitFor({ state: 'detached' })
  }
  const { facts } = await tell('local', { verb: 'doctor' })

  await part('Doctor')
  for (const fact of facts) {
    const line = panel.getByRole('listitem').filter({ has: page.locator('strong', { hasText: new RegExp(`^${fact.name}$`) }) })
    await line.getByText({ ok: 'works', limited: 'limited', missing: 'missing' }[fact.state], { exact: true }).waitFor()
    await line.getByText(fact.detail, { exact: true }).waitFor()
    if (fact.fix) await line.getByText(`What to do: ${fact.fix}`, { exact: true }).waitFor()
  }
  await part('Drivers')
  await panel.getByText('offered: its self-test held', { exact: false }).waitFor()
  const enforced = facts.filter((f) => f.group !== 'drivers' && f.state === 'ok').map((f) => f.name).join(', ')
  assert.ok(enforced.includes('seccomp'))
  await panel.getByText(enforced, { exact: true }).waitFor()

  await part('Verify')
  await panel.getByRole('heading', { name: 'Nobody has verified this host yet' }).waitFor()
  await panel.getByText('stockade verify', { exact: true }).waitFor()
  const report = await tell('verify')
  await page.getByRole('button', { name: 'Look again' }).click()
  await panel.getByRole('heading', { name: report.headline }).waitFor()
  await panel.getByText('the quick part alone', { exact: false }).waitFor()
  const all = page.getByRole('table', { name: 'Groups of attacks' }).getByRole('row', { name: 'All together' })
  assert.deepEqual((await all.getByRole('cell').allTextContents()).slice(0, 3), ['All together', String(report.tally.open), String(report.tally.promised)])
  const openReport = async () => {
    const opening = context.waitForEvent('page')
    await page.getByRole('button', { name: 'Open the whole report' }).click()
    return opening
  }
  const tab = await openReport()
  await until(async () => (await tab.title()) === report.headline, 'the page of the report')
  await tab.close()

  // what is open comes first, and nothing of a report is ever obeyed
  await tell('leave')
  await page.getByRole('button', { name: 'Look again' }).click()
  await panel.getByText('not good', { exact: true }).waitFor()
  const wrong = await page.getByRole('table', { name: 'Not as promised' }).getByRole('row').allTextContents()
  assert.deepEqual(wrong.slice(1), ['open the <b>vault</b>OPEN it worked <img src=x onerror=alert(1)>', 'look through a keyholecould not be tried there is no door', 'knockrefused by another layer '])
  const hostile = await openReport()
  await hostile.getByText('the whole report').waitFor()
  assert.equal(await hostile.title(), 'quiet')
  assert.equal(await page.locator('img[src=x]').count(), 0)

  // with the keys alone, from one paper to the other
  await page.getByRole('tab', { name: 'Verify' }).focus()
  await page.keyboard.press('ArrowLeft')
  await panel.getByText('needed by every sandbox').first().waitFor()
}, { expected: /^console: (Blocked script execution|Loading the image '[^']*\/x') |^blocked: .*\/x$/ }) // of the one that means harm
