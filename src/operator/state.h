/* States of a sandbox and what may happen in each: one table, which everything else asks.
 *
 * What is asked for (by a verb) and what happens (to a sandbox) are both events. An event that a state does not have is
 * refused as `conflict`. An asked-for event that leads back to the same state has nothing to do: asking again is fine.
 *
 * Four states are of passage: an operator that finds one of them in the store knows what its predecessor was doing.
 *   creating   not acknowledged: undone          starting   completed
 *   stopping   completed                         deleting   completed */
#pragma once

#include "base/json.h"

enum state {
        STATE_CREATING,
        STATE_STARTING,
        STATE_RUNNING,
        STATE_PAUSED,
        STATE_STOPPING,
        STATE_STOPPED,
        STATE_QUARANTINED, /* frozen and cut off, for whoever looks into it; it can only be deleted */
        STATE_FAILED,      /* could not be stopped or is not understood; stop and delete are tried again */
        STATE_DELETING,
        STATE_DELETED,
        STATE_COUNT,
};

enum event {
        /* asked for */
        EVENT_EXEC,
        EVENT_FILES,
        EVENT_PAUSE,
        EVENT_UNPAUSE,
        EVENT_STOP,
        EVENT_RESUME,
        EVENT_SNAPSHOT,
        EVENT_ROLLBACK,
        EVENT_POLICY,
        EVENT_QUARANTINE,
        EVENT_DELETE,
        EVENT_ASKED, /* how many of those */
        /* happen */
        EVENT_STARTED = EVENT_ASKED,
        EVENT_START_FAILED,
        EVENT_STOPPED,
        EVENT_STOP_FAILED,
        EVENT_DIED, /* PID 1 ended without having been stopped */
        EVENT_DELETED,
        EVENT_COUNT,
};

/* Why a sandbox or a run ended. */
enum reason {
        REASON_NONE,
        REASON_EXITED,
        REASON_SIGNAL,
        REASON_TIMEOUT,
        REASON_OOM,
        REASON_DISK_FULL,
        REASON_OUTPUT_LIMIT,
        REASON_BUDGET,
        REASON_STOPPED,
        REASON_DENIED,
        REASON_DRIVER_FAILED,
        REASON_CANCELLED,
        REASON_LOST,
        REASON_IDLE,
        REASON_LIFETIME,
        REASON_ROLLBACK, /* stopped in order to be started again with another disk */
        REASON_QUARANTINE,
        REASON_NOT_BEGUN, /* of a run: the operator died before it told the guest */
        REASON_COUNT,
};

const char *state_name(enum state s);
bool state_parse(const char *name, enum state *ret);
const char *event_name(enum event e);
const char *reason_name(enum reason r); /* "" for none */
enum reason reason_parse(const char *name);

/* Where the event leads from here; false if it is not allowed. */
bool state_move(enum state from, enum event e, enum state *ret);

/* Has a process, frozen or not. */
bool state_alive(enum state s);

/* What may be asked for in this state: as an array of names, and as words for a person ("stop, delete"). */
void state_allowed_json(enum state s, struct json *j, const char *key);
const char *state_allowed_text(enum state s, char *buf, size_t size);
