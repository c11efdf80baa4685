// A new sandbox: a profile, changes to it, and beside them in plain words what it will be able to do.
import '../style/create.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Profile, ProfileKey, ProfileProblem, ProfileWishes } from 'stockade-client'
import { fetchAhead } from '../lib/ahead'
import { driverTitle, drivers, lookAtDrivers } from '../lib/drivers'
import { checkName } from '../lib/names'
import { checkWish, fieldsOf, hintOf, loadKeys, loadProfiles, problemAt, titleOf, usualProfile, type Section } from '../lib/profiles'
import { go, sandboxPath } from '../lib/route'
import { createSandbox } from '../lib/sandboxes'
import { Button, Failure, Icon, Select, Skeleton, TextArea, TextField, sentence, useLoad, type IconName } from '../ui'

const CHECK_MS = 250
const ICONS: Readonly<Record<string, IconName>> = { Files: 'folder', Programs: 'terminal', Network: 'globe', Limits: 'chart', Time: 'clock', Budget: 'clock', Secrets: 'key' }

/** What people ask first stands first: whom it can talk to. */
function inOrder(sections: readonly Section[]): readonly Section[] {
  return [...sections.filter((s) => s.title === 'Network'), ...sections.filter((s) => s.title !== 'Network')]
}

interface Checked {
  readonly sections: readonly Section[]
  readonly problems: readonly ProfileProblem[]
  /** It could not be asked. */
  readonly error?: unknown
  /** Something was changed since. */
  readonly old: boolean
}

/** Asks the server what the wish would mean, a moment after it last changed. */
function useCheck(wish: ProfileWishes, first: readonly Section[]): Checked {
  const [checked, setChecked] = useState<Checked>({ sections: first, problems: [], old: true })
  const text = JSON.stringify(wish)
  useEffect(() => {
    let there = true
    setChecked((was) => ({ ...was, old: true }))
    const timer = setTimeout(() => {
      checkWish(wish).then(
        (found) => there && setChecked((was) => (found.ok ? { sections: found.sections, problems: [], old: false } : { sections: was.sections, problems: found.problems, old: true })),
        (error: unknown) => there && setChecked((was) => ({ ...was, error, old: false })),
      )
    }, CHECK_MS)
    return () => {
      clearTimeout(timer)
      there = false
    }
  }, [text])
  return checked
}

function Changes({ keys, changed, problems, set }: { keys: readonly ProfileKey[]; changed: Readonly<Record<string, string>>; problems: readonly ProfileProblem[]; set: (key: string, value: string) => void }) {
  return (
    <div class="overrides">
      {keys.map((k) => {
        const about = { label: titleOf(k), hint: hintOf(k), error: problemAt(problems, `overrides.${k.key}`) }
        const value = changed[k.key] ?? ''
        const choices = k.type === 'boolean' ? ['true', 'false'] : k.choices
        if (!choices) return <TextField key={k.key} {...about} value={value} onInput={(v) => set(k.key, v)} placeholder="as the profile has it" />
        return <Select key={k.key} {...about} value={value} onChange={(v) => set(k.key, v)} options={[{ value: '', title: 'as the profile has it' }, ...choices.map((c) => ({ value: c, title: c }))]} />
      })}
    </div>
  )
}

function Summary({ checked, children }: { checked: Checked; children: ComponentChildren }) {
  const whole = checked.problems.filter((p) => !/^(overrides|allow)\b/.test(p.field))
  return (
    <aside class="card summary">
      <h2>What it may do</h2>
      {checked.problems.length > 0 && <p class="quiet small">As it was before the last change:</p>}
      <div class={`summary-text${checked.old ? ' summary-old' : ''}`} aria-live="polite" aria-busy={checked.old && checked.problems.length === 0}>
        {inOrder(checked.sections).map((section) => (
          <section key={section.title}>
            <h3><Icon name={ICONS[section.title] ?? 'shield'} size={16} />{section.title}</h3>
            <ul>{section.sentences.map((line) => <li key={line}>{line}</li>)}</ul>
          </section>
        ))}
      </div>
      {checked.problems.length > 0 && <p class="field-error" role="alert">{whole.length ? whole.map((p) => sentence([p.error, p.hint].filter(Boolean).join(': '))).join(' ') : 'Something above cannot be had here: it is marked.'}</p>}
      {children}
    </aside>
  )
}

