import { describe, expect, it } from 'vitest'
import { codeOf, codeOfPasted } from './link'

describe('one-time links', () => {
  it('finds the code behind the #', () => {
    expect(codeOf('#link=v4.local.AbC-_~1')).toBe('v4.local.AbC-_~1')
    for (const other of ['', '#', '#link=', '#link=a b', '#link=<b>', '#other=1']) expect(codeOf(other)).toBeUndefined()
  })

  it('takes a link or its code', () => {
    expect(codeOfPasted('  http://127.0.0.1:7077/#link=abc \n')).toBe('abc')
    expect(codeOfPasted('abc')).toBe('abc')
    expect(codeOfPasted('http://127.0.0.1:7077/')).toBeUndefined()
    expect(codeOfPasted('two words')).toBeUndefined()
  })
})
