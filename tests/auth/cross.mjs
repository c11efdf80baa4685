// Asks auth-cross (cross.c) and npm's ethers, siwe and paseto-ts the same questions and compares the answers.
//
//   node cross.mjs PROGRAM SECTION CASES SEED
//
// Prints one line with what was compared, or says what differs and exits with 1.
import { spawn } from 'node:child_process'
import { createHmac, hkdfSync, webcrypto } from 'node:crypto'
import { createInterface } from 'node:readline'
import { hash as blake2b } from '@stablelib/blake2b'
import { getAddress, keccak256, verifyMessage, Wallet } from 'ethers'
import { decrypt, encrypt } from 'paseto-ts/v4'
import { SiweMessage } from 'siwe'

globalThis.crypto ??= webcrypto // Debian 12's own Node, 18, has none
const [program, section, cases, seed] = process.argv.slice(2)

// --- chance that can be repeated ------------------------------------------------------------------------------------

let drawn = 0
function randomBytes(n) {
  const parts = []
  for (let have = 0; have < n; have += 64)
    parts.push(createHmac('sha512', `${section} ${seed}`).update(String(drawn++)).digest())
  return Buffer.concat(parts).subarray(0, n)
}
const below = (n) => randomBytes(6).readUIntLE(0, 6) % n
const pick = (list) => list[below(list.length)]
const chance = (n) => below(n) === 0
const letters = (alphabet, n) => Array.from({ length: n }, () => pick([...alphabet])).join('')
const DIGITS = '0123456789'
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
const key32 = () => randomBytes(32)

// --- the program ----------------------------------------------------------------------------------------------------

const child = spawn(program, { stdio: ['pipe', 'pipe', 'inherit'] })
const waiting = []
createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()(line.split(' ')))
child.on('exit', (code, signal) => {
  if (waiting.length) {
    console.error(`the program ended: ${code ?? signal}`)
    process.exit(1)
  }
})

const hex = (v) => (v === null || v === undefined || v.length === 0 ? '-' : Buffer.from(v).toString('hex'))
const text = (h) => (h === '-' ? undefined : h === 'empty' ? '' : Buffer.from(h, 'hex').toString())

/** The words of the answer, without "ok"; null if the answer is no. */
async function ask(question, ...args) {
  const answer = new Promise((resolve) => waiting.push(resolve))
  child.stdin.write([question, ...args].join(' ') + '\n')
  const words = await answer
  if (words[0] === 'ok') return words.slice(1)
  if (words[0] !== 'no') throw new Error(`strange answer: ${words.join(' ')}`)
  return null
}

const counts = {}
const count = (what) => (counts[what] = (counts[what] ?? 0) + 1)
function same(ours, theirs, what) {
  count(what)
  const [a, b] = [ours, theirs].map((v) => JSON.stringify(v))
  if (a !== b) throw new Error(`${what}: ours ${a}, theirs ${b}`)
}
const tried = (f) => {
  try {
    return f()
  } catch {
    return null
  }
}

// --- ethereum -------------------------------------------------------------------------------------------------------

async function keccak(i) {
  const data = randomBytes(i < 300 ? i : below(3000))
  same((await ask('keccak', hex(data)))[0], keccak256(data).slice(2), 'keccak')
}

async function addresses() {
  const address = getAddress('0x' + randomBytes(20).toString('hex'))
  same(text((await ask('address', hex(address), 0))[0]), address, 'address')
  same(text((await ask('address', hex(address.toLowerCase()), 1))[0]), address, 'address in lower case')
  // one letter in another case: ethers finds that too
  const i = 2 + below(40)
  const other = address[i] >= 'a' ? address[i].toUpperCase() : address[i].toLowerCase()
  const wrong = address.slice(0, i) + other + address.slice(i + 1)
  const ours = await ask('address', hex(wrong), 1)
  same(ours && text(ours[0]), tried(() => getAddress(wrong)), 'address with another letter')
}

const randomText = () =>
  pick([
    () => letters(LETTERS + DIGITS + ' \n', below(300)),
    () => Array.from({ length: below(40) }, () => String.fromCodePoint(pick([0x20, 0xe4, 0x20ac, 0x1f600]) + below(20))).join(''),
    () => '',
  ])()

