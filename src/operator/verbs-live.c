/* Verbs for doors where each thing that is said is a request of its own: typing into a run, the size of its terminal, a
 * link that signs in. */
#include <stdio.h>

#include "operator/life.h"
#include "operator/run.h"
#include "operator/verbs.h"

static struct run *find_live(struct call *c) {
        struct run *r = run_find(c->sandbox, (uint32_t)call_number(c, "run", 0));

        if (r && r->phase == RUN_ASKED && c->sandbox->guest)
                return r;
        call_refuse_text(c, r ? "conflict" : "not_found", "'stockade runs' lists those that go on",
                         "run %llu does not run", (unsigned long long)call_number(c, "run", 0));
        return NULL;
}

/* As much of it as there is room for inside; whoever is told fewer bytes than he sent, sends the rest later. */
void verb_input(struct call *c) {
        struct run *r = find_live(c);
        _cleanup_free_ char *data = r ? call_strdup(c, "data") : NULL;
        _cleanup_buf_ struct buf b = {0};

        if (!r)
                return;
        if (!data || (!r->tty && !r->input)) {
                call_refuse_text(c, "conflict", "begin it with \"stdin\": true", "run %u takes no input", r->number);
                return;
        }
        size_t size = strlen(data);
        ssize_t n = guest_link_input(c->sandbox->guest, r->number, data, size);
        if (n < 0 || (n == 0 && size > 0)) {
                call_refuse_text(c, n < 0 ? "conflict" : "busy", n < 0 ? "look at its state" : "try again in a moment",
                                 n < 0 ? "run %u takes no input any more" : "run %u does not read what it got",
                                 r->number);
                return;
        }
        sandbox_touch(c->sandbox);
        buf_printf(&b, "{\"bytes\":%zd}", n);
        call_answer(c, &b);
}

void verb_resize(struct call *c) {
        struct run *r = find_live(c);
        struct buf nothing = {0};

        if (!r)
                return;
        struct guest_message m = {.kind = GUEST_RESIZE,
                                  .channel = r->number,
                                  .rows = (uint16_t)call_number(c, "rows", 24),
                                  .cols = (uint16_t)call_number(c, "cols", 80)};
        if (!r->tty)
                call_refuse_text(c, "conflict", "begin it with \"tty\": true", "run %u has no terminal", r->number);
        else if (guest_link_send(c->sandbox->guest, &m) < 0)
                call_refuse_text(c, "busy", "try again in a moment", "its guest does not answer now");
        else
                call_answer(c, &nothing);
}

/* For whoever asks on this host: a link that signs him in elsewhere, once. */
void verb_sign_in(struct call *c) {
        _cleanup_buf_ struct buf b = {0}, url = {0};
        struct json j = {.out = &b};
        struct err err = {0};
        bool all = call_bool(c, "operator"); /* a session that acts for all owners */
        char subject[STORE_OWNER + 8];

        if (all && !c->admin) {
                call_refuse_text(c, "refused", "ask root, or the user who runs the daemon",
                                 "only an administrator can have a link that acts for all");
                return;
        }
        (void)snprintf(subject, sizeof subject, "%s%s", all ? "admin/" : "", c->owner);
        if (!c->o->front || c->o->front->sign_in(c->o, subject, &url, &err) < 0) {
                call_refuse_text(c, "conflict", "set 'listen' in stockade.conf and look into the log",
                                 "the API is not open");
                return;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "url", url.data);
        json_close(&j, '}');
        call_answer(c, &b);
}
