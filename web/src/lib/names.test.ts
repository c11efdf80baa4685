import { expect, it } from 'vitest'
import { checkName } from './names'

it('says what is wrong with a name', () => {
  for (const fine of ['', 'a', 'My_box-1.2', 'x'.repeat(64)]) expect(checkName(fine)).toBeUndefined()
  for (const wrong of [' ', 'a b', '<b>', 'ä', 'x'.repeat(65)]) expect(checkName(wrong)).toBeTruthy()
})
