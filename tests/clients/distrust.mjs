// The TypeScript client against servers that lie: node distrust.mjs CLIENT
// Nothing is signed or sent that should not be, and memory has an end. Says what is wrong otherwise and ends with 1.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'
import { WebSocket, WebSocketServer } from 'ws'

const { Client, StockadeError, StreamEnded } = await import(pathToFileURL(process.argv[2]).href)

const WALLET = '0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B'
const OTHER = '0x00000000219ab540356cBB839Cbe05303d7705Fa'
const NONCE = '0123456789abcdef'
const PLAIN = `Sign this message to authenticate with Tangle Sandbox.\n\nNonce: ${NONCE}\nExpires: 1767225600`
const SESSION = { token: 'a-token', owner: 'eth:0x', address: '0x', expires_at_ms: 1 }
const BOX = { id: '0123' }

/** A server that answers whatever it is told to: an object, or what a function writes. use(url, what was asked). */
async function liar(answer, use, sockets) {
  const asked = []
  const server = createServer((request, response) => {
    const body = []
    request.on('data', (piece) => body.push(piece))
    request.on('end', () => {
      asked.push({ path: request.url, body: Buffer.concat(body).toString(), headers: request.headers })
      const found = typeof answer === 'function' ? answer(request, response) : answer
      if (found) response.setHeader('Content-Type', 'application/json').end(JSON.stringify(found))
    })
  })
  if (sockets) new WebSocketServer({ server }).on('connection', sockets)
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${server.address().port}`, asked)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** Writes for as long as somebody takes it. */
function endlessly(response, piece) {
  const more = () => {
    while (!response.destroyed && response.write(piece));
    if (!response.destroyed) response.once('drain', more)
  }
  more()
}

const failing = (call) => Promise.resolve().then(call).then((v) => assert.fail(`it was not refused: ${v}`), (e) => e)
const refused = async (call, code) => {
  const error = await failing(call)
  assert.ok(error instanceof StockadeError && error.code === code, error.stack)
  return error
}
const all = async (from) => {
  const found = []
  for await (const one of from) found.push(one)
  return found
}
const boxAt = (url, options = {}) => new Client(url, { token: 'a-token', ...options }).sandboxes.get('0123')
const host = (url) => url.split('://')[1]
const text = (domain, uri, wallet, { nonce = NONCE, statement = 'Sign in.', after = '' } = {}) =>
  `${domain} wants you to sign in with your Ethereum account:\n${wallet}\n\n${statement}\n\nURI: ${uri}\nVersion: 1\nChain ID: 1\nNonce: ${nonce}\nIssued At: 2026-01-01T00:00:00Z\nExpiration Time: 2026-01-01T00:05:00Z${after}`

/** What was signed by a client whose server sends such a text. */
async function signIn(make, options) {
  const signed = []
  let own
  return liar(
    (request) => (request.url.endsWith('/challenge') ? { nonce: NONCE, message: make(own) } : SESSION),
    async (url) => {
      own = url
      const error = await new Client(url).signIn(WALLET, (t) => (signed.push(t), '0x00'), options).then(() => undefined, (e) => e)
      return { signed, error }
    },
  )
}

/** The same of a server that has this URL, which is reached elsewhere. */
async function signInAt(url, domain) {
  const message = text(domain, `${url.split('://')[0]}://${domain}`, WALLET)
  const answer = async (at) => Response.json(at.endsWith('/challenge') ? { nonce: NONCE, message } : SESSION)
  return new Client(url, { fetch: answer, insecureHttp: true }).signIn(WALLET, () => '0x00')
}

