// Which page an address names. Pages come when they are needed; each is `export default` of its file.
import type { ComponentType } from 'preact'
import { go, type Route } from '../lib/route'
import { Empty } from '../ui/state'
import { lazy } from '../ui/lazy'
import { Button } from '../ui/button'
import { Sandboxes } from './sandboxes'

interface Page {
  readonly match: (parts: readonly string[]) => boolean
  readonly view: ComponentType<{ route: Route }>
}

const PAGES: readonly Page[] = [
  { match: ([first, ...rest]) => (first === undefined || first === 'sandboxes') && !rest.length, view: Sandboxes },
  { match: ([first, ...rest]) => first === 'create' && !rest.length, view: lazy(() => import('./create')) },
  { match: ([first, id]) => first === 'sandboxes' && id !== undefined, view: lazy(() => import('./sandbox')) },
  { match: ([first]) => first === 'operator', view: lazy(() => import('./operator')) },
]

export function PageOf({ route }: { route: Route }) {
  const parts = route.parts[0] === 'sign-in' ? [] : route.parts
  const View = PAGES.find((page) => page.match(parts))?.view
  if (View) return <View route={route} />
  return <div class="page"><Empty icon="search" title="There is nothing at this address." action={<Button onClick={() => go('/sandboxes')}>To your sandboxes</Button>} /></div>
}
