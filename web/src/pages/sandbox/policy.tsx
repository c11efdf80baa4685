// What it may do: what was asked for beside what is in force, and what it may reach, which can be changed while it runs.
import { useSignal } from '@preact/signals'
import type { Client, PolicyInfo, SandboxInfo } from 'stockade-client'
import { loadProfiles, type Section } from '../../lib/profiles'
import { CopyButton, Failure, Skeleton, Table, sentence, useLoad } from '../../ui'
import '../../style/parts.css'
import '../../style/policy.css'
import { useFresh } from './fresh'
import { NetworkEditor } from './network-editor'

function Words({ sections }: { sections: readonly Section[] }) {
  return (
    <>
      {sections.map((section) => (
        <section key={section.title}>
          <h4>{section.title}</h4>
          {section.sentences.map((line, i) => <p key={i}>{line}</p>)}
        </section>
      ))}
    </>
  )
}

/** sections: what it means, in the server's words; without them it is shown as text. text '': there is none. */
function Side({ title, hint, sections, text, none, asText }: { title: string; hint: string; sections: readonly Section[] | undefined; text: string; none: string; asText: boolean }) {
  return (
    <article class="policy-side" aria-label={title}>
      <header>
        <h3>{title}</h3>
        {text && <CopyButton text={text} label={`Copy “${title}”`} />}
      </header>
      <p class="quiet small">{hint}</p>
      {!text ? <p class="notice">{none}</p> : asText || !sections ? <pre class="policy-text" tabIndex={0} aria-label={`${title}, as text`}>{text.trimEnd()}</pre> : <Words sections={sections} />}
    </article>
  )
}

/** One of a list: a rule that names a host and no more is the host. */
function entry(value: unknown): string {
  if (typeof value === 'string') return value
  const [[key, of] = ['', undefined], ...more] = Object.entries(value ?? {}) as [string, unknown][]
  return key === 'host' && typeof of === 'string' && !more.length ? of : JSON.stringify(value)
}

function said(value: unknown): string {
  if (Array.isArray(value)) return value.length ? value.map(entry).join(', ') : 'nothing'
  return value === null || value === undefined ? 'nothing' : typeof value === 'string' ? value : JSON.stringify(value)
}

function Differs({ rows }: { rows: PolicyInfo['differs'] }) {
  return (
    <>
      <p>What is in force differs from the profile here:</p>
      <Table label="Where they differ" rows={rows} rowKey={(r) => r.key} columns={[
        { title: 'What', cell: (r) => <code>{r.key}</code> },
        { title: 'In the profile', cell: (r) => <span class="break">{said(r.asked)}</span> },
        { title: 'In force', cell: (r) => <span class="break">{said(r.effective)}</span> },
      ]} />
    </>
  )
}

export default function PolicyTab({ sandbox, client }: { sandbox: SandboxInfo; client: Client }) {
  const load = useLoad(async () => {
    const [policy, profiles] = await Promise.all([client.sandboxes.of(sandbox).policy(), loadProfiles().catch(() => [])])
    return { ...policy, profiles }
  }, [client, sandbox.id])
  const asText = useSignal(false)
  useFresh(sandbox.id, ['sandbox.policy'], load.reload)
  if (load.state === 'loading') return <Skeleton lines={10} label="Loading the policy" />
  if (load.state === 'failed') return <Failure error={load.error} retry={load.reload} />
  const { asked, described, differs, effective, profiles } = load.value
  const wanted = asked.policy ? JSON.stringify(asked.policy, null, 2) : ''
  const profile = asked.profile || sandbox.profile
  return (
    <div class="policy">
      <NetworkEditor sandbox={sandbox} client={client} policy={effective} onChanged={load.reload} />
      <section aria-label="The whole policy">
        <header class="policy-head">
          <h2>The whole policy</h2>
          <div class="chips" role="group" aria-label="Shown as">
            <button type="button" class="chip" aria-pressed={!asText.value} onClick={() => (asText.value = false)}>In words</button>
            <button type="button" class="chip" aria-pressed={asText.value} onClick={() => (asText.value = true)}>As text</button>
          </div>
        </header>
        {wanted && (differs.length ? <Differs rows={differs} /> : <p class="quiet">What is in force is what was asked for.</p>)}
        <div class="policy-sides">
          <Side title="Asked for" hint={`The profile ${profile || 'that was given'}, as it is now.`} sections={profiles.find((p) => p.name === profile)?.sections} text={wanted} none={`${sentence(asked.error ?? 'The profile is not known here')} It was given with the request that made the sandbox, and what is in force is what came of it.`} asText={asText.value} />
          <Side title="In force" hint={`What the driver ${sandbox.driver} enforces now, with everything that was said when it was made and changed since.`} sections={described.sections} text={effective} none="" asText={asText.value} />
        </div>
      </section>
    </div>
  )
}
