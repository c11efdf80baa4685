// A Node program with ethers and paseto-ts, neither of them ours: signs in, looks at the session's token, and tries to read
// and to change it.   node foreign.mjs URL SECRET_FILE
// Prints one line of JSON with what it found; ends with 1 if anything is not as it should be.
import assert from 'node:assert/strict'
import { hkdfSync, randomBytes, webcrypto } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { id, Wallet } from 'ethers'
import { decrypt, encrypt } from 'paseto-ts/v4'

globalThis.crypto ??= webcrypto // Debian 12's own Node, 18, has none
const [url, secretFile] = process.argv.slice(2)
const ask = async (method, path, token, json) => {
  const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...(json && { 'Content-Type': 'application/json' }) }
  const r = await fetch(url + path, { method, headers, ...(json && { body: JSON.stringify(json) }) })
  return { status: r.status, ...(await r.json()) }
}
const signIn = async (wallet) => {
  const challenge = await ask('POST', '/api/auth/challenge', null, { address: wallet.address })
  assert.equal(challenge.status, 200)
  assert.ok(challenge.message.includes(wallet.address) && challenge.message.includes(`URI: ${url}`))
  const session = await ask('POST', '/api/auth/session', null, { nonce: challenge.nonce, signature: await wallet.signMessage(challenge.message) })
  assert.equal(session.status, 200, JSON.stringify(session))
  return session
}
const tried = (f) => {
  try {
    return f()
  } catch {
    return null
  }
}

const wallet = new Wallet(id('node with ethers'))
const session = await signIn(wallet)
const { token } = session
assert.equal(session.owner, `eth:${wallet.address.toLowerCase()}`)
assert.equal((await ask('GET', '/api/auth/whoami', token)).owner, session.owner)

// what can be read without the key: that it is a token, and which key it wants
const parts = token.split('.')
assert.deepEqual(parts.slice(0, 2), ['v4', 'local'])
const clear = Buffer.from(parts[2], 'base64url').toString('latin1')
for (const secret of [session.owner, wallet.address.slice(2), wallet.address.slice(2).toLowerCase(), 'person', url, 'jti'])
  assert.ok(!clear.includes(secret), `'${secret}' can be read`)
const footer = JSON.parse(Buffer.from(parts[3], 'base64url'))
assert.deepEqual(Object.keys(footer), ['kid'])

// keys that somebody could think of open nothing
const paserk = (key) => 'k4.local.' + Buffer.from(key).toString('base64url')
const assertion = `stockade session 1\nperson\n${url}`
const LAX = { validatePayload: false }
const guesses = [Buffer.alloc(32), Buffer.alloc(32, 255), randomBytes(32), Buffer.from(parts[2], 'base64url').subarray(0, 32),
  Buffer.from(wallet.privateKey.slice(2), 'hex'), Buffer.from(footer.kid.padEnd(64, '0').slice(0, 64), 'hex')]
for (const key of guesses)
  for (const a of [assertion, '', undefined]) assert.equal(tried(() => decrypt(paserk(key), token, { ...LAX, assertion: a })), null)

// the same calls with the right key do open it, so that the nothing above means something
const secret = readFileSync(secretFile)
const derived = (info) => Buffer.from(hkdfSync('sha512', secret, 'stockade keyring 1', info, 32))
const right = derived('session: paseto v4.local')
const opened = decrypt(paserk(right), token, { ...LAX, assertion })
assert.equal(opened.payload.sub, session.owner)
assert.equal(opened.payload.aud, url)
assert.equal(tried(() => decrypt(paserk(right), token, LAX)), null)
for (const other of ['capability: blake2b chain', 'data key: xchacha20-poly1305'])
  assert.equal(tried(() => decrypt(paserk(derived(other)), token, { ...LAX, assertion })), null)

// tokens that we make, or change, are not let in
const forged = guesses.map((key) => encrypt(paserk(key), Buffer.from(JSON.stringify(opened.payload)), { addIat: false, addExp: false, validatePayload: false, assertion, footer: JSON.stringify(footer) }))
const changed = [0, 1, 2, 3].flatMap((part) => {
  const at = Math.floor(parts[part].length / 2)
  const letter = parts[part][at] === 'A' ? 'B' : 'A'
  return [parts.map((text, i) => (i === part ? text.slice(0, at) + letter + text.slice(at + 1) : text)).join('.')]
})
const wrong = [...forged, ...changed, token.slice(0, -1), token + 'A', parts.slice(0, 3).join('.'), token.replace('v4.local', 'v3.local'), token.replace('local', 'public'), 'x']
for (const bad of wrong) assert.equal((await ask('GET', '/api/sandboxes', bad)).status, 401, bad)

// somebody else's signature, a signature of another text, and one that was used
const challenge = await ask('POST', '/api/auth/challenge', null, { address: wallet.address })
const other = new Wallet(id('somebody else'))
assert.equal((await ask('POST', '/api/auth/session', null, { nonce: challenge.nonce, signature: await other.signMessage(challenge.message) })).status, 401)
assert.equal((await ask('POST', '/api/auth/session', null, { nonce: challenge.nonce, signature: await wallet.signMessage(challenge.message) })).status, 401)

// two owners do not see each other
const made = await ask('POST', '/api/sandboxes', token, { profile: 'low' })
assert.equal(made.status, 201)
const stranger = await signIn(other)
assert.equal((await ask('GET', `/api/sandboxes/${made.id}`, stranger.token)).status, 404)
assert.ok(!(await ask('GET', '/api/sandboxes', stranger.token)).sandboxes.some((s) => s.id === made.id))
assert.equal((await ask('DELETE', `/api/sandboxes/${made.id}?force=true`, token)).status, 200)

assert.equal((await ask('DELETE', '/api/auth/session', token)).status, 200)
assert.equal((await ask('GET', '/api/sandboxes', token)).status, 401)
console.log(JSON.stringify({ guesses: guesses.length, refused: wrong.length }))
