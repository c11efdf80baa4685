import { describe, expect, it } from 'vitest'
import { checkChain, signedText, type Checkpoint } from './chain'

// a checkpoint of a real ledger
const LINE = {
  seq: 14, time: '2026-11-16T07:23:32.102897Z', sandbox: '', actor: 'ledger', kind: 'ledger.checkpoint',
  data: {
    from: 1, to: 13, root: 'a6e699abd9a18ccfecb100dc1851b6364abf65ab50a488717ec2b361ebd70b98',
    ed25519: {
      key: '86498f075958be2462d366ab1c8b717fa94c302535be200f2d677d5b8a6911db',
      signature: '5b7fc32d67138b8c9b11c93b9e754b3ef0bbeafc414cfa7ce4c012902f100229e13f19ba78b4648a3994f0621d8efb371bd24af212bedf854018708ef03dd004',
    },
  },
  prev: '9da201f7ea4963344f1b7b6da354ef68e61b1e0866b9369a26c20ed3410c37fa',
  hash: 'ecdddaf2f40aa9160ce0d7cd20391b5b342be74618f86ee0808fe6e0686a5fb1',
}
const found = (line: object = LINE): Checkpoint => ({ seq: 14, hash: LINE.hash, checkpoint: JSON.stringify(line) })
const SEEN = { key: LINE.data.ed25519.key, seq: 10, hash: 'x' }

describe('the chain', () => {
  it('is good when a real checkpoint is', async () => {
    expect(signedText(LINE)).toContain('\nfrom 1\nto 13\n')
    const { chain, seen } = await checkChain(found(), SEEN)
    expect(chain).toMatchObject({ state: 'signed', seq: 14, checked: true })
    expect(seen).toEqual({ key: SEEN.key, seq: 14, hash: LINE.hash })
  })

  it('is broken when anything that was signed is another', async () => {
    for (const wrong of [{ ...LINE, time: '2026-11-16T07:23:32.102898Z' }, { ...LINE, prev: LINE.hash }, { ...LINE, data: { ...LINE.data, to: 12 } }, { ...LINE, data: { ...LINE.data, ed25519: { ...LINE.data.ed25519, signature: 'zz' } } }])
      expect((await checkChain(found(wrong), undefined)).chain).toMatchObject({ state: 'broken', why: 'the signature of its checkpoint is wrong' })
    for (const wrong of [{ ...LINE, seq: 15 }, { ...LINE, hash: 'x' }, { ...LINE, data: {} }, [], null]) expect((await checkChain(found(wrong as object), undefined)).chain.state).toBe('broken')
    expect((await checkChain({ seq: 1, hash: 'x' }, undefined)).chain.state).toBe('broken')
  })

  it('is broken when the key is another one, or the end is missing', async () => {
    expect((await checkChain(found(), { ...SEEN, key: 'another' })).chain).toMatchObject({ state: 'broken' })
    expect((await checkChain(found(), { ...SEEN, seq: 15 })).chain).toMatchObject({ state: 'broken' })
    expect((await checkChain(found(), { ...SEEN, seq: 14 })).chain).toMatchObject({ state: 'broken' })
    expect((await checkChain(found(), { ...SEEN, seq: 14, hash: LINE.hash })).chain).toMatchObject({ state: 'signed' })
  })
})
