// Ten thousand events as fast as the daemon records them: the page keeps up, answers to keys meanwhile, and draws few rows.
import http from 'node:http'
import { api, assert, dropSandbox, flow, given, openSandbox, signInByKey, SLOW, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'
import { watchWork } from './work.mjs'

const LONGEST = 200 * SLOW // of work at a time; somebody who types notices more than that
const EACH = 1 * SLOW // for one event: at 10,000 in a minute five sixths of the thread's time are left

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

await flow(async ({ browser, visitor }) => {
  const { page } = await visitor()
  await signInByKey(page, newWallet())
  const id = await openSandbox(page, 'activity')
  const token = await tokenOf(page)
  const total = async () => Number(((await page.locator('.activity-bar').innerText()).match(/([\d,.]+) events/)?.[1] ?? '0').replace(/\D/g, ''))
  await until(async () => (await total()) >= 2, 'the first events')

  const worked = await watchWork(browser)
  const flooding = flood(token, id, given.count)
  let over = false
  flooding.finally(() => (over = true)).catch(() => undefined)
  // meanwhile it answers: what is typed shows, and what fits is found
  const answers = []
  const search = page.getByLabel('Search the activity')
  const found = page.getByRole('list', { name: 'Events' }).locator('.event')
  while (!over) {
    const asked = Date.now()
    await search.fill('profile medium')
    await until(async () => (await found.count()) === 1, 'the one event with these words')
    await search.fill('')
    answers.push(Date.now() - asked)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  await flooding
  await until(async () => (await total()) >= given.count, 'all events')
  const { took, longest, total: work } = await worked()
  const rows = await page.locator('.virtual-row').count()
  const each = work / given.count
  console.log(JSON.stringify({ events: await total(), took_ms: Math.round(took), per_minute: Math.round((given.count / took) * 60_000), longest_work_ms: Math.round(longest), work_for_each_ms: Number(each.toFixed(2)), answers: answers.length, slowest_answer_ms: Math.max(...answers), rows }))
  assert.ok(answers.length > 0)
  assert.ok(rows < 120, `${rows} rows are drawn`)
  assert.ok(longest < LONGEST, `it worked for ${longest} ms without a look at anything else`)
  assert.ok(each < EACH, `${each} ms of work for each event`)

  // the same at once: a page that is opened now reads all of them
  const workedAgain = await watchWork(browser)
  await page.reload()
  await until(async () => (await total()) >= given.count, 'all events after a reload')
  const again = await workedAgain()
  console.log(JSON.stringify({ after_reload_longest_work_ms: Math.round(again.longest), work_ms: Math.round(again.total) }))
  assert.ok(again.longest < LONGEST, `it worked for ${again.longest} ms without a look at anything else`)
  await dropSandbox(page, id)
})
