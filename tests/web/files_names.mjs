// Names that are not what they seem: line breaks, markup, other directions, escapes, 255 bytes. They are shown as text, can
// be opened, renamed and deleted, and break nothing.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const NAMES = ['<img src=x onerror="window.broken=1">', 'two\nlines', 'photo\u202egnp.exe', '\u001b]0;title\u0007', ' spaces ', '"quoted" & \'more\'', '%2e%2e', '..hidden', '#hash?query=1', 'ü'.repeat(127) + 'x', '-rf', '{{7*7}}', '\u200b']

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page)
  const token = await tokenOf(page)
  const base = '/tmp/odd'
  await api(token, 'POST', `/api/sandboxes/${id}/files/folder`, { path: base })
  for (const [i, name] of NAMES.entries()) {
    const response = await fetch(`${url}/api/sandboxes/${id}/files?path=${base}/plain`, { method: 'PUT', headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/octet-stream' }, body: `inside ${i}` })
    assert.ok(response.ok, await response.text())
    await api(token, 'POST', `/api/sandboxes/${id}/files/move`, { path: `${base}/plain`, to: `${base}/${name}` })
  }
  await page.goto(`/sandboxes/${id}/files?path=${base}`)
  const rows = page.locator('.files-row')
  await until(async () => (await rows.count()) === NAMES.length, 'all of them')
  const shown = await rows.locator('.odd-name').allTextContents()
  assert.ok(shown.includes('<img src=x onerror="window.broken=1">'), shown.join('|'))
  assert.ok(shown.includes('two\\nlines'), shown.join('|'))
  assert.ok(shown.includes('photoU+202Egnp.exe'), shown.join('|'))
  assert.ok(shown.every((text) => !/[\u0000-\u001f\u202e\u200b]/.test(text)), JSON.stringify(shown))

  const row = (title) => rows.filter({ has: page.locator(`.files-open > .odd-name[title=${JSON.stringify(title)}]`) })
  // each can be opened, and is the file that it says it is
  const open = async (i) => {
    await rows.nth(i).locator('.odd-name').click()
    await page.locator('.cm-content').waitFor()
    const text = await until(() => page.locator('.cm-content').textContent(), 'its text')
    await page.getByRole('button', { name: 'Back', exact: true }).click()
    await until(async () => (await rows.count()) === NAMES.length, 'the list')
    return text
  }
  const found = []
  for (let i = 0; i < NAMES.length; i++) found.push(await open(i))
  assert.deepEqual([...found].sort(), NAMES.map((_, i) => `inside ${i}`).sort())

  // those with controls in them are offered a name that fits into one line
  for (const [title, name] of [['two‹\\n›lines', 'two lines'], ['‹\\e›]0;title‹U+0007›', 'a title']]) {
    await row(title).getByRole('button', { name: /^What to do with/ }).click()
    await page.getByRole('menuitem', { name: 'Rename' }).click()
    await page.getByLabel('New name').fill(name)
    await page.getByRole('button', { name: 'Rename it' }).click()
    await row(name).waitFor()
  }

  // what is wrong with a name is said before anything is asked of the server
  await page.getByRole('button', { name: 'New file' }).click()
  for (const [name, words] of [['a/b', 'no slash'], ['..', 'meaning of its own'], ['x'.repeat(256), 'at most 255 bytes']]) {
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByRole('button', { name: 'Make it' }).click()
    await page.getByText(words).waitFor()
  }
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()

  // all of them go at once, also one with controls in its name
  await api(token, 'POST', `/api/sandboxes/${id}/files/move`, { path: `${base}/two lines`, to: `${base}/two\nlines` })
  await row('two‹\\n›lines').waitFor()
  await page.getByRole('checkbox', { name: 'Choose all' }).check()
  await page.getByRole('button', { name: `Delete ${NAMES.length} chosen` }).click()
  await page.getByRole('button', { name: 'Delete for good' }).click()
  await page.getByText('This folder is empty').waitFor()

  // a time beyond all calendars is no reason to break
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: `touch -d @99999999999999 ${base}/from-afar` })
  await row('from-afar').getByText('unknown time').waitFor()
  assert.equal(await page.evaluate(() => window.broken), undefined)
  assert.equal(await page.locator('.files img').count(), 0)
  await dropSandbox(page, id)
})
