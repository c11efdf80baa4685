// Sizes and times as policies write them: 2GiB, 90m, 200k.
const SIZES: Record<string, number> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, k: 1e3, M: 1e6, G: 1e9, '': 1 }
const TIMES: Record<string, number> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 }

function parse(text: string | undefined, units: Record<string, number>): number | undefined {
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text ?? '') ?? []
  const scale = Object.hasOwn(units, unit) ? units[unit] : undefined
  return digits === undefined || scale === undefined ? undefined : Number(digits) * scale
}

export function parseSize(text: string | undefined): number | undefined {
  return parse(text, SIZES)
}

/** In milliseconds. */
export function parseTime(text: string | undefined): number | undefined {
  return parse(text, TIMES)
}
