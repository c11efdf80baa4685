// Runs: start one, watch it print, signal and end it; how it ended in words; filters; evidence.
import { readFileSync } from 'node:fs'
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'runs')
  const command = page.getByLabel('Run a command')
  const start = async (line) => {
    await command.fill(line)
    await page.keyboard.press('Enter')
    await until(async () => (await command.inputValue()) === '', 'the run')
  }
  const run = page.locator('section.run')
  const output = page.getByRole('list', { name: 'Output' })
  await page.getByText('Nothing was run yet').waitFor()

  // what it prints appears while it runs, both kinds, without sequences or markup
  await start(`printf '\\033[31mred\\033[0m <b>bold</b>\\n'; echo wrong >&2; until [ -e /tmp/go ]; do sleep 0.1; done; echo gone-on; exit 3`)
  await output.getByText('red <b>bold</b>').waitFor()
  await output.locator('.run-error', { hasText: 'wrong' }).waitFor()
  await run.getByText('Runs', { exact: true }).waitFor()
  await api(await tokenOf(page), 'POST', `/api/sandboxes/${id}/exec`, { command: 'touch /tmp/go' })
  await output.getByText('gone-on').waitFor()
  await run.getByText('Ended with exit code 3.').waitFor()
  await run.getByText('CPU time').waitFor()
  assert.equal(await page.locator('.run b').count(), 0)

  // reasons in words
  await start('no-such-command-here')
  await run.getByText('there is no such command').waitFor()
  await start('kill -SEGV $$')
  await run.getByText('SIGSEGV').first().waitFor()
  await start('true')
  await run.getByText('Ended well (exit code 0).').waitFor()
  await run.getByText('It printed nothing').waitFor()
  await page.getByRole('button', { name: 'More', exact: true }).click()
  await page.getByLabel('End it after').fill('0.5')
  await start('sleep 600')
  await run.getByText('it took longer than it was given').first().waitFor()
  await page.getByLabel('End it after').fill('')

  // a signal, and the end
  await start('trap "echo caught" USR1; echo up; while :; do sleep 0.2; done')
  await output.getByText('up', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Send a signal' }).click()
  await page.getByRole('menuitem', { name: /^USR1/ }).click()
  await output.getByText('caught').waitFor()
  await page.getByRole('button', { name: 'End it', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'End it' }).click()
  await run.getByText('Cancelled.').waitFor()

  // very much output: the page follows, keeps the end, and says what it leaves out
  await start('seq 1 200000')
  await output.getByText('200000', { exact: true }).waitFor()
  await page.getByText(/older lines not shown/).waitFor()

  // lines of what cannot be seen: counted, and no more work than others
  await start('i=0; while [ $i -lt 300 ]; do head -c 3000 /dev/zero | tr "\\0" "\\1"; echo; head -c 3000 /dev/zero | tr "\\0" a | sed "s/a/\\x01\\x02/g"; echo; i=$((i+1)); done; echo all-odd')
  await output.getByText('all-odd', { exact: true }).waitFor()
  await output.getByText('U+0001 ×3000').first().waitFor()
  await output.getByText(/… and \d+ more pieces/).first().waitFor()
  assert.ok((await output.locator('.odd-piece').count()) < 5000)

  // one that somebody else begins appears by itself
  await api(await tokenOf(page), 'POST', `/api/sandboxes/${id}/exec`, { command: 'echo from-elsewhere', background: true })
  const list = page.getByRole('list', { name: 'Runs' })
  await list.getByText('echo from-elsewhere').waitFor()

  // filters
  await page.getByLabel('Filter runs').fill('no-such')
  await until(async () => (await list.locator('.runs-row').count()) === 1, 'the one')
  await page.getByLabel('Filter runs').fill('')
  await page.getByLabel('Which runs').selectOption('failed')
  await until(async () => (await list.getByText('from-elsewhere').count()) === 0, 'only those that failed')
  await page.getByLabel('Which runs').selectOption('all')

  // evidence
  await list.getByText('echo from-elsewhere').click()
  await output.getByText('from-elsewhere').waitFor()
  const [got] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Evidence' }).click()])
  await toastWith(page, 'ledger verify').waitFor()
  assert.match(readFileSync(await got.path(), 'utf8'), /run\.start/)

  // a link to a run leads to it
  const at = page.url()
  await page.goto('/sandboxes')
  await page.goto(at)
  await output.getByText('from-elsewhere').waitFor()
  await dropSandbox(page, id)
})
