// The list: what is made shows at once, is found, can be stopped, resumed, deleted and kept after all; two people do not
// see each other's; names are text, whatever is in them.
import { api, assert, flow, signInByKey, toastWith, tokenOf, until, url } from './harness.mjs'
import { newWallet } from './wallets.mjs'

const list = (page) => page.getByRole('list', { name: 'Sandboxes' })
const rowOf = (page, name) => list(page).getByRole('listitem').filter({ hasText: name })

async function choose(page, name, item) {
  await page.getByRole('button', { name: `What to do with ${name}` }).click()
  await page.getByRole('menuitem', { name: item, exact: true }).click()
}

await flow(async ({ visitor }) => {
  const alice = await visitor()
  const bob = await visitor()
  const token = await signInByKey(alice.page, newWallet())
  await signInByKey(bob.page, newWallet())
  const { page } = alice

  // live: made elsewhere, shown here
  await page.getByText('Run something that you do not trust').waitFor()
  const made = await api(token, 'POST', '/api/sandboxes', { profile: 'medium', name: 'first-one' })
  await rowOf(page, 'first-one').getByText('Running').waitFor()
  await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: 'second-one' })
  await rowOf(page, 'second-one').waitFor()

  // found by name, by state, and not at all
  await page.keyboard.press('/')
  await page.keyboard.type('first')
  await rowOf(page, 'second-one').waitFor({ state: 'detached' })
  assert.match(page.url(), /q=first/)
  await page.getByLabel('Search').fill('no such thing')
  await page.getByText('None of your sandboxes is like that.').waitFor()
  await page.getByRole('button', { name: 'Show all 2' }).click()
  await rowOf(page, 'second-one').waitFor()

  // one without a disk is not stopped unasked: its files would be gone
  await choose(page, 'second-one', 'Stop')
  const question = page.getByRole('dialog', { name: 'Stop second-one?' })
  await question.getByText('its files are in memory alone').waitFor()
  await question.getByRole('button', { name: 'Cancel' }).click()
  await question.waitFor({ state: 'detached' })
  await rowOf(page, 'second-one').getByText('Running').waitFor()

  // stop, and undo it by resuming
  await choose(page, 'first-one', 'Stop')
  await toastWith(page, 'first-one is stopped').hover() // it waits while one looks
  await rowOf(page, 'first-one').getByText('Stopped').waitFor()
  await page.getByLabel('State').selectOption('stopped')
  await rowOf(page, 'second-one').waitFor({ state: 'detached' })
  await toastWith(page, 'first-one is stopped').getByRole('button', { name: 'Resume' }).click()
  await page.getByLabel('State').selectOption('')
  await rowOf(page, 'first-one').getByText('Running').waitFor()
  assert.equal((await api(token, 'GET', `/api/sandboxes/${made.id}`)).state, 'running')

  // delete, and keep it after all; then delete it for good
  await choose(page, 'first-one', 'Delete')
  await rowOf(page, 'first-one').getByText('Being deleted').waitFor()
  await toastWith(page, 'first-one will be deleted').getByRole('button', { name: 'Undo' }).click()
  await rowOf(page, 'first-one').getByText('Running').waitFor()
  await choose(page, 'second-one', 'Delete')
  await rowOf(page, 'second-one').waitFor({ state: 'detached' })
  await until(async () => (await api(token, 'GET', '/api/sandboxes')).sandboxes.every((s) => s.name !== 'second-one'), 'the end of second-one')
  assert.equal((await api(token, 'GET', `/api/sandboxes/${made.id}`)).state, 'running')

  // six at once: each can be kept, by its message, in its row, or by a key, however many came after it
  const six = ['a', 'b', 'c', 'd', 'e', 'f'].map((letter) => `many-${letter}`)
  for (const name of six) await api(token, 'POST', '/api/sandboxes', { profile: 'low', name })
  for (const name of six) await rowOf(page, name).getByText('Running').waitFor()
  await choose(page, six[0], 'Delete')
  await toastWith(page, 'many-a will be deleted').hover() // time stands still while one looks, so the mouse stays where it is
  for (const name of six.slice(1)) {
    await page.getByRole('button', { name: `What to do with ${name}` }).evaluate((button) => button.click())
    await page.getByRole('menuitem', { name: 'Delete', exact: true }).evaluate((item) => item.click())
  }
  await toastWith(page, 'many-f will be deleted').waitFor()
  assert.equal(await toastWith(page, 'will be deleted').count(), 6)
  await rowOf(page, 'many-b').getByRole('button', { name: 'Keep it' }).focus()
  await page.keyboard.press('Enter')
  await toastWith(page, 'many-b will be deleted').waitFor({ state: 'detached' })
  await page.keyboard.press('u')
  await toastWith(page, 'many-f will be deleted').waitFor({ state: 'detached' })
  await toastWith(page, 'many-a will be deleted').getByRole('button', { name: 'Undo' }).click()
  await page.mouse.move(5, 5)
  const left = async () => (await api(token, 'GET', '/api/sandboxes')).sandboxes.map((s) => s.name).filter((name) => name.startsWith('many-')).sort()
  await until(async () => (await left()).join() === 'many-a,many-b,many-f', 'the end of the others')
  for (const name of ['many-a', 'many-b', 'many-f']) await rowOf(page, name).getByText('Running').waitFor()

  // deleted, and the page left at once: it is deleted all the same
  await api(token, 'POST', '/api/sandboxes', { profile: 'low', name: 'third-one' })
  await rowOf(page, 'third-one').waitFor()
  await choose(page, 'third-one', 'Delete')
  await toastWith(page, 'third-one will be deleted').waitFor()
  await page.goto('about:blank')
  await until(async () => (await api(token, 'GET', '/api/sandboxes')).sandboxes.every((s) => s.name !== 'third-one'), 'the end of third-one')

  // the other one sees none of it, not even by its address
  await bob.page.getByText('Run something that you do not trust').waitFor()
  await bob.page.goto(`/sandboxes/${made.id}`)
  await bob.page.getByText('There is no such sandbox.').waitFor()
  const answer = await fetch(`${url}/api/sandboxes/${made.id}`, { headers: { Authorization: `Bearer ${await tokenOf(bob.page)}` } })
  assert.equal(answer.status, 404)
  assert.ok(!(await bob.page.content()).includes('first-one'))
  for (const { id } of (await api(token, 'GET', '/api/sandboxes')).sandboxes) await api(token, 'DELETE', `/api/sandboxes/${id}?force=true`)
})
