// What every flow needs: a browser, people in it who are signed in, and ways to wait for things. Nothing here waits for a
// length of time: it waits for what should come, with a deadline that a busy machine keeps too.
//
//     await flow(async ({ visitor }) => {
//       const { page } = await visitor()
//       await signInByLink(page)
//     })
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(`${process.env.WEB_PACKAGES}/`)
const { chromium } = require('playwright-core')

export const url = process.env.WEB_URL
export const given = JSON.parse(process.env.WEB_GIVEN ?? '{}')
export const SLOW = Number(process.env.WEB_SLOW ?? '1')
export const ENOUGH = 40_000 * SLOW
export { assert, require }

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

/** Asks the test that runs this flow for something: 'link', 'kill_operator', 'local' (a verb of the local socket). */
export async function tell(name, fields = {}) {
  process.stdout.write(`@${name} ${JSON.stringify(fields)}\n`)
  const { value } = await answers.next()
  return JSON.parse(value)
}

export async function until(condition, what = 'what was waited for') {
  const end = Date.now() + ENOUGH
  for (;;) {
    const found = await condition()
    if (found) return found
    assert.ok(Date.now() < end, `${what} did not come`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Another build of the app in place of the daemon's, under the daemon's policy. */
async function serveFrom(context, dist) {
  const types = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' }
  await context.route(/^[^?]*\/assets\/[^?]+$/, (route) => {
    const name = new URL(route.request().url()).pathname.split('/').at(-1)
    return route.fulfill({ body: readFileSync(`${dist}/assets/${name}`), contentType: types[name.split('.').at(-1)] })
  })
  await context.route((at) => at.origin === url && /^\/($|sandboxes|create|operator|sign-in)/.test(at.pathname), async (route) => {
    if (!route.request().isNavigationRequest()) return route.fallback()
    const response = await route.fetch()
    const nonce = /nonce-([\w+/=-]+)/.exec(response.headers()['content-security-policy'] ?? '')?.[1] ?? ''
    return route.fulfill({ response, body: readFileSync(`${dist}/index.html`, 'utf8').replaceAll('@NONCE@', nonce) })
  })
}

/** Somebody's browser: storage of its own. Whatever is written to its console as an error, breaks, or goes elsewhere is kept. */
async function visit(browser, options = {}) {
  const { allow = [], ...rest } = options
  const context = await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 }, ...rest })
  context.setDefaultTimeout(ENOUGH)
  if (process.env.WEB_DIST) await serveFrom(context, process.env.WEB_DIST)
  const wrong = []
  const watch = (page) => {
    page.on('pageerror', (e) => wrong.push(`broke: ${e.message}`))
    page.on('console', (m) => m.type() === 'error' && !/Failed to load resource|net::ERR_|WebSocket connection to/.test(m.text()) && wrong.push(`console: ${m.text()}`))
    page.on('request', (r) => !/^(data|blob):/.test(r.url()) && new URL(r.url()).host !== new URL(url).host && !allow.includes(new URL(r.url()).hostname) && wrong.push(`asked elsewhere: ${r.url()}`))
    page.on('requestfailed', (r) => /csp|blocked/i.test(r.failure()?.errorText ?? '') && wrong.push(`blocked: ${r.url()}`))
  }
  context.on('page', watch)
  const page = await context.newPage()
  return { context, page, wrong }
}

/** Runs a flow; what fails leaves a picture. expected: complaints of the browser that belong to it. */
export async function flow(body, { expected = /^$/ } = {}) {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
  if (process.env.WEB_DIST) args.push('--disable-features=LocalNetworkAccessChecks') // a page that we put there comes from nowhere
  const browser = await chromium.launch({ executablePath: process.env.WEB_BROWSER, args })
  const visitors = []
  try {
    const visitor = async (options) => {
      const made = await visit(browser, options)
      visitors.push(made)
      return made
    }
    await body({ browser, visitor })
    for (const { wrong } of visitors) assert.deepEqual(wrong.filter((text) => !expected.test(text)), [])
  } catch (e) {
    for (const [n, { page }] of visitors.entries()) {
      if (page.isClosed()) continue
      const picture = process.env.WEB_FAILED.replace(/\.png$/, n ? `-${n}.png` : '.png')
      await page.screenshot({ path: picture, timeout: 5000 }).catch(() => undefined)
      console.error(`at ${page.url()}, picture in ${picture}`)
    }
    console.error(e, visitors.map((v) => v.wrong))
    process.exitCode = 1
  } finally {
    await browser.close()
    process.stdin.destroy()
  }
}

/** As `stockade up` has it: opens the link that it printed. */
export async function signInByLink(page, options = {}) {
  const link = await tell('link', options)
  await page.goto(link)
  await page.locator('header.header').waitFor()
}

/** A session without the page's help, for flows that are about something else: as whoever has this key. */
export async function signInByKey(page, wallet) {
  const post = async (path, body) => {
    const response = await fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
    assert.ok(response.ok, await response.clone().text())
    return response.json()
  }
  const challenge = await post('/api/auth/challenge', { address: wallet.address })
  const { token, owner, address, expires_at_ms } = await post('/api/auth/session', { nonce: challenge.nonce, signature: await wallet.signMessage(challenge.message) })
  await page.goto('/sign-in')
  await page.evaluate((session) => localStorage.setItem('stockade.session', JSON.stringify(session)), { token, owner, address, operator: false, expires_at_ms })
  await page.goto('/')
  await page.locator('header.header').waitFor()
  return token
}

/** The API, as whoever has the token. */
export async function api(token, method, path, body) {
  const init = { method, headers: { Authorization: `Bearer ${token}` } }
  if (body !== undefined) Object.assign(init, { body: JSON.stringify(body), headers: { ...init.headers, 'Content-Type': 'application/json' } })
  const response = await fetch(url + path, init)
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

/** The token of whoever is signed in in this page. */
export function tokenOf(page) {
  return page.evaluate(() => JSON.parse(localStorage.getItem('stockade.session')).token)
}

/** A sandbox, by the API, and its page, with a tab open. Returns its id. */
export async function openSandbox(page, tab = '', options = { profile: 'medium' }) {
  const { id } = await api(await tokenOf(page), 'POST', '/api/sandboxes', options)
  await page.goto(`/sandboxes/${id}${tab ? `/${tab}` : ''}`)
  await page.locator('.sandbox-head').waitFor()
  return id
}

/** Deletes a sandbox, whatever it does. */
export async function dropSandbox(page, id) {
  await api(await tokenOf(page), 'DELETE', `/api/sandboxes/${id}?force=true`)
}

export function toastWith(page, text) {
  return page.locator('.toast', { hasText: text })
}
