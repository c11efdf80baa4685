/* The table of states and events. Nothing else in the operator decides what may follow what. */
#include "operator/state.h"

#include <stdio.h>

static const char *const state_names[] = {
        [STATE_CREATING] = "creating", [STATE_STARTING] = "starting",       [STATE_RUNNING] = "running",
        [STATE_PAUSED] = "paused",     [STATE_STOPPING] = "stopping",       [STATE_STOPPED] = "stopped",
        [STATE_FAILED] = "failed",     [STATE_QUARANTINED] = "quarantined", [STATE_DELETING] = "deleting",
        [STATE_DELETED] = "deleted",
};
static_assert(ELEMENTSOF(state_names) == STATE_COUNT, "every state has a name");

static const char *const event_names[] = {
        [EVENT_EXEC] = "exec",
        [EVENT_FILES] = "files",
        [EVENT_PAUSE] = "pause",
        [EVENT_UNPAUSE] = "unpause",
        [EVENT_STOP] = "stop",
        [EVENT_RESUME] = "resume",
        [EVENT_SNAPSHOT] = "snapshot",
        [EVENT_ROLLBACK] = "rollback",
        [EVENT_POLICY] = "policy",
        [EVENT_QUARANTINE] = "quarantine",
        [EVENT_DELETE] = "delete",
        [EVENT_STARTED] = "started",
        [EVENT_START_FAILED] = "start failed",
        [EVENT_STOPPED] = "stopped",
        [EVENT_STOP_FAILED] = "stop failed",
        [EVENT_DIED] = "died",
        [EVENT_DELETED] = "deleted",
};
static_assert(ELEMENTSOF(event_names) == EVENT_COUNT, "every event has a name");

static const char *const reason_names[] = {
        [REASON_NONE] = "",
        [REASON_EXITED] = "exited",
        [REASON_SIGNAL] = "signal",
        [REASON_TIMEOUT] = "timeout",
        [REASON_OOM] = "oom",
        [REASON_DISK_FULL] = "disk_full",
        [REASON_OUTPUT_LIMIT] = "output_limit",
        [REASON_BUDGET] = "budget",
        [REASON_STOPPED] = "stopped",
        [REASON_DENIED] = "denied",
        [REASON_DRIVER_FAILED] = "driver_failed",
        [REASON_CANCELLED] = "cancelled",
        [REASON_LOST] = "lost",
        [REASON_IDLE] = "idle",
        [REASON_LIFETIME] = "lifetime",
        [REASON_ROLLBACK] = "rollback",
        [REASON_QUARANTINE] = "quarantine",
        [REASON_NOT_BEGUN] = "not_begun",
};
static_assert(ELEMENTSOF(reason_names) == REASON_COUNT, "every reason has a name");

#define TO(state) (1 + (state)) /* 0, what is not listed, is not allowed */

