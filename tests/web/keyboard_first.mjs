// From the link on, with the keys alone: a prompt, out of the terminal, through each tab with the thing that one does there,
// and away with the sandbox. Wherever the focus is, it can be seen. No mouse, and nothing is focused by the test.
import { api, assert, flow, tell, toastWith, tokenOf, until } from './harness.mjs'
import { ready, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  const press = (key) => page.keyboard.press(key)
  const hidden = new Set()
  /** Notes what has the focus and does not show it. Fields where one types have a cursor. */
  const look = async () => {
    const found = await page.evaluate(() => {
      const at = document.activeElement
      if (!at || at === document.body || at.closest('.xterm, .cm-editor')) return ''
      const shows = (el) => el && (getComputedStyle(el).outlineStyle !== 'none' || getComputedStyle(el).boxShadow !== 'none')
      return shows(at) || shows(at.closest('.virtual-row, .profile')) ? '' : at.outerHTML.slice(0, 120)
    })
    if (found) hidden.add(found)
  }
  const has = (locator) => locator.evaluate((el) => el === document.activeElement).catch(() => false)
  /** Tab, or another key, until what has the focus is this. */
  const goTo = async (locator, key = 'Tab') => {
    await locator.waitFor()
    for (let i = 0; i < 60; i++) {
      if (await has(locator)) return
      await press(key)
      await look()
    }
    assert.fail(`the focus never came to ${locator}`)
  }
  const tab = (name) => page.getByRole('tablist', { name: 'Parts of the sandbox' }).getByRole('tab', { name })
  /** From wherever one is in a tab to another one. */
  const open = async (name) => {
    await goTo(page.getByRole('tablist', { name: 'Parts of the sandbox' }).getByRole('tab', { selected: true }), 'Shift+Tab')
    await goTo(tab(name), 'ArrowRight')
    await page.getByRole('tabpanel', { name }).waitFor()
  }

  await page.goto(await tell('link'))
  await until(() => has(page.getByRole('button', { name: 'New sandbox' })), 'the focus on the first thing to do')
  await press('Enter')
  await ready(page)
  await run(page, 'echo he""re', 'here')
  const id = page.url().split('/')[4]
  const token = await tokenOf(page)
  const exec = async (command) => (await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command })).stdout
  await press('F6')
  await until(() => has(page.locator('.term-tab [role=tab]')), 'the way out of the terminal')
  await look()

  await open('Files')
  await goTo(page.getByRole('button', { name: 'New file' }))
  await press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.type('by-keys.txt')
  await press('Enter')
  const editor = page.locator('.cm-content')
  await goTo(editor)
  await page.keyboard.type('typed')
  await press('Control+s')
  await toastWith(page, 'Saved.').waitFor()
  assert.equal(await exec('cat by-keys.txt'), 'typed')
  await press('Escape') // Tab is for the text until then
  await press('Shift+Tab')
  assert.equal(await has(editor), false)

  await open('Runs')
  await goTo(page.getByLabel('Run a command'))
  await page.keyboard.type('echo by-""keys')
  await press('Enter')
  await page.getByRole('list', { name: 'Output' }).getByText('by-keys', { exact: true }).waitFor()

  await open('Activity')
  const events = page.getByRole('list', { name: 'Events' })
  const first = events.locator('[data-open][tabindex="0"]')
  await goTo(first)
  await press('ArrowUp')
  await press('Enter')
  await page.getByRole('dialog').getByText('Kind', { exact: true }).waitFor()
  await press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await until(() => has(first), 'the focus where it was before')

  await open('Snapshots')
  await goTo(page.getByRole('button', { name: 'Take a snapshot' }))
  await press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.type('by-keys')
  await press('Enter')
  await page.getByRole('list', { name: 'Snapshots, newest first' }).getByText('by-keys').first().waitFor()

  await open('Secrets')
  await goTo(page.getByRole('button', { name: 'Add a secret' }))
  await press('Enter')
  await goTo(page.getByRole('dialog').getByLabel('Path', { exact: true }))
  await page.keyboard.type('/tmp/secret')
  await goTo(page.getByRole('dialog').getByLabel('Value', { exact: true }))
  await page.keyboard.type('hush')
  await press('Enter')
  await toastWith(page, '/tmp/secret is written').waitFor()

  await open('Policy')
  await goTo(page.getByLabel('Allow another host'))
  await page.keyboard.type('new.test')
  await press('Enter')
  await goTo(page.getByRole('button', { name: 'Forget it' }))
  await press('Enter')
  await page.getByRole('button', { name: 'Forget it' }).waitFor({ state: 'detached' })
  await goTo(page.getByRole('button', { name: 'As text' }))
  await press('Space')
  await page.getByLabel('In force, as text').waitFor()

  await open('Usage')
  await page.getByText('Processor time', { exact: true }).waitFor()

  // away with it, back again by one key, and away for good
  const remove = async () => {
    await goTo(page.getByRole('button', { name: /^What to do with/ }), 'Shift+Tab')
    await press('Enter')
    await page.getByRole('menu').waitFor()
    await goTo(page.getByRole('menuitem', { name: 'Delete' }), 'ArrowDown')
    await press('Enter')
    await toastWith(page, 'will be deleted').waitFor()
  }
  await remove()
  await press('u')
  await toastWith(page, 'will be deleted').waitFor({ state: 'detached' })
  await remove()
  await page.getByText('This sandbox was deleted.').waitFor()
  await goTo(page.getByRole('button', { name: 'To your sandboxes' }))
  await press('Enter')
  await page.getByText('Run something that you do not trust').waitFor()
  assert.deepEqual([...hidden], [], 'what has the focus and does not show it')
  for (const s of (await api(token, 'GET', '/api/snapshots')).snapshots) await api(token, 'DELETE', `/api/snapshots/${s.id}`)
})
