/* Unit tests of what needs no daemon: the table of states, the order of operations, tables by name, admission. */
#include "base/test.h"

#include <stdio.h>

#include "operator/admission.h"
#include "operator/op.h"
#include "operator/sandbox.h"
#include "operator/state.h"
#include "operator/table.h"

/* --- states --- */

static bool goes(enum state from, enum event e, enum state to) {
        enum state got = STATE_COUNT;

        return state_move(from, e, &got) && got == to;
}

static bool refused(enum state from, enum event e) {
        enum state got = STATE_COUNT;

        return !state_move(from, e, &got) && got == STATE_COUNT;
}

static void life_goes_its_way(void) {
        CHECK(goes(STATE_CREATING, EVENT_STARTED, STATE_RUNNING));
        CHECK(goes(STATE_RUNNING, EVENT_PAUSE, STATE_PAUSED));
        CHECK(goes(STATE_PAUSED, EVENT_UNPAUSE, STATE_RUNNING));
        CHECK(goes(STATE_RUNNING, EVENT_STOP, STATE_STOPPING));
        CHECK(goes(STATE_STOPPING, EVENT_STOPPED, STATE_STOPPED));
        CHECK(goes(STATE_STOPPED, EVENT_RESUME, STATE_STARTING));
        CHECK(goes(STATE_STARTING, EVENT_STARTED, STATE_RUNNING));
        CHECK(goes(STATE_STARTING, EVENT_START_FAILED, STATE_STOPPED));
        CHECK(goes(STATE_RUNNING, EVENT_DIED, STATE_STOPPED));
        CHECK(goes(STATE_RUNNING, EVENT_DELETE, STATE_DELETING));
        CHECK(goes(STATE_DELETING, EVENT_DELETED, STATE_DELETED));
}

static void asking_again_is_fine(void) {
        CHECK(goes(STATE_PAUSED, EVENT_PAUSE, STATE_PAUSED));
        CHECK(goes(STATE_RUNNING, EVENT_UNPAUSE, STATE_RUNNING));
        CHECK(goes(STATE_STOPPED, EVENT_STOP, STATE_STOPPED));
        CHECK(goes(STATE_RUNNING, EVENT_RESUME, STATE_RUNNING));
        CHECK(goes(STATE_QUARANTINED, EVENT_QUARANTINE, STATE_QUARANTINED));
        CHECK(goes(STATE_DELETED, EVENT_DELETE, STATE_DELETED));
}

static void the_rest_is_refused(void) {
        CHECK(refused(STATE_PAUSED, EVENT_EXEC));
        CHECK(refused(STATE_STOPPED, EVENT_EXEC));
        CHECK(refused(STATE_STOPPED, EVENT_PAUSE));
        CHECK(refused(STATE_STOPPED, EVENT_UNPAUSE));
        CHECK(refused(STATE_PAUSED, EVENT_RESUME));
        CHECK(refused(STATE_PAUSED, EVENT_FILES));
        for (unsigned e = 0; e < EVENT_ASKED; e++) {
                CHECK((e == EVENT_DELETE) == !refused(STATE_DELETED, (enum event)e));
                /* out of quarantine there is one way */
                CHECK((e == EVENT_DELETE || e == EVENT_QUARANTINE) == !refused(STATE_QUARANTINED, (enum event)e));
                CHECK(refused(STATE_CREATING, (enum event)e) && refused(STATE_STOPPING, (enum event)e));
        }
        CHECK(refused(STATE_COUNT, EVENT_STOP) && refused(STATE_RUNNING, EVENT_COUNT));
}

/* Whatever happens, there is a way on from it, and nothing comes back from the dead. */
static void every_state_can_be_left(void) {
        for (unsigned s = 0; s < STATE_DELETED; s++) {
                bool left = false;

                for (unsigned e = 0; e < EVENT_COUNT; e++) {
                        enum state to;

                        left |= state_move((enum state)s, (enum event)e, &to) && to != (enum state)s;
                }
                CHECK(left);
        }
        for (unsigned e = 0; e < EVENT_COUNT; e++)
                CHECK(refused(STATE_DELETED, (enum event)e) || goes(STATE_DELETED, (enum event)e, STATE_DELETED));
}

static void names_are_read_back(void) {
        char text[160];

        for (unsigned i = 0; i < STATE_COUNT; i++) {
                enum state s;

                CHECK(state_parse(state_name((enum state)i), &s) && s == (enum state)i);
                CHECK(strlen(state_name((enum state)i)) < sizeof(((struct store_sandbox *)0)->state));
        }
        for (unsigned i = 0; i < REASON_COUNT; i++) {
                CHECK(reason_parse(reason_name((enum reason)i)) == (enum reason)i);
                CHECK(strlen(reason_name((enum reason)i)) < sizeof(((struct store_sandbox *)0)->reason));
        }
        CHECK_STR(state_allowed_text(STATE_QUARANTINED, text, sizeof text), "quarantine, delete");
        CHECK_STR(state_allowed_text(STATE_CREATING, text, sizeof text), "nothing");
}

