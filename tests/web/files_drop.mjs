// A folder is dropped on the page, as from a desktop: all that is in it arrives, also what is empty.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const folder = mkdtempSync(join(tmpdir(), 'drop-'))
const tree = join(folder, 'tree')
mkdirSync(join(tree, 'a/b'), { recursive: true })
mkdirSync(join(tree, 'empty'))
for (const name of ['top.txt', 'a/one.txt', 'a/b/two.txt']) writeFileSync(join(tree, name), `text of ${name}\n`)

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page)
  const token = await tokenOf(page)
  const exec = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  await exec('mkdir -p /tmp/desk')
  await page.goto(`/sandboxes/${id}/files?path=/tmp/desk`)
  await page.getByText('This folder is empty').waitFor()

  // the browser's own drop: scripts cannot make one that has a folder in it
  const cdp = await context.newCDPSession(page)
  const box = await page.locator('.files-view').boundingBox()
  const data = { items: [], files: [tree], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop']) await cdp.send('Input.dispatchDragEvent', { type, x: box.x + box.width / 2, y: box.y + box.height / 2, data })
  await page.locator('.files-row[data-kind=folder]', { hasText: 'tree' }).waitFor()
  await until(async () => (await exec('cd /tmp/desk && find . | sort')) === '.\n./tree\n./tree/a\n./tree/a/b\n./tree/a/b/two.txt\n./tree/a/one.txt\n./tree/empty\n./tree/top.txt\n', 'all of it')
  assert.equal(await exec('cd /tmp/desk/tree && cat top.txt a/one.txt a/b/two.txt'), 'text of top.txt\ntext of a/one.txt\ntext of a/b/two.txt\n')
  await dropSandbox(page, id)
})
rmSync(folder, { recursive: true })
