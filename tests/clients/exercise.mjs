// Every method of the TypeScript client against a real daemon: node exercise.mjs CLIENT URL LINK DOMAIN
// Prints which requests were made, as JSON; says what is wrong otherwise and ends with 1.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { id, Wallet } from 'ethers'

const [library, url, link, domain] = process.argv.slice(2)
const { Client, StockadeError, StreamEnded, CommandFailed, chunks } = await import(pathToFileURL(library).href)

const asked = new Set()
const sockets = []
const recording = {
  fetch: (at, init) => {
    asked.add(`${init.method} ${new URL(at).pathname}`)
    return fetch(at, init)
  },
}
const Platform = globalThis.WebSocket
if (Platform) {
  recording.WebSocket = class extends Platform {
    constructor(at) {
      asked.add(`GET ${new URL(at).pathname}`)
      sockets.push(at)
      super(at)
    }
  }
}

const wallet = new Wallet(id('a wallet of the TypeScript client'))
const operator = new Wallet(process.env.OPERATOR_KEY)
const signedIn = async (who = wallet) => {
  const made = new Client(url, recording)
  await made.signIn(who.address, (text) => who.signMessage(text))
  return made
}
const refused = async (promise, code) => {
  const error = await promise.then(() => assert.fail('it was not refused'), (e) => e)
  assert.ok(error instanceof StockadeError, String(error))
  assert.equal(error.code, code, String(error))
  assert.ok(error.message)
  return error
}
const all = async (from) => {
  const found = []
  for await (const one of from) found.push(one)
  return found
}
const until = async (condition, what) => {
  for (const end = Date.now() + 60_000; !(await condition()); await new Promise((r) => setTimeout(r, 30)))
    assert.ok(Date.now() < end, `it never came to this: ${what}`)
}
const text = (found, kind) => Buffer.concat(found.filter((e) => e.kind === kind).map((e) => e.data)).toString('latin1')

const client = await signedIn()
const box = await client.sandboxes.create({ profile: 'medium', name: 'typescript-box' })

