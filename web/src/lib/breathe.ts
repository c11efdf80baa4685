// Long loops give the page a turn now and then, so that nothing freezes while they work.

const TURN_MS = 8
const EVERY = 64 // steps between looks at the clock

/** breathe() is called at each step; what it returns, if anything, is waited for. */
export function breather(): () => Promise<void> | undefined {
  let until = performance.now() + TURN_MS
  let left = EVERY
  return () => {
    if (--left > 0) return undefined
    left = EVERY
    if (performance.now() < until) return undefined
    return new Promise((resolve) =>
      setTimeout(() => {
        until = performance.now() + TURN_MS
        resolve()
      }),
    )
  }
}