async function signatures() {
  const wallet = new Wallet('0x' + key32().toString('hex'))
  const message = randomText()
  const signature = wallet.signMessageSync(message)
  same(text((await ask('recover', hex(message), hex(signature)))[0]), wallet.address, 'signed by ethers')
  const ours = '0x' + (await ask('sign', wallet.privateKey.slice(2), hex(message)))[0]
  same(verifyMessage(message, ours), wallet.address, 'signed by us')
  same(ours, signature, 'the same signature (RFC 6979)')
  // one bit differs: where we see a signer, ethers sees the same
  const bytes = Buffer.from(signature.slice(2), 'hex')
  bytes[below(65)] ^= 1 << below(8)
  const bad = '0x' + bytes.toString('hex')
  const who = await ask('recover', hex(message), hex(bad))
  if (who) same(text(who[0]), tried(() => verifyMessage(message, bad)), 'a changed signature')
  else count('a changed signature, refused')
  // the twin with the high s: a signature of the same account, which nobody needs
  const n = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
  const s = (n - BigInt('0x' + signature.slice(66, 130))).toString(16).padStart(64, '0')
  const twin = signature.slice(0, 66) + s + (signature.endsWith('1b') ? '1c' : '1b')
  same(await ask('recover', hex(message), hex(twin)), null, 'the malleable twin')
}

// --- sign-in texts --------------------------------------------------------------------------------------------------

const URIS = ['https://service.org/login', 'http://127.0.0.1:8080', 'https://[2001:db8::1]:7070/a/b?c=d#e', 'urn:isbn:0451450523',
  'ipfs://Qme7ss3ARVgxv6rXqVPiikMJ8u2NLgmgszg13pYrDKEoiu', 'https://user@h.example/%20/;x=1', 'did:key:z6Mk', 'https://a.b/~c_d-e.f!$']
const DOMAINS = ['service.org', 'localhost:3000', '127.0.0.1', '[::1]:7070', 'user@h.example', 'xn--bcher-kva.example', 'a-b.c_d:65535']

function randomTime() {
  const ms = 1600000000000 + below(4e11)
  const iso = new Date(ms).toISOString()
  return pick([iso, iso.slice(0, 19) + 'Z', iso.slice(0, 19) + pick(['+02:00', '-11:30', '+00:00']), iso.slice(0, 19) + '.5Z'])
}

function randomFields() {
  const maybe = (f) => (chance(2) ? f() : undefined)
  return {
    scheme: maybe(() => pick(['https', 'http', 'x-y.z+1'])),
    domain: pick(DOMAINS),
    address: getAddress('0x' + randomBytes(20).toString('hex')),
    statement: maybe(() => letters(LETTERS + DIGITS + " :/?#[]@!$&'()*+,;=-._~", 1 + below(200))),
    uri: pick(URIS),
    version: '1',
    chainId: pick([1, 10, 3799, 5845, Number.MAX_SAFE_INTEGER]),
    nonce: letters(LETTERS + DIGITS, 8 + below(60)),
    issuedAt: randomTime(),
    expirationTime: maybe(randomTime),
    notBefore: maybe(randomTime),
    requestId: maybe(() => letters(LETTERS + DIGITS + '-._~:@!$', 1 + below(20))),
    resources: maybe(() => Array.from({ length: 1 + below(5) }, () => pick(URIS))),
  }
}

const FIELDS = ['scheme', 'domain', 'address', 'statement', 'uri', 'chainId', 'nonce', 'issuedAt', 'expirationTime', 'notBefore', 'requestId']

/** Our parse of a message, as siwe would have it; null if we refuse it. */
async function parsed(message) {
  const words = await ask('siwe-parse', hex(message))
  if (!words) return null
  const fields = Object.fromEntries(FIELDS.map((name, i) => [name, name === 'chainId' ? Number(words[i]) : text(words[i])]))
  fields.resources = words[11] === 'resources' ? words.slice(15).map(text) : undefined
  fields.times = words.slice(12, 15).map(Number)
  return fields
}

