// The tabs of a sandbox, in order. Each is a file that is fetched when its tab is first opened; its default export gets
// the sandbox and the API.
import type { FunctionComponent } from 'preact'
import type { Client, SandboxInfo } from 'stockade-client'
import type { IconName } from '../../ui/icon'
import { lazy } from '../../ui/lazy'

export interface TabProps {
  readonly sandbox: SandboxInfo
  readonly client: Client
}

export interface SandboxTab {
  readonly id: string
  readonly title: string
  readonly icon: IconName
  /** lazy(() => import('./files')) */
  readonly view: FunctionComponent<TabProps>
}

export const TABS: readonly SandboxTab[] = [
  { id: 'terminals', title: 'Terminals', icon: 'terminal', view: lazy(() => import('./terminals')) },
  { id: 'files', title: 'Files', icon: 'folder', view: lazy(() => import('./files')) },
  { id: 'runs', title: 'Runs', icon: 'list', view: lazy(() => import('./runs')) },
  { id: 'activity', title: 'Activity', icon: 'activity', view: lazy(() => import('./activity')) },
  { id: 'ports', title: 'Ports', icon: 'globe', view: lazy(() => import('./ports')) },
  { id: 'snapshots', title: 'Snapshots', icon: 'camera', view: lazy(() => import('./snapshots')) },
  { id: 'secrets', title: 'Secrets', icon: 'key', view: lazy(() => import('./secrets')) },
  { id: 'policy', title: 'Policy', icon: 'shield', view: lazy(() => import('./policy')) },
  { id: 'usage', title: 'Usage', icon: 'chart', view: lazy(() => import('./usage')) },
]
