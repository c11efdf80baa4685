// Drivers: ways to keep a sandbox apart from the host. Which of them work here is the server's to say.
import { signal } from '@preact/signals'
import { listAt, member, textAt } from './member'
import { client } from './session'

export interface Driver {
  readonly name: string
  readonly isolation: string
}

const ISOLATION: Readonly<Record<string, string>> = { container: "on the host's kernel", gvisor: 'on a kernel of its own, in user space', microvm: 'in a virtual machine' }

/** Those that work here; empty until they are known. */
export const drivers = signal<readonly Driver[]>([])

export function driversOf(capabilities: unknown): readonly Driver[] {
  return listAt(capabilities, 'driver_details')
    .filter((d) => member(d, 'offered') === true)
    .map((d) => ({ name: textAt(d, 'name'), isolation: textAt(d, 'isolation') }))
}

export function driverTitle({ name, isolation }: Driver): string {
  return `${name}: ${Object.hasOwn(ISOLATION, isolation) ? ISOLATION[isolation] : isolation}`
}

let asked = 0
const OLD_MS = 60_000

/** Nobody waits for it: what is not known is not offered. */
export function lookAtDrivers(): void {
  if (Date.now() - asked < OLD_MS) return
  asked = Date.now()
  client().capabilities().then((said) => (drivers.value = driversOf(said)), () => (asked = 0))
}
