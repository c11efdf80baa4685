// How much of something is used.
export function Meter({ title, used, of, format }: { title: string; used: number | null | undefined; of: number | undefined; format: (n: number) => string }) {
  return (
    <div class="budget">
      <span>{title}</span>
      {of ? <meter min={0} max={1} high={0.8} optimum={0} value={Math.min(1, (used ?? 0) / of)} aria-label={title} /> : <span />}
      <span class="quiet">{used === null || used === undefined ? 'not measured' : `${format(used)}${of ? ` of ${format(of)}` : ''}`}</span>
    </div>
  )
}