/* --- operations --- */

static char order[32];
static struct ops queue;

struct probe {
        struct op op;
        char letter;
        bool at_once; /* ends as soon as it begins */
};

static void begin_probe(struct op *op) {
        struct probe *p = (struct probe *)(void *)op;

        order[strlen(order)] = p->letter;
        if (p->at_once && !op->light)
                op_done(&queue);
}

static void operations_wait_for_each_other(void) {
        struct probe a = {{.begin = begin_probe}, 'a', false}, b = {{.begin = begin_probe}, 'b', true},
                     c = {{.begin = begin_probe, .light = true}, 'c', false},
                     d = {{.begin = begin_probe, .light = true}, 'd', false}, e = {{.begin = begin_probe}, 'e', false};

        memset(order, 0, sizeof order);
        op_add(&queue, &a.op);
        op_add(&queue, &b.op);
        op_add(&queue, &c.op);
        op_add(&queue, &d.op);
        op_add(&queue, &e.op);
        CHECK_STR(order, "a");
        op_done(&queue); /* of a: b begins and ends, the light ones begin, and e is at work */
        CHECK_STR(order, "abcde");
        CHECK(!ops_idle(&queue));
        op_done(&queue);
        CHECK(ops_idle(&queue));
        op_add(&queue, &c.op); /* nobody is there: at once, and out of the way */
        CHECK_STR(order, "abcdec");
        CHECK(ops_idle(&queue));
}

/* --- tables --- */

static void tables_keep_things(void) {
        enum { MANY = 1000 };
        static struct table_node nodes[MANY];
        static char keys[MANY][16];
        struct table t = {0};
        size_t seen = 0;

        CHECK(!table_find(&t, "x") && !table_next(&t, NULL));
        for (unsigned i = 0; i < MANY; i++) {
                (void)snprintf(keys[i], sizeof keys[i], "key-%u", i);
                CHECK(table_add(&t, &nodes[i], keys[i]) == 0);
        }
        CHECK(table_add(&t, &(struct table_node){0}, "key-7") == -EEXIST);
        for (unsigned i = 0; i < MANY; i += 2)
                table_remove(&t, &nodes[i]);
        table_remove(&t, &nodes[0]); /* again */
        for (unsigned i = 0; i < MANY; i++)
                CHECK((table_find(&t, keys[i]) == &nodes[i]) == (i % 2 == 1));
        for (struct table_node *n = table_next(&t, NULL); n; n = table_next(&t, n))
                seen++;
        CHECK(seen == MANY / 2 && t.count == MANY / 2);
        table_free(&t);
}

/* --- admission --- */

static void admission_counts(void) {
        static struct core o;
        static struct registry registry;
        struct owner one = {.name = "uid:1"}, two = {.name = "uid:2"};
        struct frozen f = {.memory = 100, .cpus = 1000};
        struct sandbox a = {.o = &o, .owner = &one, .frozen = &f}, b = a, c = a;
        struct err err = {0};

        c.owner = &two;
        o.registry = &registry;
        o.conf.max_sandboxes = 3;
        o.conf.owner_sandboxes = 2;
        o.conf.owner_memory = 150;
        o.facts[WARDEN_FACT_MEMORY] = 1000;
        o.facts[WARDEN_FACT_CPUS] = 100;
        admission_open(&o);
        CHECK(admission_enter(&a, 0, &err) == 0);
        CHECK(admission_enter(&a, 0, &err) == 0 && one.used.memory == 100); /* once */
        CHECK(admission_enter(&b, 0, &err) == ERR_LIMIT && strstr(err.hint, "owner_memory"));
        CHECK(admission_enter(&c, 0, &err) == 0);
        CHECK(registry.used.sandboxes == 2 && registry.used.memory == 200);
        admission_leave(&a);
        admission_leave(&a);
        CHECK(one.used.memory == 0 && registry.used.memory == 100);
        CHECK(admission_enter(&b, 0, &err) == 0);
        f.memory = FROZEN_UNSET; /* no limit, no promise */
        registry.most.sandboxes = 2;
        CHECK(admission_enter(&a, 0, &err) == ERR_LIMIT && strstr(err.hint, "max_sandboxes"));
        registry.most.disk = 10;
        registry.most.sandboxes = 9;
        CHECK(admission_check(&o, &two, &(struct share){.disk = 11}, &err) == ERR_LIMIT &&
              strstr(err.hint, "max_disk"));
        CHECK(admission_check(&o, &two, &(struct share){.disk = 10}, &err) == 0);
        CHECK(admission_check(&o, &two, &(struct share){.disk = UINT64_MAX}, &err) == ERR_LIMIT);
}

TEST_MAIN(TEST(life_goes_its_way), TEST(asking_again_is_fine), TEST(the_rest_is_refused), TEST(every_state_can_be_left),
          TEST(names_are_read_back), TEST(operations_wait_for_each_other), TEST(tables_keep_things),
          TEST(admission_counts))
