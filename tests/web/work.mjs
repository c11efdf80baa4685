// What a page's thread works, by the browser's own trace, in processor time: a machine that has other work too makes a task
// last longer, and not more work. A page that never works long at a time answers, whatever else there is to do.
import { assert } from './harness.mjs'

/** From now until the function that comes back is called, which says how long the longest task worked, and all of them. */
export async function watchWork(browser) {
  const began = performance.now()
  await browser.startTracing(undefined, { categories: ['-*', 'toplevel', '__metadata'] })
  return async () => {
    const took = performance.now() - began
    const { traceEvents } = JSON.parse((await browser.stopTracing()).toString())
    const pages = new Set(traceEvents.filter((e) => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map((e) => e.tid))
    const tasks = traceEvents.filter((e) => e.name === 'ThreadControllerImpl::RunTask' && e.tdur !== undefined && pages.has(e.tid))
    const times = tasks.map((e) => e.ts / 1000)
    const spans = times.length ? times.reduce((a, b) => Math.max(a, b)) - times.reduce((a, b) => Math.min(a, b)) : 0
    assert.ok(spans > 0.8 * took, `the trace has ${Math.round(spans)} of ${Math.round(took)} ms: it cannot tell`)
    const worked = tasks.map((e) => e.tdur / 1000)
    return { took, tasks: tasks.length, longest: worked.reduce((a, b) => Math.max(a, b), 0), total: worked.reduce((a, b) => a + b, 0) }
  }
}