const theirFields = (m) => Object.fromEntries([...FIELDS, 'resources'].map((name) => [name, m[name] ?? undefined]))
const withoutTimes = (f) => f && Object.fromEntries(Object.entries(f).filter(([name]) => name !== 'times'))

async function siweBuildAndParse() {
  const fields = randomFields()
  const theirs = new SiweMessage(fields).prepareMessage()
  const [built] = await ask('siwe-build', ...FIELDS.map((name) => (name === 'chainId' ? fields[name] : hex(fields[name]))),
    ...(fields.resources ?? []).map(hex))
  same(text(built), theirs, 'siwe: built')
  const ours = await parsed(theirs)
  same(withoutTimes(ours), theirFields(new SiweMessage(theirs)), 'siwe: parsed')
  same(ours.times, ['issuedAt', 'expirationTime', 'notBefore'].map((n) => (fields[n] ? Date.parse(fields[n]) : 0)), 'siwe: times')
}

/** Changed messages. Ours may be stricter; whatever it takes, siwe takes, and sees the same in it. */
async function siweChanged() {
  let message = new SiweMessage(randomFields()).prepareMessage()
  for (let i = 0; i <= below(2); i++) {
    const lines = message.split('\n')
    const a = below(lines.length)
    const b = below(lines.length)
    const at = below(message.length)
    message = pick([
      () => message.slice(0, at) + pick([' ', '\n', '\0', '\r', '%', 'ü', '"', ':', '/', '0', 'a', 'A']) + message.slice(at),
      () => message.slice(0, at) + message.slice(at + 1),
      () => message.slice(0, at),
      () => [...lines.slice(0, a), ...lines.slice(a + 1)].join('\n'),
      () => [...lines.slice(0, a), lines[b], ...lines.slice(a)].join('\n'),
      () => lines.map((line, i) => (i === a ? lines[b] : i === b ? lines[a] : line)).join('\n'),
      () => message + pick(['\n', ' ', '\nResources:', '\nResources:\n- https://x.y', '\nRequest ID: a', '\nNot Before: 2027-01-01T00:00:00Z']),
      () => lines.map((line, i) => (i === a ? line.toLowerCase() : line)).join('\n'),
    ])()
  }
  const ours = await parsed(message)
  const theirs = tried(() => new SiweMessage(message))
  if (!ours) return count(theirs ? 'siwe: changed, only ours refuses' : 'siwe: changed, both refuse')
  if (theirs) same(withoutTimes(ours), theirFields(theirs), 'siwe: changed, both take')
  else throw new Error(`only ours takes ${JSON.stringify(message)}`)
}

async function siweVerify() {
  const wallet = new Wallet('0x' + key32().toString('hex'))
  const fields = { ...randomFields(), address: wallet.address, scheme: undefined }
  const after = (ms) => new Date(Date.parse(fields.issuedAt) + ms).toISOString()
  if (!chance(4)) Object.assign(fields, { notBefore: after(0), expirationTime: after(300000) })
  const message = new SiweMessage(fields)
  const prepared = message.prepareMessage()
  const signature = chance(6) ? wallet.signMessageSync(prepared + ' ') : wallet.signMessageSync(prepared)
  const domain = chance(6) ? 'other.example' : fields.domain
  const nonce = chance(6) ? 'othernonce' : fields.nonce
  const time = new Date(Date.parse(fields.issuedAt) + pick([0, 1, 1000, 299999, 300000, -1, 1e10]))
  const theirs = await message.verify({ signature, domain, nonce, time: time.toISOString() }, { suppressExceptions: true })
  const ours = await ask('siwe-verify', hex(prepared), hex(signature), hex(domain), hex(fields.uri), fields.chainId, hex(nonce), +time, 0)
  same(!!ours, theirs.success, theirs.success ? 'siwe: verified' : 'siwe: refused')
  if (ours) same(text(ours[0]), wallet.address, 'siwe: who it is')
}

