/* For whoever acts for all: who has what on this host, and how the host is. */
#include <sys/sysinfo.h>

#include "operator/pool.h"
#include "operator/sandbox.h"
#include "operator/verbs.h"

static unsigned count(const struct core *o, const struct owner *owner) {
        unsigned n = 0;

        for (const struct sandbox *s = o->registry->first; s; s = s->next)
                n += s->owner == owner;
        return n;
}

/* Owners that have nothing are left out: they are names that somebody once used. */
void verb_owners(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};
        struct table *t = &c->o->registry->owners;

        json_open(&j, NULL, '{');
        json_open(&j, "owners", '[');
        for (struct table_node *n = table_next(t, NULL); n; n = table_next(t, n)) {
                const struct owner *owner = TABLE_OWNER(n, struct owner, node);
                unsigned sandboxes = count(c->o, owner);

                if (sandboxes == 0 && owner->used.disk == 0 && owner->tally[TALLY_SNAPSHOTS] == 0)
                        continue;
                json_open(&j, NULL, '{');
                json_str(&j, "owner", owner->name);
                json_u64(&j, "sandboxes", sandboxes);
                json_u64(&j, "running", owner->used.sandboxes);
                json_u64(&j, "memory", owner->used.memory);
                json_u64(&j, "cpus", owner->used.cpus);
                json_u64(&j, "disk", owner->used.disk);
                json_u64(&j, "log_bytes", owner->log_bytes);
                json_u64(&j, "snapshots", owner->tally[TALLY_SNAPSHOTS]);
                json_u64(&j, "images", owner->tally[TALLY_IMAGES]);
                json_close(&j, '}');
        }
        json_close(&j, ']');
        json_close(&j, '}');
        call_answer(c, &b);
}

void verb_pool(struct call *c) {
        _cleanup_buf_ struct buf b = {.max = LOCAL_ANSWER_MAX - 64};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        pool_json(c->o, &j);
        json_close(&j, '}');
        call_answer(c, &b);
}

/* As the kernel tells everybody; nothing of the host is opened for it. */
void verb_load(struct call *c) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        const struct registry *r = c->o->registry;
        struct sysinfo s;

        if (sysinfo(&s) < 0) {
                call_refuse_text(c, "failed", "", "the kernel does not say: %s", err_name(-errno));
                return;
        }
        json_open(&j, NULL, '{');
        json_u64(&j, "cpus", c->o->facts[WARDEN_FACT_CPUS] / 1000);
        json_u64(&j, "load_1m_thousandths", (uint64_t)s.loads[0] * 1000 >> SI_LOAD_SHIFT);
        json_u64(&j, "load_5m_thousandths", (uint64_t)s.loads[1] * 1000 >> SI_LOAD_SHIFT);
        json_u64(&j, "load_15m_thousandths", (uint64_t)s.loads[2] * 1000 >> SI_LOAD_SHIFT);
        json_u64(&j, "memory", (uint64_t)s.totalram * s.mem_unit);
        json_u64(&j, "memory_free", (uint64_t)s.freeram * s.mem_unit); /* without what could be dropped */
        json_u64(&j, "memory_buffers", (uint64_t)s.bufferram * s.mem_unit);
        json_u64(&j, "uptime_ms", (uint64_t)s.uptime * 1000);
        json_u64(&j, "processes", s.procs);
        json_u64(&j, "sandboxes", r->sandboxes.count);
        json_u64(&j, "running", r->used.sandboxes);
        json_u64_or_null(&j, "running_most", r->most.sandboxes);
        json_u64(&j, "promised_memory", r->used.memory);
        json_u64_or_null(&j, "promised_memory_most", r->most.memory);
        json_u64(&j, "promised_cpus_thousandths", r->used.cpus);
        json_u64_or_null(&j, "promised_cpus_thousandths_most", r->most.cpus);
        json_u64(&j, "promised_disk", r->used.disk);
        json_u64_or_null(&j, "promised_disk_most", r->most.disk);
        json_u64(&j, "owners", r->owners.count);
        json_u64(&j, "pool", pool_ready(c->o));
        json_u64(&j, "started_ms", r->started_ms);
        json_close(&j, '}');
        call_answer(c, &b);
}
