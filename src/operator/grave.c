/* Sandboxes and snapshots that are no more: their ids stay for a day, in the store as rows without contents, so that
 * whoever asks a second time to delete one hears that it is gone and not that it never was. */
#include "operator/sandbox.h"

#define GRAVE_MS   (24ULL * 3600 * 1000)
#define GRAVES_MAX 20000

struct grave {
        struct table_node node;
        char id[STORE_ID];
        char owner[STORE_OWNER];
        uint64_t when_ms;
};

static void dig_up(struct core *o, struct grave *g) {
        struct store_sandbox row = {0};
        struct store_snapshot snapshot = {0};

        copy_text(row.id, sizeof row.id, g->id);
        copy_text(snapshot.id, sizeof snapshot.id, g->id);
        (void)store_remove(o->store, STORE_SANDBOX, &row); /* it is one of the two */
        (void)store_remove(o->store, STORE_SNAPSHOT, &snapshot);
        table_remove(&o->registry->graves, &g->node);
        free(g);
}

void grave_add(struct core *o, const char *id, const char *owner, uint64_t when_ms) {
        struct grave *g = calloc(1, sizeof *g);

        if (!g)
                return;
        copy_text(g->id, sizeof g->id, id);
        copy_text(g->owner, sizeof g->owner, owner);
        g->when_ms = when_ms;
        if (table_add(&o->registry->graves, &g->node, g->id) < 0)
                free(g);
        if (o->registry->graves.count > GRAVES_MAX)
                grave_sweep(o);
}

const char *grave_owner(struct core *o, const char *id) {
        struct table_node *n = table_find(&o->registry->graves, id);

        return n ? TABLE_OWNER(n, struct grave, node)->owner : NULL;
}

bool grave_has(struct core *o, const char *id, const char *owner) {
        const char *whose = grave_owner(o, id);

        return whose && (!owner || str_eq(whose, owner));
}

/* Those of yesterday; and when there are too many all the same, the older half. */
void grave_sweep(struct core *o) {
        struct table *t = &o->registry->graves;
        uint64_t now = wall_ms(), age = t->count > GRAVES_MAX ? GRAVE_MS / 24 : GRAVE_MS;

        for (; age > 1000; age /= 2) {
                for (struct table_node *n = table_next(t, NULL), *next; n; n = next) {
                        struct grave *g = TABLE_OWNER(n, struct grave, node);

                        next = table_next(t, n);
                        if (now > g->when_ms && now - g->when_ms > age)
                                dig_up(o, g);
                }
                if (t->count <= GRAVES_MAX / 2 || age == GRAVE_MS)
                        break;
        }
}

void grave_free(struct core *o) {
        struct table *t = &o->registry->graves;

        for (struct table_node *n; (n = table_next(t, NULL));) {
                table_remove(t, n);
                free(TABLE_OWNER(n, struct grave, node));
        }
        table_free(t);
}
