// Every text that can be seen has the contrast that WCAG AA asks for, on every page, light and dark: as it is drawn, with
// everything that lies beneath it.
import { api, assert, dropSandbox, flow, openSandbox, signInByLink, tokenOf } from './harness.mjs'

/** What is there when a tab is. */
const TABS = { terminals: '.xterm-rows', files: '.files-row', runs: '.runs-row', activity: '.event-denied', ports: '.port-other', snapshots: '.moment', secrets: '.secrets-head', policy: '.policy-sides', usage: 'canvas' }

/** Runs in the page. Texts that are too faint, with their contrast; and how many were looked at. */
function look() {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number)
    return { r, g, b, a }
  }
  const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 })
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)
  const light = ({ r, g, b }) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
  const faint = []
  let count = 0
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (texts.nextNode()) {
    const said = texts.currentNode.textContent.trim()
    const el = texts.currentNode.parentElement
    if (!said || !el.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || el.closest('.xterm-helpers, :disabled, [aria-disabled=true], .said')) continue
    const style = getComputedStyle(el)
    const beneath = []
    let opacity = 1
    for (let at = el; at; at = at.parentElement) {
      opacity *= Number(getComputedStyle(at).opacity)
      beneath.unshift(parse(getComputedStyle(at).backgroundColor))
    }
    const ground = beneath.reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 })
    const ink = parse(style.color)
    const [more, less] = [light(over({ ...ink, a: ink.a * opacity }, ground)), light(ground)].sort((a, b) => b - a)
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700)
    const contrast = (more + 0.05) / (less + 0.05)
    count++
    if (!(contrast >= (isLarge ? 3 : 4.5))) faint.push(`${contrast.toFixed(2)} ${el.className || el.tagName}: ${said.slice(0, 40)}`)
  }
  return { faint, count }
}

await flow(async ({ visitor }) => {
  let id
  for (const colorScheme of ['light', 'dark']) {
    const { page } = await visitor({ colorScheme, reducedMotion: 'reduce' })
    const check = async (where) => {
      await page.waitForFunction(() => !document.querySelector('.skeleton') && document.getAnimations().every((a) => a.playState !== 'running'))
      const { faint, count } = await page.evaluate(look)
      assert.ok(count > 5, `${where} has ${count} texts`)
      assert.deepEqual(faint, [], `${where}, ${colorScheme}`)
    }
    await page.goto('/')
    await page.getByRole('heading', { name: 'Sign in to Stockade' }).waitFor()
    await check('the sign-in page')
    await signInByLink(page, { operator: true })
    const token = await tokenOf(page)
    if (!id) {
      id = await openSandbox(page, '', { profile: 'medium', allow: ['known.test'] })
      for (const command of ['echo x > a.txt; curl -sS http://evil.test/', 'exit 3', 'sleep 600']) await api(token, 'POST', `/api/sandboxes/${id}/exec`, { command, background: command.startsWith('sleep') })
      await api(token, 'POST', `/api/sandboxes/${id}/snapshot`, { name: 'kept' })
    }
    for (const [path, there] of [['/sandboxes', '.box'], ['/create', '.summary-text[aria-busy=false]'], ['/operator', '.meter, meter'], ...Object.entries(TABS).map(([tab, there]) => [`/sandboxes/${id}/${tab}`, there])]) {
      await page.goto(path)
      await page.locator(there).first().waitFor()
      await check(path)
    }
    await page.goto(`/sandboxes/${id}/activity`)
    await page.locator('.event-denied').first().click()
    await page.getByRole('dialog').getByText('How to allow').waitFor()
    await check('a denial')
    if (colorScheme === 'dark') {
      await dropSandbox(page, id)
      for (const s of (await api(token, 'GET', '/api/snapshots')).snapshots) await api(token, 'DELETE', `/api/snapshots/${s.id}`)
    }
  }
})
