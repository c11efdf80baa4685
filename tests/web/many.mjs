// A thousand sandboxes: only those that can be seen are drawn, and scrolling through them all never holds the page up. The
// list is made up, since it is the page that is looked at here; everything else is the daemon's.
import { assert, flow, given, signInByKey } from './harness.mjs'
import { newWallet } from './wallets.mjs'

await flow(async ({ visitor }) => {
  const { page, context } = await visitor()
  const states = ['running', 'stopped', 'paused', 'failed']
  const all = Array.from({ length: 1000 }, (_, i) => ({ id: i.toString(16).padStart(16, '0'), owner: 'o', name: `box-${i}`, state: states[i % 4], reason: '', profile: 'medium', driver: 'cell', image: '', persistent: true, created_ms: 1_700_000_000_000 + i, started_ms: 0, ended_ms: 0, used_ms: 0 }))
  await context.route('**/api/sandboxes?*', (route) => {
    const at = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0)
    return route.fulfill({ json: { sandboxes: all.slice(at, at + 100), next_cursor: at + 100 < all.length ? String(at + 100) : null } })
  })
  await context.route('**/usage*', (route) => route.fulfill({ json: { usage: {} } }))
  await signInByKey(page, newWallet())
  await page.getByText('box-999', { exact: true }).waitFor()
  assert.ok((await page.getByRole('listitem').count()) < 60, 'only what can be seen is drawn')

  // each frame while it scrolls to the end: what the page's thread works for it, which a busy machine does not make more
  const tools = await context.newCDPSession(page)
  await tools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const worked = async () => (await tools.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value * 1000
  const frame = async (y) => {
    const before = await worked()
    await page.evaluate(async (y) => {
      scrollTo(0, y)
      await new Promise(requestAnimationFrame)
      await new Promise(requestAnimationFrame) // the one before is drawn by then
    }, y)
    return (await worked()) - before
  }
  const mean = (all) => all.reduce((sum, ms) => sum + ms, 0) / all.length
  const still = [] // a page that stands still, asked the same: what the asking costs
  for (let i = 0; i < 40; i++) still.push(await frame(0))
  const end = await page.evaluate(() => document.documentElement.scrollHeight - innerHeight)
  const frames = []
  for (let y = 0; y <= end; y += 400) frames.push(await frame(y))
  await page.evaluate((end) => scrollTo(0, end), end)
  await page.getByText('box-0', { exact: true }).waitFor()
  assert.ok(frames.length > 100, String(frames.length))
  const each = mean(frames) - mean(still)
  const longest = Math.max(...frames) - mean(still)
  console.log(`${each.toFixed(1)} ms of work for each of ${frames.length} frames, ${longest.toFixed(1)} ms for the longest, besides ${mean(still).toFixed(1)} ms where nothing moves`)
  assert.ok(each > 0 && each < given.frame_ms, `${each} ms for each of ${frames.length} frames`)
  assert.ok(longest < 6 * given.frame_ms, `${longest} ms for the longest`)
  await page.getByLabel('Search').fill('box-512')
  await page.getByText('box-512', { exact: true }).waitFor()
  assert.equal(await page.getByRole('listitem').count(), 1)
})
