// What a wallet may sign: a text (EIP-4361) for this server, of this wallet, and nothing else. A server that lies could
// otherwise sign in elsewhere in our name.
import { StockadeError } from './errors.js'

const WANTS = ' wants you to sign in with your Ethereum account:'
const REST =
  /^\n(?:[ -~]+\n)?\nURI: [!-~]+\nVersion: 1\nChain ID: [0-9]+\nNonce: ([0-9A-Za-z]+)\nIssued At: [!-~]+(?:\nExpiration Time: [!-~]+)?(?:\nNot Before: [!-~]+)?(?:\nRequest ID: [!-~]*)?$/
const PLAIN = /^Sign this message to authenticate with Tangle Sandbox\.\n\nNonce: ([0-9A-Za-z]+)\nExpires: [0-9]+$/
const TEXT_MAX = 4096

function refusal(message: string, hint = ''): StockadeError {
  return new StockadeError(0, 'BAD_CHALLENGE', `nothing was signed: ${message}`, hint)
}

/** The text of a challenge, if it may be signed. origin: as URL has it, without the usual port. */
export function checkText(challenge: { message?: unknown; nonce?: unknown }, origin: string, wallet: string, plainText: boolean): string {
  const { message: text, nonce } = challenge
  if (typeof text !== 'string' || typeof nonce !== 'string' || text.length > TEXT_MAX) throw refusal('the server gives no text to be signed')
  const plain = PLAIN.exec(text)
  if (plain && plainText && plain[1] === nonce) return text
  if (plain)
    throw refusal('the server wants the older plain text signed, which names no server: whoever gets it could sign in elsewhere in your name', 'plainText: true signs it all the same')
  const { host, port, protocol } = new URL(origin)
  const usual = port ? '' : protocol === 'https:' ? ':443' : ':80' // it may be named, or not
  const same = (found: string, wanted: string): boolean => [wanted, wanted + usual].includes(found.toLowerCase())
  const [first = '', second = '', ...lines] = text.split('\n')
  const domain = first.slice(0, -WANTS.length)
  if (!first.endsWith(WANTS)) throw refusal('the server wants a signature for something else than a sign-in')
  if (!same(domain, host)) throw refusal(`the text is for ${JSON.stringify(domain.slice(0, 100))}, and not for '${host}'`, 'if that is the right server, use its name in the URL')
  if (second.toLowerCase() !== wallet.toLowerCase()) throw refusal(`the text is for another wallet, ${JSON.stringify(second.slice(0, 42))}`)
  const uris = lines.filter((line) => line.startsWith('URI: '))
  if (uris.length !== 1 || !same(uris[0]!.slice(5), origin)) throw refusal(`the text has not '${origin}' as its one URI`)
  if (lines.some((line) => line.startsWith('Resources:'))) throw refusal('the text gives away resources')
  if (REST.exec(lines.join('\n'))?.[1] !== nonce) throw refusal('the text is not one of EIP-4361, or of another challenge')
  return text
}
