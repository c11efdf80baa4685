/* `stockade ledger verify` and `checkpoints`: what holds, what does not, and how far that goes. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "ledger/tool.h"
#include "ledger/verify.h"

enum what { LEDGER, SEGMENT, EVIDENCE };

static int parse_expect(const struct tool_options *o, struct ledger_expect *ret, struct err *err) {
        uint8_t key[HASH_SIZE];

        if (o->expect) {
                const char *colon = strchr(o->expect, ':');
                char digits[24];

                if (colon)
                        (void)snprintf(digits, sizeof digits, "%.*s", (int)MIN(colon - o->expect, 23), o->expect);
                if (!colon || strlen(colon + 1) != LINE_HEX || !line_unhex(colon + 1, HASH_SIZE, ret->hash) ||
                    text_parse(digits, TEXT_COUNT, &ret->seq, NULL) < 0 || ret->seq == 0) {
                        (void)err_set(err, ERR_INPUT, "'%.100s' is not a position", o->expect);
                        return err_hint(err,
                                        "it is a number, a colon and 64 hexadecimal digits, as `verify` prints it");
                }
        }
        if (o->key) {
                if (strlen(o->key) != LINE_HEX || !line_unhex(o->key, HASH_SIZE, key)) {
                        (void)err_set(err, ERR_INPUT, "'%.100s' is not a fingerprint", o->key);
                        return err_hint(err, "it has 64 hexadecimal digits, as `verify` prints it");
                }
                (void)snprintf(ret->key, sizeof ret->key, "%s", o->key);
        }
        return 0;
}

/* --- saying it -------------------------------------------------------------------------------------------------- */

static void print_json(const struct ledger_verdict *v, enum what what, const char *name, bool holds) {
        static const char *const kinds[] = {[LEDGER] = "ledger", [SEGMENT] = "segment", [EVIDENCE] = "evidence"};
        _cleanup_buf_ struct buf out = {0};
        struct json j = {.out = &out};

        json_open(&j, NULL, '{');
        json_bool(&j, "holds", holds);
        json_str(&j, "what", kinds[what]);
        json_str(&j, "name", name);
        if (what == EVIDENCE) {
                json_str(&j, "sandbox", v->sandbox);
                json_u64(&j, "run", v->run);
        }
        json_u64(&j, "events", v->events);
        json_u64(&j, "first_seq", v->first_seq);
        json_u64(&j, "last_seq", v->last_seq);
        json_str(&j, "last_hash", v->last_hash);
        json_u64(&j, "checkpoints", v->checkpoints);
        json_u64(&j, "unsigned_events", v->unsigned_events);
        json_u64(&j, "bytes_beyond", v->beyond);
        json_str(&j, "key", v->key);
        if (v->broken_seq) {
                json_open(&j, "broken", '{');
                json_u64(&j, "seq", v->broken_seq);
                json_str(&j, "segment", v->segment);
                json_str(&j, "what", v->what);
                json_close(&j, '}');
        } else
                json_null(&j, "broken");
        json_close(&j, '}');
        (void)printf("%s\n", out.data ? out.data : "{}");
}

static void mark(enum tool_paint paint, const char *sign) {
        (void)printf("  %s%s%s ", tool_on(paint), sign, tool_off());
}

static void print_good(const struct ledger_verdict *v, enum what what) {
        char n[32], m[32];

        mark(TOOL_GREEN, "✓");
        if (what == EVIDENCE) {
                char run[40] = "";

                if (v->run)
                        (void)snprintf(run, sizeof run, "run %llu of ", (unsigned long long)v->run);
                (void)printf("%s events of %ssandbox %s; none was changed\n", tool_count(n, sizeof n, v->events), run,
                             v->sandbox);
        } else if (v->events > 0)
                (void)printf("%s event%s, %llu to %s: every hash and every link\n", tool_count(n, sizeof n, v->events),
                             v->events == 1 ? "" : "s", (unsigned long long)v->first_seq,
                             tool_count(m, sizeof m, v->last_seq));
        else
                (void)printf("no events yet\n");
        if (v->checkpoints > 0) {
                mark(TOOL_GREEN, "✓");
                (void)printf("%s checkpoint%s signed twice, by the keys with the fingerprint\n      %s\n",
                             tool_count(n, sizeof n, v->checkpoints), v->checkpoints == 1 ? "," : "s, each", v->key);
        }
        if (v->unsigned_events > 0) {
                mark(TOOL_YELLOW, "·");
                (void)printf(what == EVIDENCE
                                     ? "%s at the end %s under no signed checkpoint: pack it again when the daemon "
                                       "has written the next one\n"
                                     : "%s event%s behind the last checkpoint: chained, not signed yet\n",
                             tool_count(n, sizeof n, v->unsigned_events),
                             what == EVIDENCE          ? (v->unsigned_events == 1 ? "is" : "are")
                             : v->unsigned_events == 1 ? ""
                                                       : "s");
        }
        if (v->beyond > 0) {
                mark(TOOL_YELLOW, "·");
                (void)printf("%s bytes behind the last %s: being written, or left by a crash\n",
                             tool_count(n, sizeof n, v->beyond), what == LEDGER ? "durable event" : "whole line");
        }
        if (what == SEGMENT)
                (void)printf("    One segment alone: what was before and behind it is not known here.\n");
        if (what == LEDGER && v->events > 0)
                (void)printf("    position %llu:%s\n    Keep position and fingerprint elsewhere: --expect and --key "
                             "compare with "
                             "them.\n",
                             (unsigned long long)v->last_seq, v->last_hash);
}

