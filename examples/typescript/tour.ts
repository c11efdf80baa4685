// What the TypeScript client can do, in a minute. It signs in with a wallet, which ethers holds.
//
//   stockade up --detach --config FILE     # FILE: listen = 127.0.0.1:7070 and wallets = 0x… (or *)
//   (cd clients/typescript && npm install && npm run build)
//   cd examples/typescript && npm install && npm run tour http://127.0.0.1:7070
//
// WALLET_KEY in the environment is the wallet's key; without it a new wallet is made.
import { Wallet } from 'ethers'
import { Client, StockadeError } from 'stockade-client'

const url = process.argv[2] ?? 'http://127.0.0.1:7070'
const wallet = process.env['WALLET_KEY'] ? new Wallet(process.env['WALLET_KEY']) : Wallet.createRandom()

const client = new Client(url)
await client.signIn(wallet.address, (text) => wallet.signMessage(text))
console.log('signed in as', (await client.whoami()).owner)
const before = (await client.checkpoint()).seq

const box = await client.sandboxes.create({ profile: 'medium' })
try {
  console.log('hello from', (await box.exec('uname -n')).check().text.trim())

  for await (const event of box.execStream('for i in 1 2 3; do echo $i; done'))
    if (event.kind === 'exit') console.log('counted to 3, exit code', event.info['exit_code'])

  // a terminal: leave it, come back, and it is where it was
  const shell = await box.terminals.create({ command: 'PS1= exec sh -i' })
  let terminal = await shell.attach()
  await terminal.send("answer=42; echo re''ady\n")
  await terminal.readUntil('ready')
  terminal.close()
  terminal = await shell.attach()
  await terminal.send('echo the answer is still $answer\n')
  console.log(/.*still 42/.exec(await terminal.readUntil('still 42'))?.[0])
  await shell.close()

  await box.files.makeFolder('/home/agent/site')
  await box.files.write('/home/agent/site/index.html', '<h1>from a sandbox</h1>')
  const changes = await box.files.watch('/home/agent/site')
  const server = await box.start('exec python3 -u -m http.server 8000 --directory site', { cwd: '/home/agent' })
  for await (const output of server.follow()) if (new TextDecoder().decode(output.data).includes('Serving')) break
  const answer = await box.portRequest('GET', 8000, '/index.html')
  console.log('the port answers', answer.status, await answer.text())
  await server.cancel()

  const snapshot = await box.snapshot()
  await box.files.write('/home/agent/site/index.html', 'spoiled')
  for await (const { change } of changes) {
    console.log('a change:', change)
    break
  }
  await box.rollback(snapshot.id)
  const kept = await box.files.readText('/home/agent/site/index.html')
  console.log('after the rollback:', kept.includes('from a sandbox') ? 'kept' : kept)
  await client.snapshots.delete(snapshot.id)

  // every refusal has a code for programs and a hint for people
  await box.files.read('/home/agent/none').catch((error: unknown) => {
    if (!(error instanceof StockadeError)) throw error
    console.log(error.code, '|', error.message, '|', error.hint)
  })
} finally {
  await box.delete({ force: true })
}

const happened: string[] = []
for await (const event of client.events({ after: before, kinds: ['sandbox'], follow: false })) happened.push(event.kind)
console.log('what happened:', happened.join(', '))
await client.signOut()