const tests = {
  async signIn() {
    assert.equal((await client.whoami()).owner, `eth:${wallet.address.toLowerCase()}`)
    const other = new Client(url, recording)
    const error = await refused(other.whoami(), 'NO_TOKEN')
    assert.ok(error.status === 401 && error.requestId && String(error).includes('NO_TOKEN'))
    await refused(other.signIn(wallet.address, (t) => operator.signMessage(t)), 'BAD_TOKEN')
    await other.signInWithLink(link)
    assert.equal((await other.whoami()).owner, 'uid:0')
    assert.ok((await refused(new Client(url, recording).signInWithLink(link), 'BAD_TOKEN')).hint)
    const { token } = other
    await other.signOut()
    assert.equal((await new Client(url, { ...recording, token }).whoami().catch((e) => e)).status, 401)
    assert.throws(() => new Client('ftp://x'), TypeError)
    await assert.rejects(client.sandboxes.get('..'), TypeError)
  },

  async host() {
    assert.equal((await client.health()).status, 'ok')
    await until(async () => (await client.ready()).status === 'ready', 'ready')
    assert.ok((await client.capabilities()).drivers.includes('native'))
    assert.match(await client.metrics(), /stockade_http_requests_total/)
    assert.ok((await client.openapi()).paths['/api/sandboxes'])
    assert.equal((await client.checkpoint()).hash.length, 64)
  },

  async life() {
    const key = `once-${Date.now()}`
    const made = await client.sandboxes.create({ profile: 'low', key })
    assert.equal((await client.sandboxes.create({ profile: 'low', key })).id, made.id)
    for (const [verb, state] of [['pause', 'paused'], ['unpause', 'running'], ['stop', 'stopped'], ['resume', 'running']])
      assert.equal((await made[verb]()).state, state)
    assert.equal((await made.refresh()).state, 'running')
    assert.ok((await made.usage()).memory > 0)
    assert.ok((await made.policy()).effective)
    assert.ok(Array.isArray(await made.processes()))
    assert.ok((await all(client.sandboxes.list({ state: 'running', page: 1 }))).some((b) => b.id === made.id))
    await refused(made.delete(), 'CONFLICT')
    assert.equal((await made.quarantine('looks odd')).state, 'quarantined')
    await made.delete({ force: true })
    await refused(made.refresh(), 'NOT_FOUND')
  },

  async policy() {
    const made = await client.sandboxes.create({ profile_text: 'profile: 1\nname: p\nextends: medium\nnetwork: {allow: [{host: a.example}]}\n' })
    assert.equal((await made.allow(['b.example'])).id, made.id)
    await made.delete({ force: true })
  },

  async exec() {
    const out = await box.exec('echo out; echo err >&2; exit 3', { cwd: '/tmp', env: { A: '1' } })
    assert.deepEqual([out.exitCode, out.text, Buffer.from(out.stderr).toString(), out.truncated], [3, 'out\n', 'err\n', false])
    assert.throws(() => out.check(), (e) => e instanceof CommandFailed && /ended with 3.*err/.test(e.message))
    assert.equal((await box.exec(['cat'], { stdin: 'ä' })).check().text, 'ä')
    assert.deepEqual([...(await box.exec("printf '\\377\\000x'")).stdout], [255, 0, 120])
    const found = await all(box.execStream("echo one; echo two >&2; printf '\\377'"))
    assert.deepEqual([found[0].kind, found.at(-1).kind, found.at(-1).info.exit_code], ['started', 'exit', 0])
    assert.deepEqual([text(found, 'stdout'), text(found, 'stderr')], ['one\n\xff', 'two\n'])
    await refused(all(box.execStream([])), 'BAD_REQUEST')
  },

  async background() {
    const run = await box.start('echo begun; read line; echo got $line; read more', { tty: true })
    await until(async () => (await run.logs()).text.includes('begun'), 'begun')
    await run.input('this\n')
    await until(async () => (await run.logs()).text.includes('got this'), 'got this')
    assert.equal((await box.run(run.number).info()).state, 'running')
    assert.ok((await box.runs({ max: 5 })).some((r) => r.run === run.number))
    const stream = run.stream({ out: 0 })
    assert.equal((await stream.next()).value.kind, 'started')
    await run.signal('TERM')
    assert.equal((await all(stream)).at(-1).kind, 'exit')
    assert.notEqual((await run.wait()).state, 'running')
    const other = await box.start(['sleep', '600'])
    await other.cancel()
    assert.equal((await other.wait()).reason, 'cancelled')
    const third = await box.start('echo before; echo wrong >&2; sleep 0.2; exit 4')
    const found = await all(await third.attach({ out: 0, err: 0 }))
    assert.deepEqual([text(found, 'stdout'), text(found, 'stderr'), found.at(-1).info.exit_code], ['before\n', 'wrong\n', 4])
  },

  async terminal() {
    for (const transport of Platform ? ['websocket', 'events'] : [undefined]) {
      const shell = await box.terminals.create({ command: 'stty -echo; PS1= exec sh -i', rows: 30, cols: 100 })
      const attached = await shell.attach(transport ? { transport } : {})
      await attached.resize(33, 77)
      await attached.send("stty size; echo re''ady\n")
      assert.match(await attached.readUntil('ready'), /33 77/)
      attached.close()
      await shell.resize(20, 60)
      await shell.input("echo ag''ain\n")
      const back = await shell.attach(transport ? { transport, out: 0 } : { out: 0 })
      await back.readUntil('again')
      assert.ok((await box.terminals.list()).some((t) => t.id === shell.id))
      const stream = shell.stream({ out: 0 })
      assert.equal((await stream.next()).value.kind, 'started')
      await shell.close()
      assert.equal((await all(stream)).at(-1).kind, 'exit')
      assert.equal((await all(back)).at(-1).kind, 'exit')
    }
    if (Platform) assert.ok(sockets.length >= 2)
    else await assert.rejects(box.terminals.create().then((t) => t.attach({ transport: 'websocket' })), StreamEnded)
    for (const left of await box.terminals.list()) await left.close()
  },

  async revoked() {
    const mine = await signedIn()
    const shell = await (await mine.sandboxes.get(box.id)).terminals.create()
    const attached = await shell.attach()
    const events = mine.events({ after: 0, kinds: ['sandbox'] })
    await events.next()
    await mine.signOut()
    const error = await all(attached).then(() => assert.fail('it went on'), (e) => e)
    assert.ok(error instanceof StreamEnded, String(error))
    assert.equal((await all(events).catch((e) => e)).status, 401)
    for (const left of await box.terminals.list()) await left.close()
  },

  async files() {
    const { files } = box
    const data = Buffer.alloc(256_000, 'abcdefg')
    await files.makeFolder('/home/agent/ts/deep', { recursive: true })
    assert.equal(await files.write('/home/agent/ts/ü b.bin', data, 0o640), data.length)
    assert.ok(data.equals(await files.read('/home/agent/ts/ü b.bin')))
    assert.equal(Buffer.from(await files.read('/home/agent/ts/ü b.bin', [5, 9])).toString(), data.subarray(5, 10).toString())
    assert.equal((await files.stat('/home/agent/ts/ü b.bin')).mode, 0o640)
    await files.write('/home/agent/ts/text', 'text')
    assert.equal(await files.readText('/home/agent/ts/text'), 'text')
    const pieces = new ReadableStream({ start(c) { for (let i = 0; i < 5; i++) c.enqueue(new Uint8Array(70_000)); c.close() } })
    assert.equal(await files.write('/home/agent/ts/pieces', pieces), 350_000)
    assert.equal(await files.write('/home/agent/ts/blob', new Blob(['blob'])), 4)
    await files.write('/home/agent/ts/data.json', '{}')
    assert.equal(await files.readText('/home/agent/ts/data.json'), '{}')
    let size = 0
    for await (const chunk of chunks(await files.open('/home/agent/ts/pieces'))) size += chunk.length
    assert.equal(size, 350_000)
    assert.deepEqual((await files.list('/home/agent/ts')).map((e) => e.name).sort(), ['blob', 'data.json', 'deep', 'pieces', 'text', 'ü b.bin'])
    await assert.rejects(files.list('/home/agent/ts/text'), TypeError)
    await assert.rejects(files.read('/home/agent/ts'), TypeError)
    await refused(files.read('/home/agent/ts/none'), 'NOT_FOUND')
    await files.move('/home/agent/ts/text', '/home/agent/ts/moved')
    await files.remove('/home/agent/ts/moved')
    const archive = new Uint8Array(await (await files.tar('/home/agent/ts')).arrayBuffer())
    await files.makeFolder('/home/agent/ts2')
    await files.untar('/home/agent/ts2', archive)
    assert.ok((await box.exec('find ts2 -name blob', { cwd: '/home/agent' })).text.includes('blob'))
    await files.remove('/home/agent/ts', { recursive: true })
    const abort = new AbortController()
    const changes = await files.watch('/home/agent', { signal: abort.signal })
    await files.write('/home/agent/watched', 'x')
    for await (const change of changes) if (JSON.stringify(change).includes('watched')) break
    abort.abort()
  },

  async ports() {
    await box.files.makeFolder('/home/agent/www')
    await box.files.write('/home/agent/www/index.html', 'from inside')
    const server = await box.start('exec python3 -m http.server 8081 --directory /home/agent/www')
    await until(async () => (await box.ports()).includes(8081), 'a port')
    assert.equal(await (await box.portRequest('GET', 8081)).text(), 'from inside')
    assert.equal((await box.portRequest('GET', 8081, '/none')).status, 404)
    assert.ok(box.portUrl(8081, '/a').endsWith(`/api/sandboxes/${box.id}/port/8081/a`))
    assert.match(await box.tabUrl(8081, domain), new RegExp(`^http://8081-${box.id}\\.${domain}:\\d+/\\.stockade/open\\?ticket=`))
    const path = `/api/sandboxes/${box.id}/files`
    const ticket = await client.ticket(path)
    assert.equal(await (await fetch(`${url}${path}?path=/home/agent/www/index.html&ticket=${ticket}`)).text(), 'from inside')
    await server.cancel()
  },

  async secrets() {
    const profile_text = 'profile: 1\nname: keyed\nextends: medium\nsecrets: [TOKEN]\nnetwork: {allow: [{host: api.example.com, secret: TOKEN}]}\n'
    const made = await client.sandboxes.create({ profile_text, secrets: { TOKEN: 'value-of-the-token' } })
    const given = async () => (await made.secrets()).map((s) => [s.name, s.given])
    assert.deepEqual(await given(), [['TOKEN', true]])
    await made.wipeSecrets()
    assert.deepEqual(await given(), [['TOKEN', false]])
    await made.giveSecrets({ TOKEN: 'another-value' })
    assert.deepEqual(await given(), [['TOKEN', true]])
    await made.delete({ force: true })
  },

  async ssh() {
    const folder = mkdtempSync(join(tmpdir(), 'stockade-ts-'))
    try {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')])
      const public_key = readFileSync(join(folder, 'key.pub'), 'utf8').trim()
      const made = await box.addSshKey(public_key)
      assert.deepEqual((await box.sshKeys()).map((k) => k.fingerprint), [made.fingerprint])
      assert.ok((await box.sshUser()).username)
      await box.removeSshKey({ fingerprint: made.fingerprint })
      assert.deepEqual(await box.sshKeys(), [])
    } finally {
      rmSync(folder, { recursive: true })
    }
  },

  async snapshots() {
    const made = await client.sandboxes.create({ profile: 'medium' })
    await made.files.write('/home/agent/a', 'one')
    const first = await made.snapshot({ name: 'typescript-first' })
    await made.files.write('/home/agent/b', 'two')
    const second = await made.snapshot()
    assert.equal((await client.snapshots.diff(first.id, second.id)).added, 1)
    assert.equal(await (await client.snapshots.open(second.id, `${second.root}/b`)).text(), 'two')
    await refused(client.snapshots.open(first.id, '/home/agent/b'), 'NOT_FOUND')
    const fork = await made.fork({ name: 'typescript-fork' })
    assert.equal(await fork.files.readText('/home/agent/b'), 'two')
    const archive = new Uint8Array(await (await client.snapshots.export('typescript-first')).arrayBuffer())
    const imported = await client.snapshots.import(archive, { name: 'typescript-imported', profile: 'medium' })
    assert.equal((await made.rollback('typescript-first')).state, 'running')
    await refused(made.files.read('/home/agent/b'), 'NOT_FOUND')
    assert.ok((await client.snapshots.list()).some((s) => s.id === imported.id))
    for (const gone of [made, fork]) await gone.delete({ force: true })
    for (const gone of [first, second, imported]) await client.snapshots.delete(gone.id)
  },

  async events() {
    await box.exec('true')
    const past = await all(box.events({ follow: false }))
    assert.ok(past[0].kind.startsWith('sandbox.') && past.length > 1)
    const later = await all(client.events({ after: past[0].seq, follow: false }))
    assert.ok(later[0].seq > past[0].seq)
    const abort = new AbortController()
    const live = client.events({ after: past[0].seq, signal: abort.signal })
    assert.ok((await live.next()).value.seq > past[0].seq)
    abort.abort()
    await assert.rejects(all(live))
    const { run } = (await box.exec('echo evident')).info
    for (const evidence of [await box.evidence(), await box.evidence(run)]) assert.ok(JSON.parse(evidence))
  },

  async tokens() {
    const token = await client.tokens.create(['exec', 'show', 'attach', 'input', 'cancel', 'runs'], [`sandbox/${box.id}`], { expires_in: 600, about: 'for CI' })
    const machine = await new Client(url, { ...recording, token }).sandboxes.get(box.id)
    assert.equal((await machine.exec('echo hi')).text, 'hi\n')
    // a capability gets no tickets: terminals go by events
    const shell = await machine.terminals.create({ command: 'exec sh -i' })
    const attached = await shell.attach()
    await attached.send("echo ma''chine\n")
    await attached.readUntil('machine')
    attached.close()
    await shell.close()
    assert.equal((await machine.delete().catch((e) => e)).status, 403)
    const [listed] = (await client.tokens.list()).filter((t) => t.about === 'for CI')
    await client.tokens.revoke(listed.jti)
    assert.equal((await machine.refresh().catch((e) => e)).status, 401)
  },

  async usage() {
    await until(async () => (await box.usageHistory()).samples.length > 1, 'two samples')
    const [first] = (await box.usageHistory()).samples
    assert.ok(first.memory > 0 && (await box.usageHistory({ since_ms: first.at_ms })).samples.every((s) => s.at_ms > first.at_ms))
    assert.deepEqual(Object.keys(await client.sandboxes.usage([box.id, '0'.repeat(16)])), [box.id])
  },

  async lookingBack() {
    const page = await client.searchEvents({ sandbox: box.id, kinds: ['sandbox', 'run.start'], limit: 2 })
    assert.ok(page.events.length === 2 && page.events[0].seq > page.events[1].seq)
    assert.ok((await client.searchEvents({ before: page.events[1].seq, limit: 1 })).looked > 0)
    const mine = await signedIn()
    const old = mine.token
    await new Promise((r) => setTimeout(r, 10))
    assert.equal((await mine.renew()).token, mine.token)
    assert.notEqual(mine.token, old)
    await mine.signOut()
    assert.equal((await new Client(url, { ...recording, token: old }).whoami().catch((e) => e)).status, 401)
  },

  async profiles() {
    const medium = (await client.profiles.list()).find((p) => p.name === 'medium')
    assert.ok(medium.ok && medium.summary.length > 5 && medium.limits.memory === 2 ** 31)
    assert.ok((await client.profiles.schema()).some((k) => k.key === 'limits.memory'))
    const good = await client.profiles.check({ profile: 'medium', overrides: { 'limits.cpus': '1' }, allow: ['example.org'] })
    assert.ok(good.ok && good.network[0] === 'example.org')
    const bad = await client.profiles.check({ overrides: { 'limits.cpus': 'x' } })
    assert.ok(!bad.ok && bad.problems[0].field === 'overrides.limits.cpus')
    assert.ok((await box.policy()).described.summary.length > 5)
    const made = await client.sandboxes.create({ profile: 'medium', allow: ['one.example'] })
    assert.deepEqual((await made.tryNetwork({ add: ['two.example'] })).described.network, ['one.example', 'two.example'])
    assert.deepEqual((await made.tryNetwork({ allow: [] })).described.network, [])
    await made.allowMore(['two.example'])
    assert.deepEqual((await made.policy()).described.network, ['one.example', 'two.example'])
    await made.delete({ force: true })
  },

  async operators() {
    assert.equal((await client.operator.health().catch((e) => e)).status, 403)
    const theirs = await signedIn(operator)
    assert.ok(await theirs.operator.health())
    assert.ok((await theirs.operator.load()).cpus >= 1 && (await theirs.operator.pool()).size >= 0)
    assert.ok(Array.isArray((await theirs.operator.gate({ limit: 10 })).names))
    assert.ok((await theirs.operator.doctor()).facts.some((f) => f.group === 'drivers' && f.name === 'native'))
    const [report, page] = await Promise.all([theirs.operator.verify(), theirs.operator.verifyPage()].map((p) => p.catch((e) => e)))
    assert.ok(report.tally ? page.startsWith('<!DOCTYPE html>') : report.code === 'NOT_FOUND' && page.status === 404) // whether somebody verified this host
    assert.ok((await all(theirs.operator.sandboxes({ state: 'running', page: 1 }))).some((b) => b.id === box.id))
    assert.ok(JSON.stringify(await theirs.operator.owners()).includes(wallet.address.toLowerCase()))
    assert.ok(Array.isArray(await all(client.provisions())))
    assert.equal((await client.provision('1').catch((e) => e)).status, 404)
  },
}

// one that waits for something that does not come has a name, and does not hold up the rest
const inTime = (promise) => Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error('it never ended')), 60_000).unref())])
let failed = 0
for (const [name, test] of Object.entries(tests))
  await inTime(test()).catch((e) => {
    failed++
    console.error(`${name}: ${e.stack}\n${e}`)
  })
await box.delete({ force: true })
if (failed) process.exit(1)
console.log(JSON.stringify([...asked].map((line) => line.split(' '))))
process.exit(0)
