// Where it begins: styles, the saved session, and the app inside a net that catches what nobody else did.
import './style/tokens.css'
import './style/base.css'
import './style/controls.css'
import './style/lists.css'
import './style/messages.css'
import './style/shell.css'
import './style/sign-in.css'
import './style/list.css'
import { render } from 'preact'
import { App } from './app'
import { takeLink } from './lib/link'
import { beginSession } from './lib/renewal'
import { applyTheme } from './lib/theme'
import { toast } from './ui/toast'

takeLink()
addEventListener('hashchange', takeLink) // a link that is opened in a tab that is here already
applyTheme()
beginSession()
addEventListener('unhandledrejection', (event) => toast.error(event.reason))
const place = document.getElementById('app')
if (place) render(<App />, place)
