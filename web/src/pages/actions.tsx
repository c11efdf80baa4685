// What can be done with a sandbox: the one thing most likely wanted as a button, the rest in a menu.
import { useEffect } from 'preact/hooks'
import type { SandboxInfo } from 'stockade-client'
import { driverTitle, drivers, lookAtDrivers } from '../lib/drivers'
import { go, sandboxPath } from '../lib/route'
import { deleteSandbox, forkSandbox, keepSandbox, leavingSoon, pauseSandbox, resumeSandbox, snapshotSandbox, stopSandbox, unpauseSandbox } from '../lib/sandboxes'
import { nameOf } from '../lib/words'
import { Button, Menu, Select, ask, askText, choose, toast, type MenuItem } from '../ui'
import { checkName } from '../lib/names'

/** Other ways to keep it apart than the one it has. */
function others(info: SandboxInfo): { value: string; title: string }[] {
  return drivers.value.filter((d) => d.name !== info.driver).map((d) => ({ value: d.name, title: driverTitle(d) }))
}

async function resumeOtherwise(info: SandboxInfo): Promise<void> {
  const driver = await choose({ title: `Resume ${nameOf(info)} with another driver`, text: `It was kept apart by ${info.driver}. Its files stay as they are.`, choices: others(info) })
  if (driver !== null) await resumeSandbox(info, driver)
}

async function fork(info: SandboxInfo): Promise<void> {
  let driver = ''
  const more = others(info).length > 0 && <Select label="How it is kept apart" value="" onChange={(v) => (driver = v)} options={[{ value: '', title: `as this one: ${info.driver}` }, ...others(info)]} />
  const name = await askText({ more, title: `Fork ${nameOf(info)}`, text: 'A second sandbox that begins with the files that this one has now. What runs in this one is not copied.', yes: 'Fork', label: 'Name of the new one', hint: 'May stay empty', check: checkName })
  if (name === null) return
  const made = await forkSandbox(info, name, driver)
  toast.say(`${nameOf(made)} is there.`)
  go(sandboxPath(made.id))
}

async function snapshot(info: SandboxInfo): Promise<void> {
  const name = await askText({ title: `Snapshot of ${nameOf(info)}`, text: 'Keeps its files as they are now. You can go back to them, compare, or make new sandboxes from them.', yes: 'Make it', label: 'Name', hint: 'May stay empty', check: checkName })
  if (name !== null) await snapshotSandbox(info, name)
}

/** Files in memory alone do not outlive a stop: that is asked first. */
async function stop(info: SandboxInfo): Promise<void> {
  const lost = { title: `Stop ${nameOf(info)}?`, text: 'It has no disk: its files are in memory alone. When it stops they are gone for good.', yes: 'Stop it, and lose its files', danger: true }
  if (info.persistent || (await ask(lost))) await stopSandbox(info)
}

export function actionsOf(info: SandboxInfo): MenuItem[] {
  const { state } = info
  const still = state === 'stopped' || state === 'failed'
  const goes = state === 'running' || state === 'paused'
  const items: (MenuItem | false)[] = [
    state === 'running' && { title: 'Stop', icon: 'stop', act: () => stop(info) },
    state === 'paused' && { title: 'Go on', icon: 'play', act: () => unpauseSandbox(info) },
    still && { title: 'Resume', icon: 'play', act: () => resumeSandbox(info) },
    still && others(info).length > 0 && { title: 'Resume with another driver', icon: 'shield', act: () => resumeOtherwise(info) },
    state === 'running' && { title: 'Pause', icon: 'pause', act: () => pauseSandbox(info) },
    { title: 'Fork', icon: 'fork', act: () => fork(info), why: goes || still ? undefined : 'not in this state' },
    { title: 'Snapshot', icon: 'camera', act: () => snapshot(info), why: goes || still ? undefined : 'not in this state' },
    { title: 'Delete', icon: 'trash', danger: true, act: () => deleteSandbox(info) },
  ]
  return items.filter((item) => item !== false)
}

/** In place of everything else, while it is about to be deleted. */
function Keep({ info, small }: { info: SandboxInfo; small?: boolean }) {
  return <Button small={small ?? false} icon="back" onClick={(e) => (e.stopPropagation(), keepSandbox(info.id))}>Keep it</Button>
}

export function SandboxActions({ info }: { info: SandboxInfo }) {
  useEffect(lookAtDrivers, [])
  if (leavingSoon.value.has(info.id)) return <div class="sandbox-actions"><Keep info={info} /></div>
  const all = actionsOf(info)
  const first = all[0]?.icon === 'fork' ? undefined : all[0]
  return (
    <div class="sandbox-actions">
      {first?.icon && <Button icon={first.icon} act={first.act}>{first.title}</Button>}
      <Menu label={`What to do with ${nameOf(info)}`} items={all.filter((item) => item !== first)} />
    </div>
  )
}

export function SandboxMenu({ info }: { info: SandboxInfo }) {
  useEffect(lookAtDrivers, [])
  if (leavingSoon.value.has(info.id)) return <Keep info={info} small />
  return <Menu label={`What to do with ${nameOf(info)}`} items={actionsOf(info)} />
}
