// Files as one uses them: walk, make, edit, save, rename, move, delete, download; and somebody else who writes at the same
// time.
import { readFileSync } from 'node:fs'
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, toastWith, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page)
  const token = await tokenOf(page)
  const exec = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  await exec('mkdir -p /tmp/desk/inner; echo one > /tmp/desk/a.txt; printf "def f():\\n    return 1\\n" > /tmp/desk/code.py; head -c 3000000 /dev/zero | tr "\\0" x > /tmp/desk/large.txt; head -c 500 /bin/ls > /tmp/desk/program; ln -s a.txt /tmp/desk/link')
  await page.goto(`/sandboxes/${id}/files?path=/tmp/desk`)
  const list = page.getByRole('list', { name: 'Files' })
  const row = (name) => list.getByRole('listitem')
    .filter({ has: page.locator(`.files-open > .odd-name[title="${name}"]`) })
  const shows = (name) => row(name).first().waitFor()
  const editor = page.locator('.cm-content')
  await shows('a.txt')
  await page.getByText('live', { exact: true }).waitFor()

  // what a program inside makes appears by itself
  await exec('echo new > /tmp/desk/by-itself.txt')
  await shows('by-itself.txt')
  await exec('rm /tmp/desk/by-itself.txt')
  await row('by-itself.txt').waitFor({ state: 'detached' })

  // edit and save
  await row('a.txt').click()
  await editor.waitFor()
  await until(async () => (await editor.textContent()).includes('one'), 'the text')
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('two')
  await page.getByText('not saved', { exact: true }).waitFor()
  await page.keyboard.press('Control+s')
  await toastWith(page, 'Saved.').waitFor()
  assert.equal(await exec('cat /tmp/desk/a.txt'), 'one\ntwo')
  assert.equal(await page.getByText('not saved', { exact: true }).count(), 0)

  // somebody else writes it while it is open and untouched: it is read anew
  await exec('echo three > /tmp/desk/a.txt')
  await until(async () => (await editor.textContent()).includes('three'), 'what somebody else wrote')

  // and while it is being edited: nothing is overwritten unasked
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('mine')
  await exec('echo theirs > /tmp/desk/a.txt')
  await page.getByText('Somebody has changed this file since you opened it').waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  const conflict = page.getByRole('dialog')
  await conflict.getByText('Somebody else has changed this file').waitFor()
  assert.equal(await exec('cat /tmp/desk/a.txt'), 'theirs\n')
  await conflict.getByRole('button', { name: 'Compare' }).click()
  await page.getByRole('table', { name: 'Differences' }).getByText('theirs').waitFor()
  await page.getByRole('dialog').last().getByRole('button', { name: 'Close' }).click()
  await conflict.getByRole('button', { name: 'Overwrite theirs' }).click()
  await until(async () => (await exec('cat /tmp/desk/a.txt')) === 'three\nmine', 'mine on the disk')

  // what was typed is there when one comes back, and the browser asks before it forgets
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('unsaved')
  await page.getByRole('tab', { name: 'Runs' }).click()
  await page.getByRole('tab', { name: 'Files' }).click()
  await page.getByText('Not saved yet:').waitFor()
  await page.locator('.files-drafts').getByRole('button', { name: 'a.txt' }).click()
  await until(async () => (await editor.textContent()).includes('unsaved'), 'what was typed')
  await page.getByRole('button', { name: 'Give up changes' }).click()
  await page.getByRole('button', { name: 'Give them up' }).click()
  await until(async () => !(await editor.textContent()).includes('unsaved'), 'the text of the disk')

  // somebody types while what somebody else wrote is being read: that is kept, and it is said
  let reads = 0
  let go
  const may = new Promise((resolve) => (go = resolve))
  const content = (u) => u.pathname === `/api/sandboxes/${id}/files` && u.searchParams.get('path') === '/tmp/desk/a.txt'
  await page.route(content, async (route) => {
    reads++
    await may
    await route.continue()
  })
  await exec('printf "four, not mine" > /tmp/desk/a.txt')
  await until(() => reads, 'the look at it')
  await editor.click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('typed meanwhile')
  go()
  await page.getByText('Somebody has changed this file since you opened it').waitFor()
  assert.match(await editor.textContent(), /typed meanwhile/)
  await page.getByRole('button', { name: 'Give up changes' }).click()
  await page.getByRole('button', { name: 'Give them up' }).click()
  await until(async () => (await editor.textContent()) === 'four, not mine', 'the text of the disk')

  // colours
  await page.getByRole('button', { name: 'Back', exact: true }).click()
  await row('code.py').click()
  await until(async () => (await page.locator('.cm-line span').count()) > 0, 'a highlighted word')

  // what is no text, or too large, is said to be so
  await page.getByRole('button', { name: 'Back', exact: true }).click()
  await row('program').click()
  await page.getByText('It is not opened for editing').waitFor()
  await page.getByText('7f 45 4c 46').waitFor()
  await page.getByRole('button', { name: 'Back', exact: true }).click()
  await row('large.txt').click()
  await page.getByText('too large to be edited').waitFor()
  await page.getByRole('button', { name: 'Back', exact: true }).click()
  await row('link').click()
  await page.getByText('This is a link to').waitFor()
  await page.getByRole('button', { name: 'Back', exact: true }).click()

  // rename, and undo
  const menu = async (name, item) => {
    await row(name).getByRole('button', { name: /^What to do with/ }).click()
    await page.getByRole('menuitem', { name: item, exact: true }).click()
  }
  await menu('a.txt', 'Rename')
  await page.getByLabel('New name').fill('b.txt')
  await page.getByRole('button', { name: 'Rename it' }).click()
  await shows('b.txt')
  await page.getByRole('button', { name: 'Undo' }).click()
  await shows('a.txt')
  // a name that is taken is not taken from what has it
  await menu('a.txt', 'Rename')
  await page.getByLabel('New name').fill('code.py')
  await page.getByRole('button', { name: 'Rename it' }).click()
  await page.getByRole('dialog').getByText('Replace what is there?').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await menu('a.txt', 'Move…')
  await page.getByLabel('To which folder').fill('/tmp/desk/inner')
  await page.getByRole('button', { name: 'Move it' }).click()
  await row('a.txt').waitFor({ state: 'detached' })
  assert.match(await exec('ls /tmp/desk/inner'), /a\.txt/)

  // the tree leads there
  await page.getByRole('treeitem', { name: 'inner' }).click()
  await shows('a.txt')
  await page.getByRole('button', { name: 'New folder' }).click()
  await page.getByLabel('Name', { exact: true }).fill('deep')
  await page.getByRole('button', { name: 'Make it' }).click()
  await shows('deep')
  await page.getByRole('button', { name: 'New file' }).click()
  await page.getByLabel('Name', { exact: true }).fill('made.txt')
  await page.getByRole('button', { name: 'Make it' }).click()
  await editor.waitFor()
  await page.getByRole('button', { name: 'Back', exact: true }).click()

  // delete asks
  await menu('made.txt', 'Delete')
  await page.getByRole('button', { name: 'Delete for good' }).click()
  await row('made.txt').waitFor({ state: 'detached' })
  await menu('deep', 'Delete')
  await page.getByRole('button', { name: 'Delete for good' }).click()
  await row('deep').waitFor({ state: 'detached' })
  assert.equal(await exec('ls /tmp/desk/inner'), 'a.txt\n')

  // download: the bytes that are there
  await page.goto(`/sandboxes/${id}/files?path=/tmp/desk`)
  await shows('large.txt')
  const [got] = await Promise.all([page.waitForEvent('download'), menu('large.txt', 'Download')])
  assert.equal(got.suggestedFilename(), 'large.txt')
  const bytes = readFileSync(await got.path())
  assert.equal(bytes.length, 3_000_000)
  assert.ok(bytes.every((b) => b === 120))
  const [folder] = await Promise.all([page.waitForEvent('download'), menu('inner', 'Download as an archive')])
  assert.ok(readFileSync(await folder.path()).includes('mine'))

  await dropSandbox(page, id)
})
