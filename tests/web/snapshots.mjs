// A line in time: take one, change files (with names that look like markup), compare, put back, fork, download, bring in, delete.
import { readFileSync } from 'node:fs'
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const ODD = '<b onclick=x>&amp;.txt'

await flow(async ({ visitor }) => {
  const { page } = await visitor({ acceptDownloads: true })
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'snapshots')
  const token = await tokenOf(page)
  const run = async (command, of = id) => (await api(token, 'POST', `/api/sandboxes/${of}/exec`, { command })).stdout
  await page.getByText('No snapshots yet').waitFor()
  await run('echo one > kept.txt; echo away > gone.txt; echo same > rights.txt; printf "end\\n" > newline.txt')

  const take = async (name) => {
    await page.getByRole('button', { name: 'Take a snapshot' }).click()
    await page.getByLabel('Name (may stay empty)').fill(name)
    await page.getByRole('button', { name: 'Take it' }).click()
  }
  await take('not a name!')
  await page.getByRole('dialog').getByText("Only letters, digits, '.', '_' and '-'.").waitFor()
  await page.keyboard.press('Escape')
  await take('first')
  const line = page.getByRole('list', { name: 'Snapshots, newest first' })
  const first = line.locator('.moment', { hasText: /^first/ })
  await first.waitFor()

  // what changed since; what runs has to stand still for that, so a snapshot of now is offered
  await run(`echo two > kept.txt; echo x > '${ODD}'; mkdir folder; printf 'a\\0b' > picture; rm gone.txt; chmod 700 rights.txt; printf end > newline.txt`)
  await first.getByRole('button', { name: 'Compare' }).click()
  const dialog = page.getByRole('dialog')
  const differs = dialog.getByRole('list', { name: 'What differs' })
  const takeFirst = dialog.getByRole('button', { name: 'Take a snapshot and compare' })
  await takeFirst.waitFor()
  assert.equal(await differs.count(), 0)
  await takeFirst.click()
  await differs.getByText(ODD).waitFor()
  await differs.locator('.diff-changed', { hasText: 'kept.txt' }).waitFor()
  assert.equal(await differs.locator('b').count(), 0)

  // and of each file its lines
  const lines = dialog.getByRole('table', { name: 'Differences' })
  const back = dialog.getByRole('button', { name: 'All that differs' })
  await differs.getByRole('button', { name: 'kept.txt' }).click()
  await lines.locator('.diff-gone', { hasText: 'one' }).waitFor()
  await lines.locator('.diff-new', { hasText: 'two' }).waitFor()
  await back.click()
  await differs.getByRole('button', { name: ODD }).press('Enter') // of a new one all of it
  await lines.locator('.diff-new', { hasText: 'x' }).waitFor()
  assert.equal(await lines.locator('.diff-gone').count(), 0)
  await back.click()
  await differs.getByRole('button', { name: 'gone.txt' }).click() // and of one that is gone
  await lines.locator('.diff-gone', { hasText: 'away' }).waitFor()
  assert.equal(await lines.locator('.diff-new').count(), 0)
  await back.click()
  for (const name of ['rights.txt', 'newline.txt']) {
    await differs.getByRole('button', { name }).click()
    await dialog.getByText('Their lines are the same').waitFor()
    await back.click()
  }
  await differs.getByRole('button', { name: 'picture' }).click()
  await dialog.getByText('zero bytes').waitFor()
  await back.click()
  await differs.getByRole('button', { name: 'folder', exact: true }).click()
  await dialog.getByText('It is a folder: it has no lines.').waitFor()
  await back.click()
  await dialog.getByRole('button', { name: 'Close' }).click()

  // one that stands still is compared as it is, and its lines by a snapshot
  await api(token, 'POST', `/api/sandboxes/${id}/stop`, {})
  await first.getByRole('button', { name: 'Compare' }).click()
  await differs.getByRole('button', { name: 'kept.txt' }).click()
  await dialog.getByText('Its lines are read from what stands still.').waitFor()
  await takeFirst.click()
  await lines.locator('.diff-new', { hasText: 'two' }).waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await api(token, 'POST', `/api/sandboxes/${id}/resume`, {})

  // put back, after a question that can be left; what was there is kept
  await first.getByRole('button', { name: 'Roll back' }).click()
  await dialog.getByText('Everything that runs inside is ended').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await run('cat kept.txt'), 'two\n')
  await first.getByRole('button', { name: 'Roll back' }).click()
  await dialog.getByRole('button', { name: 'Roll back' }).click()
  await toastWith(page, 'The files are those of first').waitFor()
  assert.equal(await run('cat kept.txt; ls'), 'one\ngone.txt\nkept.txt\nnewline.txt\nrights.txt\n')
  await line.getByText('before-first').waitFor()

  // another sandbox from it
  await first.getByRole('button', { name: 'More for first' }).click()
  await page.getByRole('menuitem', { name: 'New sandbox from it' }).click()
  await page.getByRole('button', { name: 'Make it' }).click()
  await page.waitForURL((u) => /\/sandboxes\/[0-9a-f]{16}/.test(u.pathname) && !u.pathname.includes(id))
  const fork = new URL(page.url()).pathname.split('/')[2]
  assert.equal(await run('cat kept.txt', fork), 'one\n')
  await page.goto(`/sandboxes/${id}/snapshots`)

  // away and in again
  const more = async (name, what) => {
    await line.getByRole('button', { name: `More for ${name}`, exact: true }).click()
    await page.getByRole('menuitem', { name: what }).click()
  }
  const downloading = page.waitForEvent('download')
  await more('first', 'Download')
  const download = await downloading
  assert.equal(download.suggestedFilename(), 'first.tar.zst')
  await toastWith(page, 'Your browser saves it as first.tar.zst').waitFor()
  const file = await download.path()
  assert.ok(readFileSync(file).length > 100)
  await page.locator('input[type=file]').setInputFiles({ name: 'brought.tar.zst', mimeType: 'application/zstd', buffer: readFileSync(file) })
  await toastWith(page, 'The snapshot brought is there').waitFor()
  await line.locator('.moment', { hasText: 'brought' }).waitFor()

  await more('before-first', 'Delete')
  await page.getByRole('button', { name: 'Delete it' }).click()
  await line.getByText('before-first').waitFor({ state: 'detached' })
  const left = (await api(token, 'GET', '/api/snapshots')).snapshots
  await until(async () => !(await api(token, 'GET', '/api/snapshots')).snapshots.some((s) => s.name === 'before-first'), 'its end')
  await dropSandbox(page, fork)
  await dropSandbox(page, id)
  for (const s of left) await fetch(`${process.env.WEB_URL}/api/snapshots/${s.id}`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })
})
