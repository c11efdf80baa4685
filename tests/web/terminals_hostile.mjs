// A sandbox that fights its terminal: titles with markup, the clipboard, links, questions, piles of marks, numbers without
// end, bells and floods. The page stays what it is, and stays alive.
import { api, assert, dropSandbox, flow, openSandbox, signInByKey, SLOW, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { pane, ready, rows, run } from './terminal.mjs'
import { watchWork } from './work.mjs'

const LONGEST = 200 * SLOW // of work at a time, in ms

await flow(async ({ browser, visitor }) => {
  const { page, context } = await visitor()
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'terminals')
  await ready(page)
  await page.evaluate(() => navigator.clipboard.writeText('untouched'))
  const play = async (name, bytes) => {
    const response = await fetch(`${new URL(page.url()).origin}/api/sandboxes/${id}/files?path=/tmp/${name}`, { method: 'PUT', headers: { Authorization: `Bearer ${await tokenOf(page)}`, 'Content-Type': 'application/octet-stream' }, body: bytes })
    assert.ok(response.ok, await response.text())
    await pane(page).locator('.xterm-screen').click()
    await run(page, `clear; cat /tmp/${name}; echo; echo aft""er-${name}`, `after-${name}`)
  }

  // a title with markup, a direction, a line break, and no end
  const evil = '<img src=x onerror="window.broken=1">\u202egnp.exe\n'
  await play('title', `\u001b]0;${evil}${'A'.repeat(100_000)}\u0007`)
  const said = page.locator('.term-said')
  await said.waitFor()
  const title = await said.textContent()
  assert.ok(title.startsWith('<img src=x onerror="window.bro'), title)
  assert.ok(title.length <= 60 && !/[\u202e\n]/.test(title), JSON.stringify(title))
  assert.equal(await page.title().then((t) => t.includes('img')), false)
  assert.equal(await page.locator('.terms img').count(), 0)

  // the clipboard is the reader's
  await play('clipboard', `\u001b]52;c;${Buffer.from('rm -rf ~').toString('base64')}\u0007\u001b]52;c;?\u0007`)
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'untouched')

  // a link asks before it leads anywhere; others lead nowhere
  let opened = 0
  context.on('page', () => opened++)
  await play('links', '\u001b]8;;https://evil.example/?a=<b>\u001b\\good-link\u001b]8;;\u001b\\ \u001b]8;;javascript:window.broken=1\u001b\\bad-link\u001b]8;;\u001b\\\r\n')
  const clickOn = async (text) => {
    // rows are drawn anew at any moment: an element may be gone between being found and being asked
    const box = await until(() => pane(page).locator('.xterm-rows span', { hasText: text }).first().boundingBox(), text)
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
    await page.mouse.move(box.x + box.width / 2 + 3, box.y + box.height / 2) // it notices on the way
    await page.mouse.click(box.x + box.width / 2 + 3, box.y + box.height / 2)
  }
  const question = page.getByRole('dialog')
  for (const links of [['good-link'], ['bad-link', 'good-link']]) {
    await until(async () => {
      for (const link of links) await clickOn(link)
      // another click before it has come would be beside it, and close it
      return question.waitFor({ timeout: 2000 * SLOW }).then(() => true, () => false)
    }, 'the question before the link is opened')
    assert.match(await question.textContent(), /evil\.example/) // the first that comes: had the bad one asked, it would be that
    await question.getByRole('button', { name: 'Cancel' }).click()
    await question.waitFor({ state: 'detached' })
  }
  assert.equal(opened, 0)
  assert.equal(await page.evaluate(() => window.broken), undefined)

  // colours of single letters get past the content security policy, the honest way
  await play('colours', '\u001b[38;2;1;200;3mtrue-colour\u001b[0m')
  const colour = await until(() => pane(page).locator('.xterm-rows span', { hasText: 'true-colour' }).first().evaluate((s) => getComputedStyle(s).color), 'a colour')
  assert.match(colour, /rgb\(1, 200, 3\)/)

  // work without end: none of it may hold the page up
  const worked = await watchWork(browser)
  await play('numbers', ['b', 'S', 'T', 'L', 'M', '@', 'P', 'I', 'Z'].map((final) => `a\u001b[2147483647${final}`).join('') + '\u001b[2147483647 @\u001b[2147483647 A\u001b[2147483647\'}\u001b[0m')
  await play('marks', `e${'\u0301'.repeat(200_000)}x`)
  await play('bells', '\u0007'.repeat(100_000))
  await play('titles', Array.from({ length: 20_000 }, (_, i) => `\u001b]0;title ${i}\u0007`).join(''))
  await play('questions', '\u001b[c\u001b[6n\u001b]10;?\u0007'.repeat(5_000))
  // the answers are still being typed into the shell: it has an empty line again when they are over
  await until(async () => {
    await page.keyboard.press('Control+C')
    await page.keyboard.type('echo cle""an\n')
    return /^clean$/m.test(await rows(page))
  }, 'an empty line')
  // links without end: many of them, and one that goes over many lines; then as many lines again
  await play('links-many', Array.from({ length: 50_000 }, (_, i) => `\u001b]8;${i % 2 ? `id=${i}` : ''};http://a.example/${i}\u0007.\u001b]8;;\u0007`).join(''))
  await play('links-long', `\u001b]8;;http://a.example/\u0007${'x\r\n'.repeat(30_000)}`)
  await play('lines', 'y\r\n'.repeat(30_000))
  await play('unclosed', `\u001b]0;${'B'.repeat(500_000)}\u0018`)
  assert.equal(await page.evaluate(() => window.broken), undefined)

  // a flood: what is typed still arrives, memory has an end, and it can be stopped
  await run(page, 'clear; yes flo""od-flo""od', 'flood-flood')
  await page.getByRole('button', { name: 'Larger letters' }).click()
  await pane(page).locator('.xterm-screen').click()
  await until(async () => {
    await page.keyboard.press('Control+C')
    await page.keyboard.type('echo qui""et\n')
    return (await rows(page)).includes('quiet')
  }, 'the end of the flood')
  const { took, longest, total } = await worked()
  console.log(JSON.stringify({ took_ms: Math.round(took), longest_work_ms: Math.round(longest), work_ms: Math.round(total) }))
  assert.ok(longest < LONGEST, `the page worked for ${Math.round(longest)} ms without a look at anything else`)
  await api(await tokenOf(page), 'GET', `/api/sandboxes/${id}`)
  await dropSandbox(page, id)
})
