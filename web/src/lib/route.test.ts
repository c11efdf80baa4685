import { describe, expect, it } from 'vitest'
import { parseRoute, sandboxPath } from './route'

describe('route', () => {
  it('takes a path apart', () => {
    const found = parseRoute('/sandboxes/abc/files?path=%2Fetc')
    expect(found.parts).toEqual(['sandboxes', 'abc', 'files'])
    expect(found.query.get('path')).toBe('/etc')
    expect(parseRoute('/').parts).toEqual([])
  })

  it('keeps one word one word', () => {
    expect(parseRoute(sandboxPath('a/b?c#d', 'files')).parts).toEqual(['sandboxes', 'a/b?c#d', 'files'])
  })

  it('takes a path that is no good UTF-8 as it is', () => {
    expect(parseRoute('/sandboxes/%ff').parts).toEqual(['sandboxes', '%ff'])
  })
})
