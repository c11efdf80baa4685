/* The kinds of events: one row each. What comes first in a name is its family, for filters. */
#include "ledger/ledger.h"

static const struct {
        const char *name;
        bool durable; /* nothing is done before the event is on the disk */
        bool kept; /* it tells what has happened, makes things safer or makes room: never turned away while memory lasts
                    */
} kinds[] = {
        [LEDGER_SANDBOX_CREATE] = {"sandbox.create", true, false},
        [LEDGER_SANDBOX_START] = {"sandbox.start", true, false},
        [LEDGER_SANDBOX_STOP] = {"sandbox.stop", true, true},
        [LEDGER_SANDBOX_PAUSE] = {"sandbox.pause", true, true},
        [LEDGER_SANDBOX_UNPAUSE] = {"sandbox.unpause", true, false},
        [LEDGER_SANDBOX_RESUME] = {"sandbox.resume", true, false},
        [LEDGER_SANDBOX_DELETE] = {"sandbox.delete", true, true},
        [LEDGER_SANDBOX_FAIL] = {"sandbox.fail", true, true},
        [LEDGER_SANDBOX_QUARANTINE] = {"sandbox.quarantine", true, true},
        [LEDGER_SANDBOX_ADOPT] = {"sandbox.adopt", true, true},
        [LEDGER_SANDBOX_POLICY] = {"sandbox.policy", true, false},
        [LEDGER_SANDBOX_ORPHAN] = {"sandbox.orphan", false, true},
        [LEDGER_DISK_LOST] = {"disk.lost", true, true},
        [LEDGER_RUN_START] = {"run.start", true, false},
        [LEDGER_RUN_END] = {"run.end", true, true},
        [LEDGER_RUN_SIGNAL] = {"run.signal", false, true},
        [LEDGER_RUN_ATTACH] = {"run.attach", false, false},
        [LEDGER_EXEC] = {"exec.run", false, true},
        [LEDGER_NET_USE] = {"net.use", false, true},
        [LEDGER_NET_DENY] = {"net.deny", false, true},
        [LEDGER_DNS_DENY] = {"dns.deny", false, true},
        [LEDGER_FILE_WRITE] = {"file.write", false, false},
        [LEDGER_FILE_READ] = {"file.read", false, false},
        [LEDGER_FILE_REMOVE] = {"file.remove", false, false},
        [LEDGER_FILE_ARCHIVE] = {"file.archive", false, false},
        [LEDGER_LIMIT_HIT] = {"limit.hit", false, true},
        [LEDGER_BUDGET_HIT] = {"budget.hit", false, true},
        [LEDGER_SECRET_SET] = {"secret.set", true, false},
        [LEDGER_SECRET_WIPE] = {"secret.wipe", true, true},
        [LEDGER_GRANT_GIVE] = {"grant.give", true, false},
        [LEDGER_GRANT_END] = {"grant.end", true, true},
        [LEDGER_AUTH_REFUSED] = {"auth.refused", true, true},
        [LEDGER_SESSION_BEGIN] = {"session.begin", false, false},
        [LEDGER_SESSION_END] = {"session.end", true, true},
        [LEDGER_SESSION_USE] = {"session.use", false, false},
        [LEDGER_SNAPSHOT_MAKE] = {"snapshot.make", true, false},
        [LEDGER_SNAPSHOT_FAIL] = {"snapshot.fail", true, true},
        [LEDGER_SNAPSHOT_FORK] = {"snapshot.fork", true, false},
        [LEDGER_SNAPSHOT_ROLLBACK] = {"snapshot.rollback", true, false},
        [LEDGER_SNAPSHOT_DELETE] = {"snapshot.delete", true, true},
        [LEDGER_SNAPSHOT_EXPORT] = {"snapshot.export", true, false},
        [LEDGER_SNAPSHOT_IMPORT] = {"snapshot.import", true, false},
        [LEDGER_IMAGE_IMPORT] = {"image.import", true, false},
        [LEDGER_IMAGE_REMOVE] = {"image.remove", true, true},
        [LEDGER_DAEMON_START] = {"daemon.start", true, false},
        [LEDGER_DAEMON_END] = {"daemon.end", false, true},
        [LEDGER_DAEMON_PART_DIED] = {"daemon.part-died", false, true},
        [LEDGER_DAEMON_PRESSURE] = {"daemon.pressure", false, true},
        [LEDGER_CHECKPOINT] = {"ledger.checkpoint", false, true},
        [LEDGER_REPAIR] = {"ledger.repair", true, true},
};
static_assert(ELEMENTSOF(kinds) == LEDGER_KIND_COUNT, "a kind without a row");

static bool known(enum ledger_kind k) {
        return (unsigned)k < LEDGER_KIND_COUNT;
}

const char *ledger_kind_name(enum ledger_kind k) {
        return known(k) ? kinds[k].name : NULL;
}

/* What is not known is treated with the most care. */
bool ledger_kind_durable(enum ledger_kind k) {
        return !known(k) || kinds[k].durable;
}

bool ledger_kind_kept(enum ledger_kind k) {
        return known(k) && kinds[k].kept;
}
