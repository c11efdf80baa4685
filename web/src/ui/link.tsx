// A link to another place of this app, without loading the page anew.
import type { JSX } from 'preact'
import { go } from '../lib/route'

export function Link({ href, onClick, ...rest }: JSX.AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  return (
    <a
      {...rest}
      href={href}
      onClick={(event) => {
        onClick?.(event)
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
        event.preventDefault()
        go(href)
      }}
    />
  )
}
