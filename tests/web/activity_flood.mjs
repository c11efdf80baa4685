// Ten thousand events as fast as the daemon records them: the page keeps up, answers to keys meanwhile, and draws few rows.
import http from 'node:http'
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, SLOW, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const PAUSE = 500 * SLOW // somebody who types notices more than that

/** Files that are written one after the other on connections that stay open. */
async function flood(token, id, count) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 })
  let next = 0
  const put = (n) =>
    new Promise((resolve, reject) => {
      const request = http.request(`${url}/api/sandboxes/${id}/files?path=/tmp/f${n % 50}`, { method: 'PUT', agent, headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/octet-stream', 'Content-Length': 1 } }, (response) => {
        response.resume()
        response.on('end', () => (response.statusCode < 300 ? resolve() : reject(new Error(`${response.statusCode}`))))
      })
      request.on('error', reject)
      request.end('x')
    })
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (next < count) await put(next++)
  }))
  agent.destroy()
}

await flow(async ({ visitor }) => {
  const { page } = await visitor()
  await page.addInitScript(() => {
    window.longTasks = []
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: 'longtask', buffered: true })
  })
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'activity')
  const token = await tokenOf(page)
  const total = async () => Number(((await page.locator('.activity-bar').innerText()).match(/([\d,.]+) events/)?.[1] ?? '0').replace(/\D/g, ''))
  await until(async () => (await total()) >= 2, 'the first events')
  await page.evaluate(() => (window.longTasks.length = 0))

  const began = Date.now()
  const flooding = flood(token, id, given.count)
  let over = false
  flooding.finally(() => (over = true)).catch(() => undefined)
  // meanwhile it answers: what is typed shows, and what fits is found
  const slowest = []
  const search = page.getByLabel('Search the activity')
  while (!over) {
    const asked = Date.now()
    await search.fill('/tmp/f7')
    assert.equal(await search.inputValue(), '/tmp/f7')
    await search.fill('')
    slowest.push(Date.now() - asked)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  await flooding
  await until(async () => (await total()) >= given.count, 'all events')
  const took = Date.now() - began
  const long = await page.evaluate(() => window.longTasks)
  const blocked = long.reduce((sum, ms) => sum + ms, 0)
  const rows = await page.locator('.virtual-row').count()
  console.log(JSON.stringify({ events: await total(), took_ms: took, per_minute: Math.round((given.count / took) * 60_000), long_tasks: long.length, longest_ms: Math.max(0, ...long), blocked_ms: blocked, slowest_answer_ms: Math.max(...slowest), rows }))
  assert.ok(rows < 120, `${rows} rows are drawn`)
  assert.ok(Math.max(0, ...long) < PAUSE, `it stood still for ${Math.max(...long)} ms`)
  assert.ok(Math.max(...slowest) < 2 * PAUSE, `it took ${Math.max(...slowest)} ms to answer`)
  assert.ok(blocked < took / 2, `it stood still for ${blocked} of ${took} ms`)

  // the same at once: a page that is opened now reads all of them
  await page.evaluate(() => (window.longTasks.length = 0))
  await page.reload()
  await until(async () => (await total()) >= given.count, 'all events after a reload')
  const again = await page.evaluate(() => window.longTasks)
  console.log(JSON.stringify({ after_reload_longest_ms: Math.max(0, ...again), tasks: again.length }))
  assert.ok(Math.max(0, ...again) < PAUSE, `it stood still for ${Math.max(...again)} ms`)
  await dropSandbox(page, id)
})
