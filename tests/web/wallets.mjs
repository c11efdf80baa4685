// Wallets for flows: real keys, and a provider in the page that announces itself as EIP-6963 has it and has each text
// signed here, outside the page, with such a key.
import { randomUUID } from 'node:crypto'

import { require } from './harness.mjs'

const { Wallet } = require('ethers')

export function newWallet() {
  return Wallet.createRandom()
}

const ICON = 'data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"%3E%3Crect width="8" height="8" rx="2" fill="%23e2761b"/%3E%3C/svg%3E'

/** Puts a wallet into a browser. asked: what the page wanted of it; `refuse` makes it say no. */
export async function injectWallet(context, wallet, info = {}) {
  const state = { asked: [], refuse: false }
  const name = `walletOf${wallet.address}`
  await context.exposeFunction(name, async (method, params) => {
    state.asked.push({ method, params })
    if (state.refuse) return { error: { code: 4001, message: 'User rejected the request.' } }
    if (method === 'eth_requestAccounts') return { result: [wallet.address.toLowerCase()] }
    if (method === 'personal_sign') return { result: await wallet.signMessage(Buffer.from(params[0].slice(2), 'hex').toString('utf8')) }
    return { error: { code: 4200, message: 'not supported' } }
  })
  await context.addInitScript(
    ({ name, info }) => {
      const provider = {
        async request({ method, params }) {
          const { result, error } = await window[name](method, params ?? [])
          if (error) throw Object.assign(new Error(error.message), error)
          return result
        },
      }
      const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }))
      addEventListener('eip6963:requestProvider', announce)
      announce()
    },
    { name, info: { uuid: randomUUID(), name: 'Test Wallet', icon: ICON, rdns: 'org.example.wallet', ...info } },
  )
  return state
}