static void print_broken(const struct ledger_verdict *v, enum what what) {
        char n[32], inert[400];

        text_escape(inert, sizeof inert, v->segment);
        (void)printf("  %sBROKEN%s at event %llu%s%s: ", tool_on(TOOL_RED), tool_off(),
                     (unsigned long long)v->broken_seq, inert[0] ? " in " : "", inert);
        text_escape(inert, sizeof inert, v->what);
        (void)printf("%s\n", inert);
        if (v->events > 0)
                (void)printf("    %s event%s before it hold%s%s.\n", tool_count(n, sizeof n, v->events),
                             v->events == 1 ? "" : "s", v->events == 1 ? "s" : "",
                             v->checkpoints > 0 ? ", as far as they are under a signed checkpoint also against forgery"
                                                : "");
        if (what == LEDGER)
                (void)printf("    Nothing from there on can be relied on. Keep a copy of the folder as it is.\n");
}

/* --- looking at it ---------------------------------------------------------------------------------------------- */

/* What is in a file that was named? Reads only its beginning. */
static int kind_of(int fd, const char *name, enum what *ret, struct err *err) {
        char text[64] = "";
        ssize_t n = pread(fd, text, sizeof text - 1, 0);

        if (n < 0)
                return err_set(err, -errno, "cannot read '%.200s'", name);
        const char *p = text + strspn(text, " \t\r\n{");
        if (str_starts(text, "{\"seq\":"))
                *ret = SEGMENT;
        else if (str_starts(p + strspn(p, " \t\r\n"), "\"stockade_evidence\""))
                *ret = EVIDENCE;
        else {
                (void)err_set(err, ERR_INPUT, "'%.200s' is neither a segment of a ledger nor evidence", name);
                return err_hint(
                        err, "name the ledger's folder, a file NUMBER.jsonl, or what `stockade ledger evidence` made");
        }
        return 0;
}

static int look_at_file(int fd, const char *name, const struct ledger_expect *x, enum what what,
                        struct ledger_verdict *v, struct err *err) {
        const char *slash = strrchr(name, '/');

        if (what == SEGMENT)
                return ledger_verify_segment(fd, slash ? slash + 1 : name, x, v, err);
        if (x->seq)
                return err_set(err, ERR_INPUT, "--expect is for ledgers and segments");
        int r = ledger_evidence_verify(fd, v, err);
        if (r == 0 && x->key[0] && !str_eq(x->key, v->key)) {
                v->broken_seq = v->first_seq;
                (void)snprintf(v->what, sizeof v->what, "it was signed with other keys than expected");
                r = err_set(err, ERR_CORRUPT, "%s", v->what);
        }
        return r;
}

int tool_verify(const struct tool_options *o, struct err *err) {
        struct ledger_expect x = {0};
        struct ledger_verdict v = {0};
        enum what what = LEDGER;
        char name[TOOL_NAME];
        struct stat st;
        _cleanup_fd_ int fd = -EBADF;

        int r = parse_expect(o, &x, err);
        if (r < 0)
                return r;
        if (o->place && stat(o->place, &st) == 0 && !S_ISDIR(st.st_mode)) {
                (void)snprintf(name, sizeof name, "%s", o->place);
                fd = open(o->place, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
                r = fd < 0 ? err_set(err, -errno, "cannot open '%.200s'", name) : kind_of(fd, name, &what, err);
                if (r == 0)
                        r = look_at_file(fd, name, &x, what, &v, err);
        } else {
                fd = tool_open(o, name, err);
                r = fd < 0 ? fd : ledger_verify_expect(fd, &x, &v, err);
        }
        if (r < 0 && v.broken_seq == 0)
                return r; /* it could not be looked at */
        bool holds = r == 0 && !(what == EVIDENCE && v.unsigned_events > 0);
        if (o->json)
                print_json(&v, what, name, holds);
        else {
                char inert[2 * TOOL_NAME];

                text_escape(inert, sizeof inert, name);
                (void)printf("%s\n", inert);
                if (r < 0)
                        print_broken(&v, what);
                else
                        print_good(&v, what);
        }
        return holds ? TOOL_GOOD : TOOL_BROKEN;
}

/* --- checkpoints ------------------------------------------------------------------------------------------------ */

struct listing {
        bool json, any;
        char key[LEDGER_KEY_TEXT];
};

static int each_checkpoint(void *data, const struct line *l, const struct chain *chain) {
        struct listing *list = data;
        struct checkpoint c;
        char root[HASH_TEXT_SIZE];

        if (chain->checkpoint != l->seq || checkpoint_read(l, &c) < 0)
                return 0;
        hash_text(c.root, root);
        keys_fingerprint(&c.keys, list->key);
        if (list->json) {
                (void)printf("%.*s\n", (int)l->size, l->text);
                return 0;
        }
        if (!list->any)
                (void)printf("%s%10s  %-19s  %21s  %s%s\n", tool_on(TOOL_DIM), "EVENT", "TIME (UTC)", "COVERS", "ROOT",
                             tool_off());
        list->any = true;
        (void)printf("%10llu  %.10s %.8s  %10llu-%-10llu  %.16s…\n", (unsigned long long)l->seq, l->time, l->time + 11,
                     (unsigned long long)c.from, (unsigned long long)c.to, root);
        return 0;
}

int tool_checkpoints(const struct tool_options *o, struct err *err) {
        struct listing list = {.json = o->json};
        struct ledger_verdict v = {0};
        char name[TOOL_NAME];
        _cleanup_fd_ int fd = tool_open(o, name, err);

        int r = fd < 0 ? fd : verify_walk(fd, NULL, each_checkpoint, &list, &v, err);
        if (r < 0 || o->json)
                return r;
        if (list.any)
                (void)printf("All signatures hold; the keys have the fingerprint %s\n", list.key);
        else
                (void)printf("no checkpoint yet\n");
        return TOOL_GOOD;
}
