// Uploads: 100 MB with progress, byte for byte; a folder; one that is cancelled and leaves nothing; one that was dropped.
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, SLOW, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const folder = mkdtempSync(join(tmpdir(), 'upload-'))
const large = join(folder, 'large.bin')
const hash = createHash('sha256')
const file = openSync(large, 'w')
const piece = randomBytes(1 << 20)
for (let i = 0; i < given.mib; i++) {
  piece.writeUInt32LE(i)
  hash.update(piece)
  writeSync(file, piece)
}
closeSync(file)
const sum = hash.digest('hex')

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page)
  const token = await tokenOf(page)
  const exec = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  await exec('mkdir -p /home/desk 2>/dev/null || mkdir -p /tmp/desk; ln -sfn "$(ls -d /home/desk 2>/dev/null || echo /tmp/desk)" /tmp/place')
  const place = (await exec('readlink -f /tmp/place')).trim()
  await page.goto(`/sandboxes/${id}/files?path=${place}`)
  await page.getByText('This folder is empty').waitFor()

  // with progress on the way
  await page.evaluate(() => {
    window.seen = []
    new MutationObserver(() => {
      const bar = document.querySelector('.uploads-line progress')
      if (bar) window.seen.push(bar.value)
    }).observe(document.body, { subtree: true, childList: true, attributes: true })
  })
  await page.locator('input[data-pick=files]').setInputFiles(large)
  await page.locator('.uploads-line[data-state=done]').waitFor({ timeout: 240_000 * SLOW })
  const seen = await page.evaluate(() => [...new Set(window.seen)])
  assert.ok(seen.some((value) => value > 0 && value < 100), `progress: ${seen}`)
  assert.equal((await exec(`sha256sum < ${place}/large.bin`)).split(' ')[0], sum)
  await page.locator('.files-row', { hasText: 'large.bin' }).waitFor()

  // cancelled half way: nothing of it is there
  await page.getByRole('button', { name: 'Clear' }).click()
  await exec(`rm ${place}/large.bin`)
  await page.evaluate(() => (window.seen = []))
  await page.context().newCDPSession(page).then((cdp) => cdp.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 2 << 20 }))
  await page.locator('input[data-pick=files]').setInputFiles(large)
  await page.locator('.uploads-line[data-state=sends]').waitFor()
  await page.locator('.uploads-line').getByRole('button', { name: 'Cancel' }).click()
  await page.locator('.uploads-line[data-state=cancelled]').waitFor()
  await until(async () => (await exec(`ls -A ${place} | wc -l`)).trim() === '0', 'a folder with nothing in it')

  // a folder, with what is inside of it
  const tree = join(folder, 'tree')
  mkdirSync(join(tree, 'a/b'), { recursive: true })
  for (const name of ['top.txt', 'a/one.txt', 'a/b/two.txt']) writeFileSync(join(tree, name), `text of ${name}`)
  await page.locator('input[data-pick=folder]').setInputFiles(tree)
  await until(async () => (await page.locator('.uploads-line[data-state=done]').count()) === 3, 'three files')
  assert.equal(await exec(`cat ${place}/tree/a/b/two.txt ${place}/tree/top.txt`), 'text of a/b/two.txttext of top.txt')
  await page.locator('.files-row[data-kind=folder]', { hasText: 'tree' }).waitFor()

  // what is there already is replaced only by who says so; the others go without it
  writeFileSync(join(tree, 'a/one.txt'), 'another text')
  writeFileSync(join(tree, 'fresh.txt'), 'a new one')
  await page.getByRole('button', { name: 'Clear' }).click()
  const question = page.getByRole('dialog', { name: 'Replace what is there?' })
  await page.locator('input[data-pick=folder]').setInputFiles(tree)
  await question.getByText('3 of 4 files are there already.').waitFor()
  await question.getByRole('button', { name: 'Cancel' }).click()
  await page.locator('input[data-pick=folder]').setInputFiles(tree)
  await question.getByRole('button', { name: 'Upload only the other 1' }).click()
  await page.locator('.uploads-line[data-state=done]', { hasText: 'fresh.txt' }).waitFor()
  assert.equal(await page.locator('.uploads-line').count(), 1)
  assert.equal(await exec(`cat ${place}/tree/a/one.txt`), 'text of a/one.txt')
  await page.locator('input[data-pick=folder]').setInputFiles(tree)
  await question.getByText('4 of 4 files are there already.').waitFor()
  await question.getByRole('button', { name: 'Replace them' }).click()
  await until(async () => (await exec(`cat ${place}/tree/a/one.txt`)) === 'another text', 'what replaced it')

  // dropped on the page
  await page.evaluate(() => {
    const transfer = new DataTransfer()
    transfer.items.add(new File(['dropped text'], 'dropped.txt'))
    document.querySelector('.files-view').dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }))
  })
  await page.locator('.files-row', { hasText: 'dropped.txt' }).waitFor()
  assert.equal(await exec(`cat ${place}/dropped.txt`), 'dropped text')
  await dropSandbox(page, id)
})
rmSync(folder, { recursive: true })
