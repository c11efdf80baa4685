/* Events of gates, recorded. */
#include "operator/gate-record.h"

#include "base/json.h"
#include "base/log.h"

#define ACTOR "gate"

enum ledger_kind gate_record_kind(const struct gate_event *e) {
        if (e->reason == GATE_USED)
                return LEDGER_NET_USE;
        if (e->reason == GATE_LOOKUPS || e->reason == GATE_QUERY_TYPE)
                return LEDGER_DNS_DENY;
        /* a name without a port was looked up, and no more */
        return e->port == 0 && e->host[0] && e->reason != GATE_NO_UDP ? LEDGER_DNS_DENY : LEDGER_NET_DENY;
}

void gate_record_data(struct buf *b, const struct gate_event *e) {
        struct json j = {.out = b};

        json_open(&j, NULL, '{');
        json_str(&j, "host", e->host);
        if (e->port)
                json_u64(&j, "port", e->port);
        json_u64(&j, "count", e->count);
        if (e->reason == GATE_USED) {
                json_u64(&j, "sent", e->sent);
                json_u64(&j, "received", e->received);
        } else
                json_str(&j, "reason", gate_reason_name(e->reason));
        if (e->rule >= 0)
                json_i64(&j, "rule", e->rule);
        if (e->method[0])
                json_str(&j, "method", e->method);
        if (e->path[0])
                json_str(&j, "path", e->path);
        if (e->detail[0])
                json_str(&j, "detail", e->detail);
        json_close(&j, '}');
}

int64_t gate_record(struct ledger *l, const char *sandbox, const struct gate_event *e, bool *spent) {
        _cleanup_buf_ struct buf b = {.max = 16 * 1024};

        if (e->reason == GATE_EGRESS && !*spent) {
                int64_t r = ledger_append(l, LEDGER_BUDGET_HIT, sandbox, ACTOR, "{\"budget\":\"egress\"}");
                if (r < 0)
                        return r;
                *spent = true;
        }
        gate_record_data(&b, e);
        return buf_ok(&b) ? ledger_append(l, gate_record_kind(e), sandbox, ACTOR, b.data) : -E2BIG;
}

void gate_record_death(struct ledger *l, const char *owner, const char *why) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_str(&j, "part", "gate");
        json_str(&j, "owner", owner);
        json_str(&j, "why", why);
        json_close(&j, '}');
        int64_t r = buf_ok(&b) ? ledger_append(l, LEDGER_DAEMON_PART_DIED, "", "operator", b.data) : -ENOMEM;
        if (r < 0)
                log_line(LOG_LEVEL_ERROR, NULL, "the end of a gate could not be recorded: %s", err_name((int)r));
}
