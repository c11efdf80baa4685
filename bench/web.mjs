// One try of bench/web: node bench/web.mjs LINK. Prints how long it took as JSON.
import { createRequire } from 'node:module'

const { chromium } = createRequire(`${process.env.WEB_PACKAGES}/`)('playwright-core')
const browser = await chromium.launch({ executablePath: process.env.WEB_BROWSER, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] })
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
await page.goto('about:blank')
const began = performance.now()
await page.goto(process.argv[2], { waitUntil: 'commit' })
const button = page.getByRole('button', { name: 'New sandbox' })
await button.waitFor()
const there = performance.now()
await button.click()
// looked at by the page itself, once a frame: asking from outside would be part of what is measured
await page.waitForFunction(() => /[$#]/.test(document.querySelector('.term-pane[data-state=open] .xterm-rows')?.textContent ?? ''), undefined, { polling: 'raf' })
const prompt = performance.now()
console.log(JSON.stringify({ page: there - began, prompt: prompt - there, all: prompt - began, clicks: 1 }))
await browser.close()
