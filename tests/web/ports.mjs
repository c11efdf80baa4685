// A server inside is found and opened in a tab, which cannot reach the page that opened it.
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, tokenOf, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PAGE = `<h1>hello inside</h1><script>document.title = (() => { try { return localStorage.getItem('stockade.session') ? 'token' : 'clean' } catch { return 'locked' } })() + (window.opener ? ' opener' : '')</script>`

await flow(async ({ visitor }) => {
  const allow = []
  const { page, context, wrong } = await visitor({ allow })
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'ports')
  const token = await tokenOf(page)
  allow.push(`8123-${id}.${given.domain}`)
  await page.getByText('Nothing listens inside').waitFor()
  await page.getByText(given.domain ? `(below ${given.domain})` : 'This server has no ports_domain').waitFor()
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: `cat > index.html <<'END'\n${PAGE}\nEND` })
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: 'python3 -m http.server 8123', background: true })
  const open = page.getByRole('button', { name: 'Open 8123' })
  await until(async () => {
    const again = page.getByRole('button', { name: 'Look again' })
    if (await again.isVisible()) await again.click({ timeout: 2000 }).catch(() => undefined)
    return open.isVisible()
  }, 'the port')
  const opening = context.waitForEvent('page')
  await open.click()
  const tab = await opening
  await tab.getByRole('heading', { name: 'hello inside' }).waitFor()
  if (given.domain) {
    assert.equal(new URL(tab.url()).hostname, `8123-${id}.${given.domain}`)
    assert.ok(!tab.url().includes('ticket='))
    assert.equal(await tab.title(), 'clean')
  } else {
    assert.equal(new URL(tab.url()).pathname, `/api/sandboxes/${id}/port/8123/`)
    // below our own address no script of a sandbox runs: the browser says that it stopped it, and it has changed nothing
    await until(() => wrong.some((w) => /Blocked script execution/.test(w)), 'the script that is stopped')
    assert.equal(await tab.title(), '')
    wrong.splice(0, wrong.length, ...wrong.filter((w) => !/Blocked script execution/.test(w)))
  }
  assert.equal(await tab.evaluate(() => window.opener), null)
  await tab.close()

  // one that is no port
  await page.getByLabel('Another port').fill('70000')
  await page.getByRole('button', { name: 'Open', exact: true }).click()
  await page.getByText('A port is a number from 1 to 65535.').waitFor()
  await dropSandbox(page, id)
})
