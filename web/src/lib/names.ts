// Names that people give. The server has the last word; this says it sooner.

/** What is wrong with a name; undefined if nothing is. An empty one is fine where none is needed. */
export function checkName(name: string): string | undefined {
  if (name === '') return undefined
  if (name.length > 64) return 'At most 64 characters.'
  return /^[A-Za-z0-9._-]+$/.test(name) ? undefined : "Only letters, digits, '.', '_' and '-'."
}
