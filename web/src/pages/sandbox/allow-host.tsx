// "Allow this host": what exactly would change, asked of the server, and then done with one click.
import type { Client, Sandbox, SandboxInfo } from 'stockade-client'
import { apply, check, planAdd, takeBack, type Plan } from '../../lib/network-change'
import { Button, Dialog, Failure, Skeleton, toast, useLoad } from '../../ui'
import { RuleChanges } from './rules'

/** What would change; the server has compiled it and would do it. */
async function preview(box: Sandbox, entry: string): Promise<Plan> {
  const plan = planAdd((await box.policy()).effective, [entry])
  if (plan.add.length) await check(box, plan)
  return plan
}

export function AllowHost({ entry, sandbox, client, onClose }: { entry: string; sandbox: SandboxInfo; client: Client; onClose: () => void }) {
  const box = client.sandboxes.of(sandbox)
  const load = useLoad(() => preview(box, entry), [entry, sandbox.id])
  const plan = load.value
  const there = plan !== undefined && plan.add.length === 0
  const allow = async (): Promise<void> => {
    if (!plan) return
    await apply(box, plan)
    onClose()
    const said = `From the next connection on it may reach ${entry}.`
    if (!plan.allow) return toast.say(said) // beside rules that say more than a list can: they would go, too
    toast.undo(said, async () => {
      await takeBack(box, plan)
      toast.say(`It may no longer reach ${entry}.`)
    })
  }
  const foot = plan && !there && <>
    <Button onClick={onClose}>Cancel</Button>
    <Button kind="primary" act={allow}>Allow {entry}</Button>
  </>
  return (
    <Dialog title={`Allow ${entry}?`} onClose={onClose} foot={foot || undefined}>
      {load.state === 'loading' && <Skeleton lines={2} label="Asking what would change" />}
      {load.state === 'failed' && <Failure error={load.error} retry={load.reload} />}
      {there && <p>A rule allows it already: the next request should pass.</p>}
      {plan && !there && (
        <>
          <p>This changes what the sandbox may reach, from its next connection on, and nothing else:</p>
          <RuleChanges before={plan.before} after={plan.after} />
          <p class="quiet small">The server has checked this change and would make it as it is shown. It is written to the ledger under your name.</p>
        </>
      )}
    </Dialog>
  )
}
