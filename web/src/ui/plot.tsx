// Lines over time, drawn by uPlot on a canvas. This file belongs into a part that is loaded when it is needed.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { dark } from '../lib/theme'
import type { Line } from '../lib/usage'

export interface Curve {
  label: string
  line: Line
  /** A custom property of the page's style. */
  color: string
}

export interface PlotProps {
  title: string
  curves: readonly Curve[]
  /** How a value is said. */
  format: (value: number) => string
  /** What it can be at most, as a dashed line. */
  limit?: number | undefined
  /** What the scale reaches at least to. */
  least: number
  /** Steps of powers of two, as sizes have them. */
  binary?: boolean
  height?: number
}

const POWERS = Array.from({ length: 45 }, (_, i) => 2 ** i)
const minutes = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hour12: false })
const seconds = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })

function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || 'gray'
}

/** All curves on one axis of time. */
export function align(curves: readonly Curve[], limit: number | undefined): uPlot.AlignedData {
  const at = [...new Set(curves.flatMap((c) => c.line.at))].sort((a, b) => a - b)
  const of = curves.map((c) => {
    const values = new Map(c.line.at.map((t, i) => [t, c.line.values[i] ?? null]))
    return at.map((t) => values.get(t) ?? null)
  })
  const top = limit === undefined ? [] : [at.map(() => limit)]
  return [at.map((t) => t / 1000), ...of, ...top]
}

/** Where nobody points at, the newest values are said. */
function sayNewest(plot: uPlot): void {
  const last = plot.data[0].length - 1
  if ((plot.cursor.left ?? -1) < 0 && last >= 0) plot.setLegend({ idx: last })
}

function options(props: PlotProps, width: number): uPlot.Options {
  const ink = colorOf('--text-quiet')
  const line = colorOf('--line')
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: '12px system-ui' }
  const series: uPlot.Series[] = props.curves.map((c) => ({ label: c.label, stroke: colorOf(c.color), width: 1.5, spanGaps: false, points: { show: false }, value: (_, v) => (v === null ? '–' : props.format(v)) }))
  if (props.limit !== undefined) series.push({ label: 'limit', stroke: ink, width: 1, dash: [4, 4], points: { show: false }, value: (_, v) => (v === null ? '–' : props.format(v)) })
  return {
    width,
    height: props.height ?? 180,
    cursor: { drag: { x: false, y: false } },
    legend: { live: true },
    hooks: { draw: [sayNewest], setCursor: [sayNewest] },
    scales: { y: { range: (_, _low, high) => [0, Math.max(high ?? 0, props.least) * 1.05] } },
    axes: [
      { ...axis, space: 80, values: (_, ticks) => ticks.map((t) => (t % 60 ? seconds : minutes).format(t * 1000)) },
      { ...axis, size: 80, ...(props.binary ? { incrs: POWERS } : {}), values: (_, ticks) => ticks.map((t) => props.format(t)) },
    ],
    series: [{ label: 'at', value: (_, t) => (t === null ? '–' : seconds.format(t * 1000)) }, ...series],
  }
}

export function Plot(props: PlotProps) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>()
  const latest = useRef(props)
  latest.current = props
  const shape = `${props.curves.map((c) => c.label).join()}|${props.limit ?? ''}|${dark.value}`
  useEffect(() => {
    const el = place.current
    if (!el) return
    const p = latest.current
    const made = (plot.current = new uPlot(options(p, el.clientWidth || 300), align(p.curves, p.limit), el))
    const watch = new ResizeObserver(() => made.setSize({ width: el.clientWidth || 300, height: p.height ?? 180 }))
    watch.observe(el)
    return () => (watch.disconnect(), made.destroy(), (plot.current = undefined))
  }, [shape])
  useEffect(() => plot.current?.setData(align(props.curves, props.limit)), [props.curves])
  const said = props.curves.map((c) => {
    const value = c.line.values.findLast((v) => v !== null)
    return `${c.label} ${value === undefined || value === null ? 'not known' : props.format(value)}`
  })
  return (
    <figure class="plot">
      <figcaption>{props.title}</figcaption>
      <div ref={place} role="img" aria-label={`${props.title}: ${said.join(', ')}`} />
    </figure>
  )
}