async function plain() {
  const wallet = new Wallet('0x' + key32().toString('hex'))
  const nonce = randomBytes(32).toString('hex')
  const expires = 1800000000 + below(1e9)
  const message = `Sign this message to authenticate with Tangle Sandbox.\n\nNonce: ${nonce}\nExpires: ${expires}`
  same(text((await ask('plain', hex(nonce), expires * 1000))[0]), message, 'plain text')
  const signature = wallet.signMessageSync(message).slice(chance(2) ? 2 : 0)
  same(text((await ask('plain', hex(nonce), expires * 1000, hex(signature), expires * 1000 - 1))[0]), wallet.address, 'plain text, signed')
  same(await ask('plain', hex(nonce), expires * 1000, hex(signature), expires * 1000), null, 'plain text, too late')
}

async function times() {
  const t = randomTime()
  same(Number((await ask('time', hex(t)))[0]), Date.parse(t), 'time')
}

// --- tokens ---------------------------------------------------------------------------------------------------------

const paserk = (key) => 'k4.local.' + Buffer.from(key).toString('base64url')
const LAX = { addIat: false, addExp: false, validatePayload: false }

async function paseto() {
  const key = key32()
  const payload = JSON.stringify({ data: randomText(), n: below(1e9) })
  const footer = chance(2) ? JSON.stringify({ kid: randomBytes(8).toString('hex') }) : ''
  const assertion = chance(2) ? letters(LETTERS, below(50)) : ''
  const theirs = encrypt(paserk(key), Buffer.from(payload), { ...LAX, footer, assertion })
  same(text((await ask('paseto-open', hex(key), hex(theirs), hex(assertion)))[0]), payload, 'paseto: sealed by paseto-ts')
  const ours = text((await ask('paseto-seal', hex(key), hex(payload), hex(footer), hex(assertion)))[0])
  same(decrypt(paserk(key), ours, { assertion, validatePayload: false }).payload, JSON.parse(payload), 'paseto: sealed by us')
  same(await ask('paseto-open', hex(key), hex(theirs), hex(assertion + 'x')), null, 'paseto: another assertion')
  same(await ask('paseto-open', hex(key32()), hex(theirs), hex(assertion)), null, 'paseto: another key')
  const at = below(ours.length)
  const changed = ours.slice(0, at) + pick([...(LETTERS + DIGITS + '-_.=')].filter((c) => c !== ours[at])) + ours.slice(at + 1)
  same(await ask('paseto-open', hex(key), hex(changed), hex(assertion)), null, 'paseto: changed')
}

const PURPOSES = ['session: paseto v4.local', 'capability: blake2b chain', 'data key: xchacha20-poly1305']
const derived = (secret, info, size) => Buffer.from(hkdfSync('sha512', secret, 'stockade keyring 1', info, size))

async function keys() {
  const secret = randomBytes(32 + below(200))
  for (const [i, info] of PURPOSES.entries()) {
    const [id, key] = await ask('key', hex(secret), i)
    same(key, derived(secret, info, 32).toString('hex'), 'key')
    same(id, derived(secret, 'key id', 8).toString('hex'), 'key id')
  }
}

async function sessions() {
  const secret = randomBytes(40)
  const subject = 'eth:0x' + randomBytes(20).toString('hex')
  const audience = pick(['https://stockade.example', 'http://127.0.0.1:7070'])
  const now = 1800000000000 + below(1e9)
  const token = text((await ask('session-make', hex(secret), hex(subject), hex(audience), hex('s'), 0, now, now + 3600000))[0])
  const key = paserk(derived(secret, PURPOSES[0], 32))
  const assertion = `stockade session 1\nperson\n${audience}`
  // with the key, somebody else's library reads it; with a wrong key or without the assertion it reads nothing
  const { payload, footer } = decrypt(key, token, { assertion, validatePayload: false })
  same([payload.sub, payload.aud, payload.kind, payload.scope, Date.parse(payload.iat), Date.parse(payload.exp)],
    [subject, audience, 'person', 's', now, now + 3600000], 'session: claims')
  same(footer.kid ?? JSON.parse(footer).kid, derived(secret, 'key id', 8).toString('hex'), 'session: key id')
  same(tried(() => decrypt(key, token, { validatePayload: false })), null, 'session: no assertion, nothing to read')
  same(tried(() => decrypt(paserk(key32()), token, { assertion, validatePayload: false })), null, 'session: no key, nothing to read')
  for (const other of PURPOSES.slice(1))
    same(tried(() => decrypt(paserk(derived(secret, other, 32)), token, { assertion, validatePayload: false })), null, 'session: key of another purpose')
  // made elsewhere with our key: ours opens it
  const foreign = encrypt(key, Buffer.from(JSON.stringify({ ...payload, scope: 'x' })), { ...LAX, assertion, footer: JSON.stringify({ kid: derived(secret, 'key id', 8).toString('hex') }) })
  const opened = await ask('session-open', hex(secret), 0, hex(audience), now, hex(foreign))
  same([text(opened[0]), text(opened[1]), opened[2]], [subject, 'x', payload.jti], 'session: made by paseto-ts')
  same(await ask('session-open', hex(secret), 1, hex(audience), now, hex(token)), null, 'session: of another kind')
  same(await ask('session-open', hex(secret), 0, hex('https://other'), now, hex(token)), null, 'session: for another audience')
  same(await ask('session-open', hex(secret), 0, hex(audience), now + 3600000, hex(token)), null, 'session: expired')
}