function Form({ profiles, keys }: { profiles: readonly Profile[]; keys: readonly ProfileKey[] }) {
  const [profile, setProfile] = useState(() => usualProfile(profiles))
  const [name, setName] = useState('')
  const [allow, setAllow] = useState('')
  const [driver, setDriver] = useState('')
  const [changed, setChanged] = useState<Readonly<Record<string, string>>>({})
  const [refused, setRefused] = useState<unknown>()

  const overrides = Object.fromEntries(Object.entries(changed).flatMap(([key, value]) => (value.trim() ? [[key, value.trim()]] : [])))
  const hosts = allow.split(/[\s,]+/).filter(Boolean)
  const wish: ProfileWishes = { profile, ...(Object.keys(overrides).length ? { overrides } : {}), ...(hosts.length ? { allow: hosts } : {}) }
  const checked = useCheck(wish, profiles.find((p) => p.name === profile)?.sections ?? [])
  const wrongName = checkName(name)
  const { common, others } = fieldsOf(keys)
  const set = (key: string, value: string): void => setChanged({ ...changed, [key]: value })

  const create = async (): Promise<void> => {
    setRefused(undefined)
    try {
      const made = await createSandbox({ ...wish, ...(name ? { name } : {}), ...(driver ? { driver } : {}) })
      go(sandboxPath(made.id, 'terminals'), { replace: true })
    } catch (e) {
      setRefused(e)
    }
  }
  return (
    <form class="create" onSubmit={(e) => e.preventDefault()}>
      <div class="create-form">
        <fieldset class="profiles">
          <legend><h2>What is it for?</h2></legend>
          {profiles.map((p) => (
            <label key={p.name} class="profile">
              <input type="radio" name="profile" checked={p.name === profile} disabled={!p.ok} onChange={() => setProfile(p.name)} />
              <span><strong>{p.name}</strong><span class="quiet small">{sentence(p.ok ? p.about : `Not to be had here: ${p.error ?? ''}`)}</span></span>
            </label>
          ))}
        </fieldset>
        <TextField label="Name" value={name} onInput={setName} hint="May stay empty." error={wrongName} maxLength={64} />
        <TextArea label="Hosts that it may reach" value={allow} onInput={setAllow} placeholder={'github.com\n*.debian.org'} hint="One on each line. Nothing else can be reached, beyond what the profile allows." error={problemAt(checked.problems, 'allow')} />
        {drivers.value.length > 1 && <Select label="How it is kept apart" value={driver} onChange={setDriver} hint="More isolation starts and runs slower. The profile may ask for some in any case." options={[{ value: '', title: 'chosen by policy' }, ...drivers.value.map((d) => ({ value: d.name, title: driverTitle(d) }))]} />}
        {common.length > 0 && (
          <details class="more">
            <summary>Limits</summary>
            <Changes keys={common} changed={changed} problems={checked.problems} set={set} />
          </details>
        )}
        {others.length > 0 && (
          <details class="more">
            <summary>Everything else that a profile can say</summary>
            <Changes keys={others} changed={changed} problems={checked.problems} set={set} />
          </details>
        )}
      </div>
      <Summary checked={checked}>
        {refused !== undefined ? <Failure error={refused} /> : checked.error !== undefined && <Failure title="What it may do cannot be shown." error={checked.error} />}
        <Button kind="primary" icon="terminal" type="submit" act={create} disabled={wrongName !== undefined || checked.old || checked.problems.length > 0}>Create and open a terminal</Button>
      </Summary>
    </form>
  )
}

export default function Create() {
  const profiles = useLoad(loadProfiles, [])
  const keys = useLoad(loadKeys, [])
  useEffect(() => void (document.title = 'New sandbox · Stockade'), [])
  useEffect(fetchAhead, [])
  useEffect(lookAtDrivers, [])
  return (
    <div class="page">
      <div class="list-head"><h1>New sandbox</h1></div>
      {profiles.state === 'failed' ? <Failure title="The profiles cannot be shown." error={profiles.error} retry={profiles.reload} />
        : profiles.state === 'loading' || keys.state === 'loading' ? <Skeleton lines={5} />
        : <Form profiles={profiles.value} keys={keys.value ?? []} />}
    </div>
  )
}
