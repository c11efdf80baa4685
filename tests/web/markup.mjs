// Whatever the server says is text. It would not let such names through; a server that did must not become a script here.
import { assert, flow, signInByKey, until } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const EVIL = '"><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const box = { id: '0123456789abcdef', owner: 'o', name: EVIL, state: 'failed', reason: EVIL, profile: EVIL, driver: EVIL, image: EVIL, persistent: true, created_ms: Date.now(), started_ms: 0, ended_ms: 0, used_ms: 0 }
  await context.route('**/api/sandboxes?*', (route) => route.fulfill({ json: { sandboxes: [box], next_cursor: null } }))
  await context.route('**/api/sandboxes/0123456789abcdef', (route) => route.fulfill({ json: box }))
  await context.route('**/api/profiles', (route) => route.fulfill({ json: { profiles: [{ name: EVIL, about: EVIL, standard: true, ok: true, sections: [{ title: EVIL, sentences: [EVIL] }] }] } }))
  await context.route('**/api/profiles/check', (route) => route.fulfill({ status: 400, json: { code: 'BAD', error: EVIL, hint: EVIL } }))
  await signInByKey(page, newWallet())
  await page.getByRole('listitem').getByText(EVIL, { exact: true }).first().waitFor()
  await page.goto('/sandboxes/0123456789abcdef')
  await page.getByRole('heading', { name: EVIL }).waitFor()
  await until(async () => (await page.title()).includes('<script>'), 'the title')
  await page.goto('/create')
  await page.getByRole('alert').getByText('onerror').first().waitFor()
  assert.equal(await page.locator('img[src=x]').count(), 0)
  assert.notEqual(await page.title(), 'owned')

  // and a script that got in somehow else would not run: the policy of the page
  const ran = await page.evaluate(() => {
    const script = document.createElement('script')
    try {
      script.textContent = 'window.ran = true'
      document.body.append(script)
    } catch {
      return 'refused'
    }
    return String(window.ran)
  })
  assert.notEqual(ran, 'true')
}, { expected: /Content Security Policy|TrustedScript|Trusted Type/ })