const tests = {
  async textsForUs() {
    for (const make of [
      (url) => text(host(url), url, WALLET),
      (url) => text(host(url), url, WALLET.toLowerCase()),
      (url) => text(host(url), url, WALLET).replace('Sign in.\n', ''),
      (url) => text(host(url), url, WALLET, { after: '\nNot Before: 2026-01-01T00:00:00Z\nRequest ID: x' }),
    ]) {
      const { signed, error } = await signIn(make)
      assert.ok(!error && signed.length === 1, String(error))
    }
  },

  async otherTexts() {
    for (const [make, why] of [
      [() => text('bank.example', 'https://bank.example', WALLET), 'bank.example'],
      [(url) => text('bank.example', url, WALLET), 'bank.example'],
      [(url) => text(host(url), 'https://bank.example', WALLET), 'URI'],
      [(url) => text(host(url), `${url}/`, WALLET), 'URI'],
      [(url) => text(url, url, WALLET), 'the text is for'],
      [(url) => text(`${host(url)}:80`, url, WALLET), 'the text is for'],
      [(url) => text(`x@${host(url)}`, url, WALLET), 'the text is for'],
      [(url) => text(host(url), url, OTHER), 'another wallet'],
      [(url) => text(host(url), url, WALLET, { statement: 'URI: https://bank.example' }), 'URI'],
      [(url) => text(host(url), url, WALLET, { after: '\nResources:\n- https://bank.example/all' }), 'resources'],
      [(url) => text(host(url), url, WALLET, { nonce: 'fedcba9876543210' }), 'another challenge'],
      [(url) => text(host(url), url, WALLET, { after: '\nI owe you a million' }), 'EIP-4361'],
      [(url) => text(host(url), url, WALLET, { after: '\n' }), 'EIP-4361'],
      [(url) => text(host(url), url, WALLET, { statement: 'one\ntwo' }), 'EIP-4361'],
      [(url) => text(host(url), url, WALLET).replaceAll('\n', '\r\n'), 'something else'],
      [(url) => `I owe you a million\n${text(host(url), url, WALLET)}`, 'something else'],
      [() => 'x'.repeat(5000), 'no text'],
      [() => ['a list'], 'no text'],
      [() => PLAIN, 'names no server'],
    ]) {
      const { signed, error } = await signIn(make)
      assert.ok(signed.length === 0 && error instanceof StockadeError && error.code === 'BAD_CHALLENGE' && error.message.includes(why), `${why}: ${error}`)
    }
  },

  async plainText() {
    assert.deepEqual((await signIn(() => PLAIN, { plainText: true })).signed, [PLAIN])
    for (const other of [`${PLAIN}\nand a million`, PLAIN.replace(NONCE, '0'.repeat(16)), PLAIN.replace('Tangle', 'Bank')])
      assert.deepEqual((await signIn(() => other, { plainText: true })).signed, [])
  },

  async usualPorts() {
    for (const [url, domain] of [['https://api.example.org', 'api.example.org:443'], ['https://api.example.org:443', 'API.example.org'], ['http://localhost', 'localhost:80'], ['http://[::1]:7070', '[::1]:7070']])
      await signInAt(url, domain)
    for (const [url, domain] of [['https://api.example.org', 'api.example.org:80'], ['https://api.example.org:7070', 'api.example.org'], ['https://api.example.org:7070', 'api.example.org:7070:443']])
      await refused(() => signInAt(url, domain), 'BAD_CHALLENGE')
  },

  async plainHttp() {
    for (const here of ['http://127.0.0.1:7070', 'http://127.0.0.2', 'http://localhost:1', 'http://[::1]:1', 'https://api.example.org']) new Client(here)
    for (const there of ['http://api.example.org', 'http://10.0.0.1', 'http://127.0.0.1.example.org', 'http://localhost.example.org', 'http://[::2]', 'http://0.0.0.0:1']) {
      assert.throws(() => new Client(there), /insecureHttp/)
      new Client(there, { insecureHttp: true })
    }
    assert.throws(() => new Client('https://127.0.0.1:pass@api.example.org'), /user/)
    assert.throws(() => new Client('nonsense'), TypeError)
  },

  links: () =>
    liar(SESSION, async (url, asked) => {
      for (const link of ['https://api.example.org/#link=c0de', `${url.replace('127.0.0.1', 'localhost')}/#link=c0de`, `${url.replace('http', 'https')}/#link=c0de`, `${url}/`, `${url}/#other=c0de`, '#link=c0de', `http://x@${host(url)}/#link=c0de`]) {
        const error = await failing(() => new Client(url).signInWithLink(link))
        assert.ok(error instanceof TypeError && !error.message.includes('c0de'), String(error))
      }
      assert.deepEqual(asked, [])
      for (const link of [`${url}/#link=c0de`, 'c0de']) {
        await new Client(url).signInWithLink(link)
        assert.equal(asked.pop().body, '{"link":"c0de"}')
      }
    }),

  redirects: () =>
    liar({ status: 'ok' }, async (elsewhere, visited) => {
      for (const status of [301, 302, 303, 307, 308])
        await liar(
          (request, response) => (request.url === '/api/sandboxes/0123' ? BOX : void response.writeHead(status, { Location: `${elsewhere}/take-it` }).end('{}')),
          async (url) => {
            const client = new Client(url, { token: 'a-token' })
            const box = await boxAt(url)
            for (const call of [() => client.whoami(), () => client.health(), () => client.metrics(), () => box.usage(), () => box.files.read('/x'), () => box.files.list('/x'), () => all(client.events({ after: 0 }))]) {
              const error = await refused(call, 'REDIRECTED')
              assert.ok(error.status === status && error.message.includes(elsewhere), String(error))
            }
            assert.equal((await box.portRequest('GET', 80)).status, status) // there it is the business of whoever asks
          },
        )
      assert.deepEqual(visited, [])
      // a browser shows nothing of one
      const opaque = { type: 'opaqueredirect', status: 0, headers: new Headers(), body: null }
      await refused(() => new Client('https://x.example', { fetch: async () => opaque }).whoami(), 'REDIRECTED')
    }),

  async notJson() {
    for (const body of ['<html>Welcome</html>', '', '[1]', '"x"', '{"a":'])
      await liar(
        (_, response) => void response.setHeader('Content-Type', 'text/html').end(body),
        async (url) => {
          const error = await refused(() => new Client(url).whoami(), 'BAD_ANSWER')
          assert.ok(error.message.includes('text/html') && error.hint, String(error))
        },
      )
    await liar(
      (_, response) => void endlessly(response, Buffer.alloc(65536, ' ')),
      async (url) => assert.match((await refused(() => new Client(url).whoami(), 'BAD_ANSWER')).message, /larger than/),
    )
  },

  portPaths: () =>
    liar(BOX, async (url, asked) => {
      const box = await boxAt(url)
      asked.pop()
      for (const path of ['../../exec', '/../../exec', 'a/../../../exec', '%2e%2e/%2E./exec', '.%2e/x', '..', 'a/..?b', '..%2fexec', '..\\x', '%2e%2e%5cx', '.\t./../exec', '.\n./x', 'a/../b']) {
        assert.match((await failing(() => box.portRequest('POST', 80, path))).message, /no '\.\.'/, path)
        assert.throws(() => box.portUrl(80, path), TypeError)
      }
      assert.deepEqual(asked, [])
      for (const path of ['/a..b/...', '/?next=../x', '/%20', 'a.b/.c']) {
        await box.portRequest('GET', 80, path)
        assert.equal(asked.pop().path, `/api/sandboxes/0123/port/80/${path.replace(/^\//, '')}`)
      }
    }),

  async events() {
    const stream = (write) => (request, response) => (request.method === 'GET' && request.url === '/api/sandboxes/0123' ? BOX : void write(response.setHeader('Content-Type', 'text/event-stream')))
    for (const [write, why] of [
      [(r) => (r.write('data: '), endlessly(r, Buffer.alloc(65536, 'x'))), /line/],
      [(r) => endlessly(r, `data: ${'x'.repeat(60_000)}\n`), /event/],
      [(r) => r.end('data: nonsense\n\n'), /no JSON/],
      [(r) => r.end('data: [1]\n\n'), /no JSON/],
    ])
      await liar(stream(write), async (url) => {
        const box = await boxAt(url)
        assert.match((await refused(() => all(box.execStream('x')), 'BAD_ANSWER')).message, why)
        assert.match((await refused(() => all(box.events({ after: 0 })), 'BAD_ANSWER')).message, why)
      })
    const whole = Buffer.from('event: stdout\ndata: {"data":\ndata: "ü"}\n\nevent: exit\ndata: {}\n\n')
    for (const size of [1, 2, 7, 1000]) {
      const pieces = []
      for (let i = 0; i < whole.length; i += size) pieces.push(whole.subarray(i, i + size))
      const body = () => new ReadableStream({ start: (c) => (pieces.forEach((p) => c.enqueue(p)), c.close()) })
      const box = await new Client('https://x.example', { fetch: async (_, init) => (init.method === 'GET' ? Response.json(BOX) : new Response(body())) }).sandboxes.get('0123')
      const found = await all(box.execStream('x'))
      assert.deepEqual(found.map((e) => [e.kind, Buffer.from(e.data).toString()]), [['stdout', 'ü'], ['exit', '']])
    }
  },

  async sockets() {
    const answer = (request) => (request.url.endsWith('/ticket') ? { ticket: 't' } : BOX)
    const attach = async (url) => (await boxAt(url, { WebSocket })).run(1).attach()
    const flood = (piece) => (socket) => {
      const more = () => socket.readyState === 1 && socket.send(piece, () => setImmediate(more))
      more()
    }
    // nobody reads: it ends by itself
    const closed = []
    await liar(answer, async (url) => {
      const attached = await attach(url)
      for (const end = Date.now() + 60_000; !closed.length; await new Promise((r) => setTimeout(r, 20))) assert.ok(Date.now() < end, 'it is still open')
      let size = 0
      const error = await failing(async () => {
        for await (const event of attached) size += event.data.length
      })
      assert.ok(error instanceof StreamEnded && /nobody read/.test(error.message), String(error))
      assert.ok(size > 1 << 20 && size <= 16 << 20, String(size))
    }, (socket) => (socket.on('close', () => closed.push(1)), flood(Buffer.alloc(65536, 'x'))(socket)))
    // empty messages cost something, too
    closed.length = 0
    await liar(answer, async (url) => {
      await attach(url)
      for (const end = Date.now() + 60_000; !closed.length; await new Promise((r) => setTimeout(r, 20))) assert.ok(Date.now() < end, 'it is still open')
    }, (socket) => (socket.on('close', () => closed.push(1)), Array.from({ length: 70_000 }, () => socket.send(Buffer.alloc(0)))))
    // the marker never comes
    for (const limit of [undefined, 100_000])
      await liar(answer, async (url) => {
        const attached = await attach(url)
        assert.match((await failing(() => attached.readUntil('never', limit))).message, /was not among them/)
      }, flood(Buffer.alloc(65536, 'x')))
    await liar(answer, async (url) => {
      assert.ok((await (await attach(url)).readUntil('marker')).endsWith('xmarker and more'))
    }, (socket) => ['x'.repeat(70_000), 'mar', 'ker and more'].forEach((piece) => socket.send(Buffer.from(piece))))
    // what is no message of ours does not end the program
    for (const message of ['nonsense', '{"started": 1}', 'null'])
      await liar(answer, async (url) => {
        const attached = await attach(url)
        await refused(() => all(attached), 'BAD_ANSWER')
      }, (socket) => socket.send(message))
  },
}

// one that waits for something that does not come has a name, and does not hold up the rest
const inTime = (promise) => Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error('it never ended')), 100_000).unref())])
let failed = 0
for (const [name, test] of Object.entries(tests))
  await inTime(test()).catch((e) => {
    failed++
    console.error(`${name}: ${e.stack}`)
  })
if (failed) process.exit(1)
console.log('all is well')
process.exit(0)
