import { expect, it } from 'vitest'
import { parseSize, parseTime } from './quantity'

it('sizes and times are read as policies write them', () => {
  expect([parseSize('2GiB'), parseSize('200k'), parseSize('0.5'), parseSize('64MiB')]).toEqual([2 * 1024 ** 3, 200_000, 0.5, 64 * 1024 ** 2])
  expect([parseTime('2h'), parseTime('90m'), parseTime('250ms'), parseTime('1d')]).toEqual([7_200_000, 5_400_000, 250, 86_400_000])
  for (const odd of [undefined, '', 'x', '1 h', '-1h', '1x', '1constructor']) expect([parseTime(odd), odd === '' ? undefined : parseSize(odd)]).toEqual([undefined, undefined])
})