static const uint8_t moves[STATE_COUNT][EVENT_COUNT] = {
        [STATE_CREATING] =
                {
                        [EVENT_STARTED] = TO(STATE_RUNNING),
                        [EVENT_START_FAILED] = TO(STATE_DELETED),
                },
        [STATE_STARTING] =
                {
                        [EVENT_STARTED] = TO(STATE_RUNNING),
                        [EVENT_START_FAILED] = TO(STATE_STOPPED),
                },
        [STATE_RUNNING] =
                {
                        [EVENT_EXEC] = TO(STATE_RUNNING),
                        [EVENT_FILES] = TO(STATE_RUNNING),
                        [EVENT_PAUSE] = TO(STATE_PAUSED),
                        [EVENT_UNPAUSE] = TO(STATE_RUNNING),
                        [EVENT_STOP] = TO(STATE_STOPPING),
                        [EVENT_RESUME] = TO(STATE_RUNNING),
                        [EVENT_SNAPSHOT] = TO(STATE_RUNNING),
                        [EVENT_ROLLBACK] = TO(STATE_STOPPING),
                        [EVENT_POLICY] = TO(STATE_RUNNING),
                        [EVENT_QUARANTINE] = TO(STATE_QUARANTINED),
                        [EVENT_DELETE] = TO(STATE_DELETING),
                        [EVENT_DIED] = TO(STATE_STOPPED),
                },
        [STATE_PAUSED] =
                {
                        [EVENT_PAUSE] = TO(STATE_PAUSED),
                        [EVENT_UNPAUSE] = TO(STATE_RUNNING),
                        [EVENT_STOP] = TO(STATE_STOPPING),
                        [EVENT_SNAPSHOT] = TO(STATE_PAUSED),
                        [EVENT_ROLLBACK] = TO(STATE_STOPPING),
                        [EVENT_POLICY] = TO(STATE_PAUSED),
                        [EVENT_QUARANTINE] = TO(STATE_QUARANTINED),
                        [EVENT_DELETE] = TO(STATE_DELETING),
                        [EVENT_DIED] = TO(STATE_STOPPED),
                },
        [STATE_STOPPING] =
                {
                        [EVENT_STOPPED] = TO(STATE_STOPPED),
                        [EVENT_STOP_FAILED] = TO(STATE_FAILED),
                        [EVENT_DIED] = TO(STATE_STOPPING),
                },
        [STATE_STOPPED] =
                {
                        [EVENT_STOP] = TO(STATE_STOPPED),
                        [EVENT_RESUME] = TO(STATE_STARTING),
                        [EVENT_SNAPSHOT] = TO(STATE_STOPPED),
                        [EVENT_ROLLBACK] = TO(STATE_STARTING),
                        [EVENT_POLICY] = TO(STATE_STOPPED),
                        [EVENT_QUARANTINE] = TO(STATE_QUARANTINED),
                        [EVENT_DELETE] = TO(STATE_DELETING),
                },
        [STATE_QUARANTINED] =
                {
                        [EVENT_QUARANTINE] = TO(STATE_QUARANTINED),
                        [EVENT_DELETE] = TO(STATE_DELETING),
                        [EVENT_DIED] = TO(STATE_QUARANTINED),
                },
        [STATE_FAILED] =
                {
                        [EVENT_STOP] = TO(STATE_STOPPING),
                        [EVENT_QUARANTINE] = TO(STATE_QUARANTINED),
                        [EVENT_DELETE] = TO(STATE_DELETING),
                        [EVENT_DIED] = TO(STATE_FAILED),
                },
        [STATE_DELETING] =
                {
                        [EVENT_DELETE] = TO(STATE_DELETING), /* again, after one that failed half-way */
                        [EVENT_DELETED] = TO(STATE_DELETED),
                        [EVENT_DIED] = TO(STATE_DELETING),
                },
        [STATE_DELETED] =
                {
                        [EVENT_DELETE] = TO(STATE_DELETED),
                },
};

const char *state_name(enum state s) {
        return s < STATE_COUNT ? state_names[s] : "?";
}

bool state_parse(const char *name, enum state *ret) {
        for (unsigned i = 0; i < STATE_COUNT; i++)
                if (str_eq(state_names[i], name)) {
                        *ret = (enum state)i;
                        return true;
                }
        return false;
}

const char *event_name(enum event e) {
        return e < EVENT_COUNT ? event_names[e] : "?";
}

const char *reason_name(enum reason r) {
        return r < REASON_COUNT ? reason_names[r] : "?";
}

enum reason reason_parse(const char *name) {
        for (unsigned i = 0; i < REASON_COUNT; i++)
                if (str_eq(reason_names[i], name))
                        return (enum reason)i;
        return REASON_NONE;
}

bool state_move(enum state from, enum event e, enum state *ret) {
        if (from >= STATE_COUNT || e >= EVENT_COUNT || moves[from][e] == 0)
                return false;
        *ret = (enum state)(moves[from][e] - 1);
        return true;
}

bool state_alive(enum state s) {
        return s == STATE_RUNNING || s == STATE_PAUSED;
}

void state_allowed_json(enum state s, struct json *j, const char *key) {
        enum state to;

        json_open(j, key, '[');
        for (unsigned e = 0; e < EVENT_ASKED; e++)
                if (state_move(s, (enum event)e, &to))
                        json_str(j, NULL, event_names[e]);
        json_close(j, ']');
}

const char *state_allowed_text(enum state s, char *buf, size_t size) {
        enum state to;
        size_t used = 0;

        (void)snprintf(buf, size, "nothing");
        for (unsigned e = 0; e < EVENT_ASKED && used < size; e++)
                if (state_move(s, (enum event)e, &to))
                        used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", event_names[e]);
        return buf;
}
