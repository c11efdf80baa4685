// What is in the editor against the file as it was in a snapshot. Servers of today do not show single files of snapshots, and
// that is what is said.
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

  await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'before' })
  await put('a.txt', 'kept\nnew line\n')
  await compare('a.txt')
  await page.getByRole('heading', { name: 'It cannot be compared' }).waitFor()
  await page.getByText('This server does not show single files of snapshots.').waitFor()
  assert.equal(await page.getByRole('table', { name: 'Differences' }).count(), 0)
  await page.keyboard.press('Escape')
  await dropSandbox(page, id)
})
