import { describe, expect, it } from 'vitest'
import { WalletError, accountOf, parseAnnouncement, signText, type Wallet } from './wallets'

const provider = { request: async () => undefined }
const info = { uuid: 'u', name: 'W', icon: 'data:image/png;base64,AA==', rdns: 'org.example' }

function walletThat(request: (ask: { method: string; params?: readonly unknown[] }) => unknown): Wallet {
  return { id: 'u', name: 'W', icon: '', provider: { request: async (ask) => request(ask) } }
}

describe('announcements', () => {
  it('takes a good one', () => {
    expect(parseAnnouncement({ info, provider })).toMatchObject({ id: 'u', name: 'W', icon: info.icon })
  })

  it('takes no picture from elsewhere, and none that is huge', () => {
    for (const icon of ['https://elsewhere.example/x.png', 'javascript:alert(1)', 'data:text/html,x', `data:image/png,${'a'.repeat(300_000)}`, 7])
      expect(parseAnnouncement({ info: { ...info, icon }, provider })?.icon).toBe('')
  })

  it('refuses what is no wallet', () => {
    for (const detail of [null, undefined, 7, {}, { info }, { info, provider: {} }, { info: { name: 'x' }, provider }]) expect(parseAnnouncement(detail)).toBeUndefined()
  })

  it('gives a name to what has none, and cuts a long one', () => {
    expect(parseAnnouncement({ info: { ...info, name: ' ' }, provider })?.name).toBe('A wallet without a name')
    expect(parseAnnouncement({ info: { ...info, name: 'x'.repeat(500) }, provider })?.name).toHaveLength(60)
  })
})

describe('asking a wallet', () => {
  it('sends the text as UTF-8 in hexadecimal', async () => {
    let asked: unknown
    const signature = `0x${'ab'.repeat(65)}`
    const wallet = walletThat((ask) => ((asked = ask), signature))
    expect(await signText(wallet, '0xA', 'é\n')).toBe(signature)
    expect(asked).toEqual({ method: 'personal_sign', params: ['0xc3a90a', '0xA'] })
  })

  it('tells a "no" from other failures', async () => {
    const fails = (error: unknown): Wallet => walletThat(() => { throw error })
    await expect(signText(fails({ code: 4001 }), '0xA', 'x')).rejects.toMatchObject({ declined: true })
    await expect(signText(fails({ code: -32002 }), '0xA', 'x')).rejects.toMatchObject({ declined: false })
    await expect(signText(fails({ message: 'boom' }), '0xA', 'x')).rejects.toThrow('boom')
    await expect(signText(fails(undefined), '0xA', 'x')).rejects.toBeInstanceOf(WalletError)
  })

  it('refuses answers that are none', async () => {
    for (const answer of [undefined, [], ['0x12'], 'x', [7]]) await expect(accountOf(walletThat(() => answer))).rejects.toBeInstanceOf(WalletError)
    for (const answer of [undefined, '0x12', 7]) await expect(signText(walletThat(() => answer), '0xA', 'x')).rejects.toBeInstanceOf(WalletError)
  })
})
