// Pictures of the main pages, as a new user comes by them; kept under docs/screens. The daemon, the sandboxes and what they
// print are real.
import { api, flow, given, signInByLink, tell, tokenOf } from './harness.mjs'
import { injectWallet, newWallet } from './wallets.mjs'

const DARK = { colorScheme: 'dark' }
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 }

async function shot(page, name) {
  await page.evaluate(() => document.fonts.ready)
  await page.locator('.skeleton').first().waitFor({ state: 'detached' })
  await page.screenshot({ path: `${given.folder}/${name}.png`, animations: 'disabled' })
}

await flow(async ({ visitor }) => {
  const guest = await visitor()
  await injectWallet(guest.context, newWallet(), { name: 'Fox Wallet' })
  await injectWallet(guest.context, newWallet(), { name: 'Blue Wallet' })
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
  await page.getByRole('button', { name: 'New sandbox' }).click()
  await page.waitForURL(/\/terminals$/)
  const id = page.url().split('/')[4]
  await page.locator('.xterm-rows').first().getByText('$').first().waitFor()
  await page.locator('.xterm').first().click()
  await page.keyboard.type('echo "hello from inside" > note.txt; ls -l; id; curl -sS https://example.com\n')
  await page.locator('.xterm-rows').first().getByText('note.txt').first().waitFor()
  await shot(page, 'terminal')

  const token = await tokenOf(page)
  const names = ['data-cleaning', 'nightly-tests', 'agent-7', 'pull-request-412', 'notebook']
  for (const [i, name] of names.entries()) {
    const made = await api(token, 'POST', '/api/sandboxes', { profile: i % 2 ? 'low' : 'medium', name })
    if (i === 1) await api(token, 'POST', `/api/sandboxes/${made.id}/stop`, {})
    if (i === 3) await api(token, 'POST', `/api/sandboxes/${made.id}/pause`, {})
  }
  await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command: 'mkdir -p src; printf \'def greet(name):\\n    return f"hello {name}"\\n\\nprint(greet("world"))\\n\' > src/main.py; printf "# Notes\\n" > README.md' })
  await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'clean' })
  await page.goto('/sandboxes')
  await page.getByText('nightly-tests').waitFor()
  await shot(page, 'sandboxes')
  await page.goto('/create')
  await page.locator('.summary-text[aria-busy=false]').getByText('It reaches nothing').waitFor()
  await shot(page, 'create')
  for (const tab of given.tabs) {
    await page.goto(`/sandboxes/${id}/${tab}`)
    await page.locator(`#panel-${tab}`).waitFor()
    await page.waitForFunction((id) => document.getElementById(id)?.textContent.length > 20 && !document.querySelector('.skeleton'), `panel-${tab}`)
    await shot(page, tab)
  }

  const dark = await visitor(DARK)
  await signInByLink(dark.page)
  await dark.page.getByText('nightly-tests').waitFor()
  await shot(dark.page, 'sandboxes-dark')
  await dark.page.goto(`/sandboxes/${id}/terminals`)
  await dark.page.locator('.xterm-rows').first().getByText('note.txt').first().waitFor()
  await shot(dark.page, 'terminal-dark')
  await dark.page.goto('/create')
  await dark.page.locator('.summary-text[aria-busy=false]').getByText('It reaches nothing').waitFor()
  await shot(dark.page, 'create-dark')

  const phone = await visitor(PHONE)
  await signInByLink(phone.page)
  await phone.page.getByText('nightly-tests').waitFor()
  await shot(phone.page, 'sandboxes-phone')
  await phone.page.goto(`/sandboxes/${id}/terminals`)
  await phone.page.locator('.xterm').first().waitFor()
  await shot(phone.page, 'terminal-phone')

  const operator = await visitor()
  await operator.page.goto(await tell('link', { operator: true }))
  await operator.page.getByRole('link', { name: 'Operator' }).click()
  await operator.page.getByRole('heading').first().waitFor()
  await operator.page.getByText('Promised to sandboxes').waitFor()
  await shot(operator.page, 'operator')
})
