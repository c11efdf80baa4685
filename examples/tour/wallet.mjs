// A wallet, as ethers has it, for one tour.
//   node wallet.mjs new            makes a key, and prints it with its address
//   node wallet.mjs sign < TEXT    signs (EIP-191) with the key in $WALLET_KEY
import { readFileSync } from 'node:fs'
import { Wallet } from 'ethers'

if (process.argv[2] === 'new') {
  const wallet = Wallet.createRandom()
  console.log(`${wallet.privateKey} ${wallet.address}`)
} else {
  console.log(new Wallet(process.env.WALLET_KEY).signMessageSync(readFileSync(0, 'utf8')))
}
