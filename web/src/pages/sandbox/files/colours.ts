// Colours of words in the editor, for both themes. All of them can be read on its ground; a test looks.
export type Colour = 'keyword' | 'string' | 'number' | 'comment' | 'definition' | 'type' | 'property' | 'invalid'

export const LIGHT: Readonly<Record<Colour, string>> = {
  keyword: '#7a2aa8', string: '#1d652b', number: '#8a4300', comment: '#566074', definition: '#2148b0', type: '#0d6161', property: '#745000', invalid: '#b3261e',
}

export const DARK: Readonly<Record<Colour, string>> = {
  keyword: '#c792ea', string: '#9adb94', number: '#f2b36b', comment: '#a3adbf', definition: '#94c3f7', type: '#86dede', property: '#e7c98a', invalid: '#ff938d',
}
