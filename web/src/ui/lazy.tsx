// A part of the app that is fetched when it is first shown. If it cannot be fetched, that is said, and it can be tried again;
// if it breaks while it is drawn, what is around it stays.
import type { ComponentType, FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Boundary } from './boundary'
import { Failure, Skeleton } from './state'

export type Load<P> = () => Promise<{ default: ComponentType<P> }>

export function lazy<P extends object>(load: Load<P>): FunctionComponent<P> {
  let found: ComponentType<P> | undefined
  return function Lazy(props: P) {
    const [, draw] = useState(0)
    const [error, setError] = useState<unknown>()
    const [tries, setTries] = useState(0)
    useEffect(() => {
      if (found) return
      setError(undefined)
      let there = true
      load().then(
        (module) => {
          found = module.default
          if (there) draw((n) => n + 1)
        },
        (e: unknown) => there && setError(e),
      )
      return () => void (there = false)
    }, [tries])
    const View = found
    if (View) return <Boundary><View {...props} /></Boundary>
    if (error !== undefined) return <div class="page"><Failure title="This part of the page could not be loaded." error={error} retry={() => setTries(tries + 1)} /></div>
    return <div class="page"><Skeleton lines={4} /></div>
  }
}
