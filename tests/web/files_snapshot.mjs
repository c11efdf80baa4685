// What is in the editor against the file as it was in a snapshot, line by line; and in words where that cannot be.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page)
  const token = await tokenOf(page)
  const exec = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  // where it stays: not every folder is part of a snapshot
  const home = (await exec('cd; pwd')).trim()
  const put = async (name, body) => assert.ok((await fetch(`${url}/api/sandboxes/${id}/files?path=${home}/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/octet-stream' }, body })).ok)
  const compare = async (name) => {
    await page.goto(`/sandboxes/${id}/files?file=${home}/${name}`)
    await page.locator('.cm-content').waitFor()
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
  }
  await put('a.txt', 'kept\nold line\n')
  await compare('a.txt')
  await page.getByText('There is no snapshot yet').waitFor()
  await page.keyboard.press('Escape')

  await exec('cd; printf "a\\0b" > zeros; head -c 3000000 /dev/zero | tr "\\0" x > large; mkdir folder; ln -s a.txt link')
  await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'before' })
  await put('a.txt', 'kept\nnew <b>line</b>\n')
  await compare('a.txt')
  const table = page.getByRole('table', { name: 'Differences' })
  await table.locator('.diff-gone', { hasText: 'old line' }).waitFor()
  await table.locator('.diff-new', { hasText: 'new <b>line</b>' }).waitFor()
  assert.equal(await table.locator('.diff-gone, .diff-new').count(), 2)
  assert.equal(await table.locator('b').count(), 0)
  await page.keyboard.press('Escape')

  // what is typed and not saved is what is compared
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('typed')
  await page.getByRole('button', { name: 'Compare', exact: true }).click()
  await table.locator('.diff-new', { hasText: 'typed' }).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Give up changes' }).click()
  await page.getByRole('button', { name: 'Give them up' }).click()

  // later files, and those that were something else then
  await put('later.txt', 'new')
  await compare('later.txt')
  await page.getByText('The snapshot does not have this file').waitFor()
  await page.keyboard.press('Escape')
  for (const [name, words] of [['zeros', 'zero bytes'], ['large', 'too large'], ['folder', 'a folder'], ['link', 'a link']]) {
    await exec(`cd; rm -rf ${name}; echo text > ${name}`)
    await compare(name)
    await page.getByRole('heading', { name: 'It cannot be compared' }).waitFor()
    await page.getByText(words).waitFor()
    assert.equal(await table.count(), 0)
    await page.keyboard.press('Escape')
  }
  await dropSandbox(page, id)
})
