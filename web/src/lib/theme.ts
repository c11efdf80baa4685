// Light, dark, or as the system has it; remembered.
import { effect, signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
const KEY = 'stockade.theme'
const THEMES: readonly Theme[] = ['system', 'light', 'dark']

export function parseTheme(text: string | null): Theme {
  return THEMES.find((t) => t === text) ?? 'system'
}

export const theme = signal<Theme>('system')

/** Whether the page is dark now; terminals and plots look at it. */
export const dark = signal(false)

export function applyTheme(): void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  theme.value = parseTheme(localStorage.getItem(KEY))
  const apply = (): void => {
    const chosen = theme.value
    if (chosen === 'system') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = chosen
    dark.value = chosen === 'dark' || (chosen === 'system' && system.matches)
  }
  effect(() => {
    apply()
    localStorage.setItem(KEY, theme.value)
  })
  system.addEventListener('change', apply)
}

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system'
}
