// A tab of its own for something that needs a link which the server gives. It is opened at once, while the browser still
// knows that somebody clicked; the link comes a moment later.
export async function openTab(link: () => Promise<string>): Promise<void> {
  const tab = window.open('about:blank', '_blank')
  if (!tab) throw new Error('the browser did not open a tab: allow this page to open tabs, and try again')
  tab.opener = null
  try {
    tab.location.replace(new URL(await link(), location.origin))
  } catch (e) {
    tab.close()
    throw e
  }
}
