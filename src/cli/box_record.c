/* The record of a run in a sandbox of the daemon: the keys of a record of ours, with what the daemon says of the run
 * and the refusals and limits that its ledger has. What it does not count is null, never zero. */
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "cli/box.h"
#include "cli/client.h"
#include "cli/tell.h"

enum { HITS_MAX = 16 };

/* What the ledger has of this sandbox. */
struct heard {
        char hits[HITS_MAX][48]; /* keys of limits, each once */
        size_t hit_count;
        uint64_t left_out;
        struct buf text; /* denials, as elements of an array */
        struct json denials;
};

static void add_hit(struct heard *h, const char *key) {
        for (size_t i = 0; i < h->hit_count; i++)
                if (str_eq(h->hits[i], key))
                        return;
        if (h->hit_count < HITS_MAX)
                (void)snprintf(h->hits[h->hit_count++], sizeof h->hits[0], "%s", key);
}

/* The profile key that a refusal of the gate's is about. */
static const char *rule_of(const char *reason) {
        static const char *const rows[][2] = {
                {"connections", "limits.connections"}, {"lookups", "limits.lookups"}, {"egress", "budget.egress"}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (str_eq(rows[i][0], reason))
                        return rows[i][1];
        return "network.allow";
}

static void add_denial(struct heard *h, const char *event, bool lookup) {
        char host[256] = "", reason[48] = "", what[320];
        uint64_t port = 0, count = 1;

        (void)json_find_str(event, "data.host", host, sizeof host);
        (void)json_find_str(event, "data.reason", reason, sizeof reason);
        (void)json_find_u64(event, "data.count", &count);
        if (json_find_u64(event, "data.port", &port))
                (void)snprintf(what, sizeof what, "%s %s:%llu", lookup ? "look up" : "connect", host,
                               (unsigned long long)port);
        else
                (void)snprintf(what, sizeof what, "%s %s", lookup ? "look up" : "connect", host);
        json_open(&h->denials, NULL, '{');
        json_str(&h->denials, "what", what);
        json_str(&h->denials, "rule", rule_of(reason));
        json_str(&h->denials, "reason", reason);
        json_str(&h->denials, "source", "gate");
        json_str(&h->denials, "text", what);
        json_u64(&h->denials, "count", count);
        json_close(&h->denials, '}');
}

static void on_event(void *data, const char *event) {
        struct heard *h = data;
        char kind[32] = "", key[48];

        (void)json_find_str(event, "kind", kind, sizeof kind);
        if ((str_eq(kind, "limit.hit") && json_find_str(event, "data.limit", key, sizeof key)) ||
            (str_eq(kind, "budget.hit") && json_find_str(event, "data.budget", key, sizeof key)))
                add_hit(h, key);
        if (!str_eq(kind, "net.deny") && !str_eq(kind, "dns.deny"))
                return;
        if (h->text.size > 1 << 20)
                h->left_out++;
        else
                add_denial(h, event, str_eq(kind, "dns.deny"));
}

static int listen_to(const char *sandbox, struct heard *h, struct err *err) {
        static const struct args_common common = {0};
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        const char *result;

        talk_begin(&q, "events");
        talk_str(&q, "sandbox", sandbox);
        int r = talk_go(&t, &common, &q, err);
        return r < 0 ? r : talk_wait(&t, &result, on_event, h, err);
}

/* How it ended, as a key of the profile; NULL: by itself. */
static const char *limit_of(const char *reason) {
        static const char *const rows[][2] = {{"timeout", "time.run"},
                                              {"oom", "limits.memory"},
                                              {"output_limit", "limits.output"},
                                              {"budget", "budget.cpu"},
                                              {"disk_full", "files.write"}};

        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                if (str_eq(rows[i][0], reason))
                        return rows[i][1];
        return NULL;
}

static void put_usage(struct json *j, const char *run) {
        uint64_t start = tell_number(run, "started_ms"), end = tell_number(run, "ended_ms");
        uint64_t out = tell_number(run, "out_bytes"), errors = tell_number(run, "err_bytes");

        json_open(j, "usage", '{');
        json_u64(j, "wall_us", end >= start ? (end - start) * 1000 : 0);
        json_u64_or_null(j, "cpu_us", tell_number(run, "cpu_us"));
        json_u64_or_null(j, "memory_peak", tell_number(run, "memory_peak"));
        json_null(j, "processes_peak");
        json_u64(j, "output_bytes", out + errors);
        json_close(j, '}');
}

/* The whole sandbox from its start, as the host counts: a run's own numbers are its guest's word where it has a kernel
 * of its own. */
static void put_box(struct json *j, const char *shown) {
        uint64_t start = tell_number(shown, "created_ms"), now = tell_now(); /* its start is counted, too */

        json_open(j, "box", '{');
        json_u64(j, "wall_us", now > start ? (now - start) * 1000 : 0);
        json_u64_or_null(j, "cpu_us", tell_number(shown, "usage.cpu_us"));
        json_u64_or_null(j, "memory_peak", tell_number(shown, "usage.memory_peak"));
        json_close(j, '}');
}

static void put_heard(struct json *j, const struct heard *h) {
        json_open(j, "limits_hit", '[');
        for (size_t i = 0; i < h->hit_count; i++)
                json_str(j, NULL, h->hits[i]);
        json_close(j, ']');
        json_open(j, "denials", '[');
        if (h->text.data)
                buf_add(j->out, h->text.data, h->text.size);
        json_close(j, ']');
        json_u64(j, "denials_left_out", h->left_out);
        json_open(j, "denial_sources", '{');
        json_str(j, "limits", "the daemon's ledger");
        json_str(j, "exec", "none");
        json_str(j, "files", "none");
        json_str(j, "network", "gate");
        json_close(j, '}');
}

static void put_run(struct json *j, const struct run_options *o, const char *shown, const char *run, int status) {
        char text[128];
        uint64_t number;
        bool on_disk = false;

        json_u64(j, "record", 1);
        json_str(j, "id", tell_text(text, sizeof text, shown, "id"));
        json_open(j, "argv", '[');
        for (char **a = o->argv; *a; a++)
                json_str(j, NULL, *a);
        json_close(j, ']');
        json_str(j, "profile", tell_text(text, sizeof text, shown, "profile"));
        json_str(j, "driver", tell_text(text, sizeof text, shown, "driver"));
        record_time(j, "start", tell_number(run, "started_ms"));
        record_time(j, "end", tell_number(run, "ended_ms"));
        json_str(j, "reason", tell_text(text, sizeof text, run, "reason"));
        json_i64(j, "status", status);
        bool by_signal = json_find_u64(run, "signal", &number) && number > 0;
        json_u64_or_null(j, "exit_code", by_signal ? UINT64_MAX : tell_number(run, "exit_code"));
        json_u64_or_null(j, "signal", by_signal ? number : UINT64_MAX);
        (void)json_find_bool(shown, "persistent", &on_disk);
        json_str(j, "workspace", on_disk ? "disk" : "memory");
        put_usage(j, run);
        put_box(j, shown);
}

static int make(const struct run_options *o, const char *sandbox, int status, struct heard *h, struct buf *out,
                struct err *err) {
        static const struct args_common common = {0};
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct json j = {.out = out};
        const char *shown;
        char reason[32];

        talk_begin(&q, "show"); /* first: it asks the kernel, and what that counted is in the ledger then */
        talk_str(&q, "sandbox", sandbox);
        int r = talk_ask(&t, &common, &q, &shown, err);
        if (r == 0)
                r = listen_to(sandbox, h, err);
        if (r < 0)
                return r;
        const char *run = json_at(shown, "runs.0", NULL);
        if (!run)
                return err_set(err, ERR_CORRUPT, "the daemon knows of no run");
        if (json_find_str(run, "reason", reason, sizeof reason) && limit_of(reason))
                add_hit(h, limit_of(reason));
        json_open(&j, NULL, '{');
        put_run(&j, o, shown, run, status);
        put_heard(&j, h);
        json_close(&j, '}');
        buf_str(out, "\n");
        return buf_ok(out) ? 0 : err_set(err, ERR_LIMIT, "the record is too large");
}

int box_record(const struct run_options *o, const char *sandbox, int status, int fd, struct err *err) {
        _cleanup_buf_ struct buf out = {0};
        struct heard h = {0};

        h.denials.out = &h.text;
        int r = make(o, sandbox, status, &h, &out, err);
        if (r == 0 && o->json)
                (void)fd_write_full(STDERR_FILENO, out.data, out.size);
        if (r == 0 && fd >= 0)
                r = fd_write_full(fd, out.data, out.size);
        buf_free(&h.text);
        return r < 0 ? err_prefix(err, r, "the record of this run cannot be made") : 0;
}
