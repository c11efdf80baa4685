// A line as high as a word: how something went lately. It says its last value to those who do not see it.
import '../style/sparkline.css'

/** Points of a line in a box; undefined where nothing is known. */
export function pathOf(values: readonly (number | null)[], width: number, height: number, max: number): string {
  if (values.length < 2 || max <= 0) return ''
  let path = ''
  let pen = 'M'
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) {
      pen = 'M'
      return
    }
    const x = (i / (values.length - 1)) * width
    const y = height - 1 - (Math.min(Math.max(value, 0), max) / max) * (height - 2)
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`
    pen = 'L'
  })
  return path
}

export function Sparkline({ values, max, label, width = 80, height = 20 }: { values: readonly (number | null)[]; max?: number; label: string; width?: number; height?: number }) {
  const top = max ?? Math.max(1e-9, ...values.map((v) => v ?? 0))
  const path = pathOf(values, width, height, top)
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <title>{label}</title>
      {path ? <path d={path} /> : <path class="sparkline-none" d={`M0 ${height - 1}H${width}`} />}
    </svg>
  )
}
