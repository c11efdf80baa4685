// Links that a program prints (OSC 8), with an end to how many there are. For each, xterm keeps a mark on every line that it
// stands on and looks at all marks for each letter and each line that scrolls: ten thousand of them stop the page. So only
// so many links live at a time, and each is known by the line that it begins on. It is forgotten when that line is.
import type { Terminal } from '@xterm/xterm'

export const LINKS_MAX = 500
const LINK_MAX = 2048

/** The part of xterm that keeps them. It is not in its types; a test looks whether it is still there. */
export interface LinkKeeper {
  addLineToLink(id: number, line: number): void
  readonly _dataByLinkId: ReadonlyMap<number, unknown>
}

export function keeperOf(term: Terminal): LinkKeeper | undefined {
  const { _core } = term as unknown as { _core?: { _oscLinkService?: Partial<LinkKeeper> } }
  const found = _core?._oscLinkService
  return typeof found?.addLineToLink === 'function' && found._dataByLinkId instanceof Map ? (found as LinkKeeper) : undefined
}

/** Says of each OSC 8 whether it is to be passed over. Without a keeper that can be bounded there are no links at all. */
export function refuseLinks(keeper: LinkKeeper | undefined, most = LINKS_MAX): (data: string) => boolean {
  if (!keeper) return () => true
  keeper.addLineToLink = () => undefined
  return (data) => {
    const ends = data.indexOf(';') === data.length - 1 // "8;;": here a link ends, none begins
    return !ends && (data.length > LINK_MAX || keeper._dataByLinkId.size >= most)
  }
}