/** What a holder does without us. */
function narrow(token, limit) {
  const parts = token.split('.')
  const bytes = Buffer.from(typeof limit === 'string' ? limit : JSON.stringify(limit))
  const tag = blake2b(Buffer.concat([Buffer.from('stockade capability limit 1\n'), bytes]), 32, { key: Buffer.from(parts.pop(), 'base64url') })
  return [...parts, bytes.toString('base64url'), Buffer.from(tag).toString('base64url')].join('.')
}

async function capabilities() {
  const secret = randomBytes(40)
  const now = 1800000000000 + below(1e9)
  const args = [hex(secret), hex('eth:0x1'), hex('*'), hex('sandbox/*'), now, now + 3600000]
  const token = text((await ask('capability-make', ...args))[0])
  // the root's tag, made again with the key
  const [prefix, kid, root, tag] = token.split('.')
  const expected = blake2b(Buffer.concat([Buffer.from('stockade capability root 1\n' + kid), Buffer.from(root, 'base64url')]), 32, { key: derived(secret, PURPOSES[1], 32) })
  same([prefix, tag], ['stockade-cap1', Buffer.from(expected).toString('base64url')], 'capability: tag')
  const may = async (t, verb, resource, at = now) => (await ask('capability-may', hex(secret), hex(t), hex(verb), hex(resource), at))?.[0]
  same(await may(token, 'exec', 'sandbox/1'), 'may', 'capability: may')
  const verbs = ['exec', 'get', 'delete'].filter(() => chance(2))
  const resources = ['sandbox/1', 'sandbox/2/*', 'snapshot/*'].filter(() => chance(2))
  const narrowed = narrow(narrow(token, { verbs }), { resources, exp: new Date(now + 1000).toISOString() })
  for (const verb of ['exec', 'get', 'delete'])
    for (const [resource, pattern] of [['sandbox/1', 'sandbox/1'], ['sandbox/2/files', 'sandbox/2/*'], ['snapshot/1', null], ['sandbox/3', null]]) {
      same(await may(narrowed, verb, resource), verbs.includes(verb) && resources.includes(pattern) ? 'may' : 'may-not', 'capability: narrowed by a holder')
      same(await may(narrowed, verb, resource, now + 1000), 'may-not', 'capability: narrowed in time')
    }
  same(await may(narrow(narrowed, { verbs: ['*'], resources: ['*'] }), 'put', 'snapshot/1'), 'may-not', 'capability: never wider')
  same(await may(narrow(token, { verb: ['exec'] }), 'exec', 'sandbox/1'), undefined, 'capability: unknown key')
  const ours = text((await ask('capability-narrow', hex(token), hex('get')))[0])
  same(ours, narrow(token, '{"verbs":["get"]}'), 'capability: narrowed by us')
}

// --------------------------------------------------------------------------------------------------------------------

const sections = { keccak, addresses, signatures, siweBuildAndParse, siweChanged, siweVerify, plain, times, paseto, keys, sessions, capabilities }
try {
  for (let i = 0; i < Number(cases); i++) await sections[section](i)
  console.log(JSON.stringify(counts))
} catch (e) {
  console.error(`${section} with seed ${seed}: ${e.stack}`)
  process.exitCode = 1
}
child.stdin.end()
