/* Snapshots: the layers, the image, the policy and the ledger's position of a sandbox at one moment. */
#pragma once

#include "operator/task.h"

struct snapshot *snapshot_find(struct core *o, const char *id);
struct snapshot *snapshot_named(struct core *o, const char *owner, const char *name);
/* In the registry, not ready, not in the store. One reference is the registry's. -EEXIST: the name is taken. */
int snapshot_new(struct core *o, struct owner *owner, const char *name, struct snapshot **ret);
struct snapshot *snapshot_ref(struct snapshot *p);
void snapshot_unref(struct snapshot *p);
void snapshot_unregister(struct snapshot *p);     /* nobody finds it any more; gives back the registry's reference */
uint64_t snapshot_put(struct snapshot *p);        /* its row, whole */
uint64_t snapshot_remove_row(struct snapshot *p); /* of one that never was */
uint64_t snapshot_bury(struct snapshot *p);       /* of one that is deleted: who asks again hears that it is gone */
void snapshot_set(struct snapshot *p, const struct sandbox *s); /* whose it is a snapshot of */
int snapshot_load(struct core *o, const struct store_snapshot *row, struct err *err);
void snapshot_json(const struct snapshot *p, struct json *j, const char *key);
void snapshots_free(struct core *o);

/* Copies the disk of a sandbox that runs, or is frozen already, into t->disk: frozen meanwhile, thawed afterwards if it
 * was running, at the latest after snapshot_pause; then made durable. t->snapshot->pause_us says for how long it was
 * frozen, and the answer to DISK_SPACE is in t->answer. */
void snapshot_capture(struct task *t, void (*then)(struct task *t));
/* The copy is a layer and the snapshot is ready: its rows, in the caller's group. */
int snapshot_complete(struct task *t);
void snapshot_delete(struct core *o, struct call *call, struct snapshot *p);
