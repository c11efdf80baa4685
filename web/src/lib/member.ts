// Members of something that a server said, whatever it is.

export function member(value: unknown, ...path: string[]): unknown {
  let found = value
  for (const key of path) found = typeof found === 'object' && found !== null && Object.hasOwn(found, key) ? (found as Record<string, unknown>)[key] : undefined
  return found
}

export function numberAt(value: unknown, ...path: string[]): number | undefined {
  const found = member(value, ...path)
  return typeof found === 'number' ? found : undefined
}

export function textAt(value: unknown, ...path: string[]): string {
  const found = member(value, ...path)
  return typeof found === 'string' ? found : typeof found === 'number' || typeof found === 'boolean' ? String(found) : ''
}

export function listAt(value: unknown, ...path: string[]): unknown[] {
  const found = member(value, ...path)
  return Array.isArray(found) ? found : []
}
