// Terminals as one uses them: the first is there by itself, types and reads, fills its place, is split, searched, copied from,
// and found again after a reload.
import { assert, dropSandbox, flow, openSandbox, signInByKey, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, rows, run } from './terminal.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals')

  // nobody had to ask for it
  await ready(page)
  await run(page, 'echo he""llo-$((40+2))', 'hello-42')
  assert.equal(await page.locator('.term-pane').count(), 1)

  // its size is the one that one sees, also after the window has changed
  const size = async () => {
    await page.keyboard.type('stty size | tr " " x | sed s/^/size-/\n')
    return until(async () => /size-(\d+x\d+)(?![\s\S]*stty size)/.exec(await rows(page))?.[1], 'the size')
  }
  const before = await size()
  await page.setViewportSize({ width: 900, height: 700 })
  await page.keyboard.type('clear\n')
  const after = await until(async () => {
    const found = await size()
    return found !== before && found
  }, 'another size')
  assert.ok(Number(after.split('x')[1]) < Number(before.split('x')[1]), `${before} became ${after}`)
  await page.setViewportSize({ width: 1280, height: 800 })

  // larger letters: fewer columns, and remembered
  await page.getByRole('button', { name: 'Larger letters' }).click()
  await page.getByRole('button', { name: 'Larger letters' }).click()
  assert.equal(await page.evaluate(() => localStorage.getItem('stockade.terminal.font')), '16')

  // search, also in what has scrolled away
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'clear; echo need""le; seq 1 300; echo bot""tom', 'bottom')
  await page.keyboard.press('Control+Shift+F')
  await page.getByRole('searchbox', { name: 'Search in this terminal' }).fill('needle')
  await page.getByText('1 of 1').waitFor()
  await until(async () => (await rows(page)).includes('needle'), 'the place that was found')
  await page.keyboard.press('Escape')

  // a selection that is dragged out of it goes on in what has scrolled away (before anything else scrolls it: for a moment after that all is allowed)
  await run(page, 'clear; seq 1 300; echo dra""gged', 'dragged')
  const screen = await pane(page).locator('.xterm-screen').boundingBox()
  await page.mouse.move(screen.x + 50, screen.y + screen.height / 2)
  await page.mouse.down()
  await page.mouse.move(screen.x + 40, screen.y - 60, { steps: 5 })
  await until(async () => /^1$/m.test(await rows(page)), 'the first of them')
  await page.mouse.up()

  // what was printed last is what one sees, also where the screen was cleared before; who scrolls up stays there
  for (const n of [1, 2, 3]) await run(page, `clear; seq 1 30000; echo la""st-${n}`, `last-${n}`)
  await pane(page).hover()
  await until(async () => {
    await page.mouse.wheel(0, -3000)
    return !(await rows(page)).includes('last-3')
  }, 'older lines')
  await run(page, 'echo ba""ck', 'back') // who types sees it

  // copy and paste; several lines are asked about where a program would run each
  await run(page, 'clear; printf "%s\\n" cop""yable', 'copyable')
  const word = pane(page).locator('.xterm-rows > div', { hasText: 'copyable' }).last()
  await word.dblclick({ position: { x: 20, y: 8 } })
  await page.keyboard.press('Control+Shift+C')
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())).includes('copyable'), 'the copy')
  await run(page, 'echo wai""ting; cat > /dev/null; echo ov""er', 'waiting')
  await page.evaluate(() => navigator.clipboard.writeText('first-line\nsecond-\u001b[31mline\n'))
  await page.keyboard.press('Control+Shift+V')
  await page.getByRole('dialog').getByText('Paste 3 lines?').waitFor()
  assert.ok(!(await rows(page)).includes('first-line'))
  await page.getByRole('button', { name: 'Paste them' }).click()
  await until(async () => /second-\[31mline/.test(await rows(page)), 'the pasted line, without its escape')
  await pane(page).locator('.xterm-screen').click()
  await page.keyboard.press('Control+D')
  await until(async () => (await rows(page)).includes('over'), 'the end of what it was pasted to')

  // a second one in the same tab, a third in a tab of its own
  await run(page, 'remember=fir""st; echo set-$remember', 'set-first')
  await page.getByRole('button', { name: /^Split/ }).click()
  await until(async () => (await page.locator('.term-pane').count()) === 2, 'two panes')
  await ready(page, 1)
  await pane(page, 1).locator('.xterm-screen').click()
  await run(page, 'remember=sec""ond; echo set-$remember', 'set-second', true, 1)
  await page.getByRole('button', { name: 'New terminal' }).click()
  await until(async () => (await page.locator('.term-tabs [role=tab]').count()) === 2, 'two tabs')

  // all that it shows, in the clipboard, also what has scrolled away
  await ready(page)
  await run(page, 'echo fir""st-of-all; seq 1 200; echo la""st-of-all', 'last-of-all')
  await page.getByRole('button', { name: 'More', exact: true }).click()
  await page.getByRole('menuitem', { name: 'Copy all that is shown' }).click()
  const copied = await until(async () => {
    const text = await page.evaluate(() => navigator.clipboard.readText())
    return text.includes('last-of-all') && text
  }, 'all of it')
  assert.match(copied, /first-of-all\r?\n1\r?\n2\r?\n/)

  // after a reload all of them are there, with what they know
  const sessions = () => page.locator('.term-pane').evaluateAll((all) => all.map((p) => p.dataset.session))
  const had = await sessions()
  await page.reload()
  await until(async () => (await page.locator('.term-pane[data-state=open]').count()) === 3, 'three terminals again')
  assert.deepEqual(await sessions(), had)
  await page.getByRole('tab', { name: /^#/ }).first().click()
  await until(async () => (await rows(page)).includes('set-first') && (await rows(page, 1)).includes('set-second'), 'what they had shown')
  await pane(page).locator('.xterm-screen').click()
  await run(page, 'echo still-$remember', 'still-first')
  // nothing was typed by the page itself when it drew old output again
  assert.ok(!/;\d+[cR]/.test(await rows(page)), await rows(page))

  // the end of a shell is said, and another can be had in its place
  await page.keyboard.type('exit 7\n')
  await page.getByText('Ended with exit code 7').waitFor()
  await page.getByRole('button', { name: 'New shell here' }).click()
  await until(async () => (await page.locator('.term-pane[data-state=open]').count()) === 3, 'a new shell')

  // closing asks, and ends it for good
  await pane(page).locator('.xterm-screen').click()
  await page.getByRole('button', { name: /^Close terminal/ }).first().click()
  await page.getByRole('dialog').getByRole('button', { name: 'Close it' }).click()
  await until(async () => (await page.locator('.term-pane').count()) === 2, 'one less')
  await page.reload()
  await until(async () => (await page.locator('.term-pane[data-state=open]').count()) === 2, 'the others')

  // by keyboard alone: out of the screen, along the tabs
  await pane(page).locator('.xterm-helper-textarea').focus()
  await page.keyboard.press('F6')
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('role')), 'tab')
  await page.keyboard.press('ArrowRight')
  await until(async () => (await page.locator('.term-tabs [role=tab]').nth(1).getAttribute('aria-selected')) === 'true', 'the next tab')
  await dropSandbox(page, id)
})
