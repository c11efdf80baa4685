// The top of every page: where we are, who we are, how it looks.
import { useState } from 'preact/hooks'
import { lostByDeparture } from '../lib/departure'
import { route } from '../lib/route'
import { finishDeleting } from '../lib/sandboxes'
import { session, signOut } from '../lib/session'
import { nextTheme, theme } from '../lib/theme'
import { shortAddress } from '../lib/words'
import { IconButton } from '../ui/button'
import { ask } from '../ui/dialog'
import { Link } from '../ui/link'
import { Menu } from '../ui/menu'
import { showHelp } from '../ui/shortcuts'

const THEMES = { system: ['screen', 'as the system has it'], light: ['sun', 'light'], dark: ['moon', 'dark'] } as const

export function Logo() {
  return (
    <svg class="logo" width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M6.500 25V11.500L9 8l2.500 3.500V25zM13.500 25V11.500L16 8l2.500 3.500V25zM20.500 25V11.500L23 8l2.500 3.500V25zM5 14.500h22V17H5zM5 20h22v2.500H5z" />
    </svg>
  )
}

export function ThemeButton() {
  const [icon, word] = THEMES[theme.value]
  return <IconButton icon={icon} label={`Colours: ${word}`} onClick={nextTheme} />
}

export function Header() {
  const [first = 'sandboxes'] = route.value.parts
  const who = session.value
  const [leaving, setLeaving] = useState(false)
  const leave = async (): Promise<void> => {
    const lost = lostByDeparture()
    if (lost.length && !(await ask({ title: 'Sign out?', text: `This would be lost: ${lost.join(', ')}.`, yes: 'Sign out', danger: true }))) return
    setLeaving(true)
    await finishDeleting()
    await signOut()
  }
  const place = (path: string, title: string) => (
    <Link href={`/${path}`} class="nav-link" aria-current={first === path ? 'page' : undefined}>{title}</Link>
  )
  return (
    <header class="header">
      <Link href="/sandboxes" class="brand" aria-label="Stockade: to the list of sandboxes"><Logo /><span>Stockade</span></Link>
      <nav aria-label="Main">
        {place('sandboxes', 'Sandboxes')}
        {who?.operator && place('operator', 'Operator')}
      </nav>
      <div class="header-end">
        <IconButton icon="help" label="Keys" onClick={showHelp} />
        <ThemeButton />
        <Menu
          label={`Signed in as ${who?.address ? shortAddress(who.address) : (who?.owner ?? '')}`}
          icon="key"
          items={[{ title: 'Sign out, in all tabs', icon: 'leave', ...(leaving ? { why: 'it is being done' } : {}), act: leave }]}
        />
      </div>
    </header>
  )
}
