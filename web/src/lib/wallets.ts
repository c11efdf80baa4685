// Wallets of this browser, found as EIP-6963 has it: each announces itself with a name and a picture, and none is taken
// for another. What they say is not trusted: it is shown as text, and pictures only if they are in the announcement itself.
import { signal } from '@preact/signals'

export interface Provider {
  request(ask: { method: string; params?: readonly unknown[] }): Promise<unknown>
}

export interface Wallet {
  readonly id: string
  readonly name: string
  /** A data: URL, or ''. */
  readonly icon: string
  readonly provider: Provider
}

const NAME_MAX = 60
const ICON_MAX = 256 * 1024
const WALLETS_MAX = 20

export const wallets = signal<readonly Wallet[]>([])

/** What was announced, if it can be used. */
export function parseAnnouncement(detail: unknown): Wallet | undefined {
  const { info, provider } = (detail ?? {}) as { info?: Record<string, unknown>; provider?: Partial<Provider> }
  if (typeof provider?.request !== 'function' || typeof info?.['uuid'] !== 'string') return undefined
  const icon = typeof info['icon'] === 'string' && /^data:image\//.test(info['icon']) && info['icon'].length <= ICON_MAX ? info['icon'] : ''
  const name = typeof info['name'] === 'string' && info['name'].trim() ? info['name'].trim().slice(0, NAME_MAX) : 'A wallet without a name'
  return { id: info['uuid'], name, icon, provider: provider as Provider }
}

/** Looks for wallets for as long as it is not stopped. */
export function findWallets(): () => void {
  const onAnnounce = (event: Event): void => {
    const found = parseAnnouncement((event as CustomEvent<unknown>).detail)
    if (!found || wallets.value.some((w) => w.id === found.id) || wallets.value.length >= WALLETS_MAX) return
    wallets.value = [...wallets.value, found]
  }
  addEventListener('eip6963:announceProvider', onAnnounce)
  dispatchEvent(new Event('eip6963:requestProvider'))
  return () => removeEventListener('eip6963:announceProvider', onAnnounce)
}

/** Somebody pressed "no" in the wallet, or something else went wrong there; the text is for people. */
export class WalletError extends Error {
  constructor(
    message: string,
    readonly declined: boolean,
  ) {
    super(message)
  }
}

async function request(wallet: Wallet, method: string, params: readonly unknown[]): Promise<unknown> {
  try {
    return await wallet.provider.request({ method, params })
  } catch (e) {
    const { code, message } = (e ?? {}) as { code?: unknown; message?: unknown }
    if (code === 4001) throw new WalletError(`You said no in ${wallet.name}. Nothing was signed.`, true)
    if (code === -32002) throw new WalletError(`${wallet.name} still has a question open: answer it there first.`, false)
    throw new WalletError(`${wallet.name} says: ${typeof message === 'string' ? message.slice(0, 200) : 'something went wrong'}`, false)
  }
}

export async function accountOf(wallet: Wallet): Promise<string> {
  const found = await request(wallet, 'eth_requestAccounts', [])
  const first: unknown = Array.isArray(found) ? found[0] : undefined
  if (typeof first !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(first)) throw new WalletError(`${wallet.name} gave no account.`, false)
  return first
}

/** EIP-191, of the text's UTF-8. */
export async function signText(wallet: Wallet, address: string, text: string): Promise<string> {
  const hex = [...new TextEncoder().encode(text)].map((b) => b.toString(16).padStart(2, '0')).join('')
  const signature = await request(wallet, 'personal_sign', [`0x${hex}`, address])
  if (typeof signature !== 'string' || !/^0x[0-9a-fA-F]{130}$/.test(signature)) throw new WalletError(`${wallet.name} gave no signature.`, false)
  return signature
}
