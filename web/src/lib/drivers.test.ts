import { describe, expect, it } from 'vitest'
import { driverTitle, driversOf } from './drivers'

describe('drivers', () => {
  it('are those that work', () => {
    const said = { driver_details: [{ name: 'native', isolation: 'container', offered: true }, { name: 'gvisor', isolation: 'gvisor', offered: false, why: 'no runsc' }, { name: 'microvm', isolation: 'microvm', offered: true }] }
    expect(driversOf(said).map((d) => d.name)).toEqual(['native', 'microvm'])
  })
  it('of a server that says nothing are none', () => {
    expect(driversOf({})).toEqual([])
    expect(driversOf({ driver_details: 'all' })).toEqual([])
  })
  it('say how they isolate', () => {
    expect(driverTitle({ name: 'microvm', isolation: 'microvm' })).toBe('microvm: in a virtual machine')
    expect(driverTitle({ name: 'vault', isolation: 'tee' })).toBe('vault: tee')
    expect(driverTitle({ name: 'x', isolation: 'constructor' })).toBe('x: constructor')
  })
})
