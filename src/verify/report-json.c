/* The report for programs: one JSON object on one line, without its end, that has everything the other two show.
 *
 * Fields are only ever added; "report" counts the versions in which one changed its meaning. Text that came out of a
 * sandbox is made inert first, as in the other reports: what is read here is what is seen there. */
#include <ctype.h>

#include "base/json.h"
#include "verify/report-words.h"

static void put_inert(struct json *w, const char *key, const char *value) {
        _cleanup_free_ char *inert = report_inert(value);

        if (!inert)
                w->out->failed = true;
        json_str(w, key, inert);
}

/* "" means that there is nothing to say. */
static void put_some(struct json *w, const char *key, const char *value) {
        if (value && value[0])
                put_inert(w, key, value);
        else
                json_null(w, key);
}

static void put_lines(struct json *w, const char *key, const char *value) {
        _cleanup_free_ char *inert = report_inert_lines(value);

        if (!inert)
                w->out->failed = true;
        json_str(w, key, value[0] ? inert : NULL);
}

/* A value that is JSON already, and pure ASCII. */
static void put_value(struct json *w, const char *key, const char *text) {
        if (!record_good(text)) {
                json_null(w, key);
                return;
        }
        if (w->comma)
                buf_str(w->out, ",");
        buf_printf(w->out, "\"%s\":", key);
        record_ascii(text, w->out);
        w->comma = true;
}

static void put_words(struct json *w, const char *key, const char *words) {
        json_open(w, key, '[');
        for (const char *p = words ? words : ""; *p;) {
                char word[32];
                size_t n = strcspn(p, " ");

                (void)snprintf(word, sizeof word, "%.*s", (int)MIN(n, sizeof word - 1), p);
                if (n > 0)
                        json_str(w, NULL, word);
                p += n + (p[n] == ' ');
        }
        json_close(w, ']');
}

static void put_tally(struct json *w, const struct judge *j, enum group g) {
        struct report_count n;

        report_count(j, g, &n);
        json_open(w, "tally", '{');
        json_u64(w, "checks", n.checks);
        json_u64(w, "promised", n.promised);
        json_u64(w, "otherwise", n.otherwise);
        json_u64(w, "open", n.open);
        json_u64(w, "untried", n.untried);
        json_u64(w, "permitted", n.permitted);
        json_u64(w, "inapplicable", n.inapplicable);
        json_u64(w, "witnessed", n.witnessed);
        json_u64(w, "control_shown", n.shown);
        json_u64(w, "control_failed", n.unshown);
        json_close(w, '}');
}

static void put_check(struct json *w, const struct check *c, const struct finding *f) {
        char mechanism[512];

        json_open(w, NULL, '{');
        json_str(w, "name", c->name);
        json_str(w, "group", check_group_names[c->group]);
        json_str(w, "does", c->does);
        json_open(w, "layers", '[');
        for (enum layer l = 0; l < LAYER_COUNT; l++)
                if (c->layers & 1u << l)
                        json_str(w, NULL, check_layer_names[l]);
        json_close(w, ']');
        json_str(w, "mechanism", check_mechanism(c, mechanism, sizeof mechanism));
        put_words(w, "errors", c->errors);
        json_str(w, "verdict", check_verdict_names[report_verdict(f)]);
        json_str(w, "verdict_words", check_verdict_words[report_verdict(f)]);
        put_some(w, "errno", f->error);
        json_bool(w, "witnessed", f->witnessed);
        put_some(w, "said", f->said);
        put_lines(w, "seen", f->seen);
        put_some(w, "why", report_why(f));
        json_open(w, "control", '{');
        json_str(w, "kind", report_control_names[c->control]);
        json_str(w, "words", report_control_words[c->control]);
        json_str(w, "shown", report_shown_names[f->control]);
        put_some(w, "said", f->control_said);
        json_str(w, "note", c->note);
        json_close(w, '}');
        json_u64(w, "ms", f->ms);
        json_close(w, '}');
}

static void put_groups(struct json *w, const struct judge *j) {
        json_open(w, "groups", '[');
        for (enum group g = 0; g < GROUP_COUNT; g++) {
                json_open(w, NULL, '{');
                json_str(w, "name", check_group_names[g]);
                json_str(w, "title", check_group_titles[g]);
                put_tally(w, j, g);
                json_open(w, "checks", '[');
                for (size_t i = 0; i < j->count; i++)
                        if (j->chosen[i] && check_at(i)->group == g)
                                put_check(w, check_at(i), &j->findings[i]);
                json_close(w, ']');
                json_close(w, '}');
        }
        json_close(w, ']');
}

static void put_limits(struct json *w, const struct judge *j) {
        json_open(w, "limits_confirmed", '[');
        for (size_t i = 0; i < j->count; i++)
                if (j->chosen[i] && report_is_limit(check_at(i)) && j->findings[i].verdict == VERDICT_PROMISED)
                        json_str(w, NULL, check_at(i)->name);
        json_close(w, ']');
}

static void put_record(struct json *w, const char *key, const struct judge_record *r) {
        if (!r->text) {
                json_null(w, key);
                return;
        }
        json_open(w, key, '{');
        put_some(w, "path", r->path);
        put_value(w, "record", r->text);
        json_close(w, '}');
}

static void put_state(struct json *w, const struct judge *j) {
        if (!report_has_state(j)) {
                json_null(w, "host_state");
                return;
        }
        json_open(w, "host_state", '{');
        json_bool(w, "same", digest_same(&j->before, &j->after));
        json_open(w, "parts", '[');
        for (enum digest_part p = 0; p < DIGEST_COUNT; p++) {
                json_open(w, NULL, '{');
                json_str(w, "name", digest_names[p]);
                json_str(w, "before", j->before.hash[p]);
                json_str(w, "after", j->after.hash[p]);
                json_close(w, '}');
        }
        json_close(w, ']');
        _cleanup_buf_ struct buf lines = {0};
        size_t count = digest_difference(&j->before, &j->after, &lines);
        json_u64(w, "difference_lines", count);
        json_open(w, "differences", '[');
        for (char *line = lines.data; line && *line;) {
                char *end = strchrnul(line, '\n');
                bool more = *end == '\n';

                *end = '\0';
                put_inert(w, NULL, line);
                line = more ? end + 1 : end;
        }
        json_close(w, ']');
        json_close(w, '}');
}

/* Those with this verdict, each with its reason. */
static void put_reasons(struct json *w, const struct judge *j, enum verdict v) {
        json_open(w, check_verdict_names[v], '[');
        for (size_t i = 0; i < j->count; i++)
                if (j->chosen[i] && report_verdict(&j->findings[i]) == v) {
                        json_open(w, NULL, '{');
                        json_str(w, "name", check_at(i)->name);
                        put_inert(w, "why", report_why(&j->findings[i]));
                        json_close(w, '}');
                }
        json_close(w, ']');
}

static void put_untested(struct json *w, const struct judge *j) {
        const char *what, *why;

        json_open(w, "not_tested", '{');
        put_reasons(w, j, VERDICT_UNTRIED);
        put_reasons(w, j, VERDICT_INAPPLICABLE);
        json_str(w, "left_out_because", report_left_out(j));
        json_open(w, "left_out", '[');
        for (size_t i = 0; i < j->count; i++)
                if (!j->chosen[i])
                        json_str(w, NULL, check_at(i)->name);
        json_close(w, ']');
        json_open(w, "beyond", '[');
        for (size_t i = 0; report_beyond(j, i, &what, &why); i++) {
                json_open(w, NULL, '{');
                json_str(w, "what", what);
                json_str(w, "why", why);
                json_close(w, '}');
        }
        json_close(w, ']');
        json_close(w, '}');
}

static void put_host(struct json *w, const struct judge *j) {
        json_open(w, "host", '{');
        for (size_t i = 0; i < ELEMENTSOF(j->host) && j->host[i].name[0]; i++) {
                char key[sizeof j->host[i].name];

                (void)snprintf(key, sizeof key, "%s", j->host[i].name);
                for (char *p = key; *p; p++)
                        *p = *p == ' ' ? '_' : (char)tolower((unsigned char)*p);
                put_inert(w, key, j->host[i].value);
        }
        json_close(w, '}');
}

static void put_judged(struct json *w, const struct judge *j) {
        const struct judge_options *o = &j->options;
        _cleanup_buf_ struct buf command = {0};

        put_some(w, "driver", o->driver);
        json_open(w, "profile", '{');
        put_inert(w, "name", j->profile.name);
        put_some(w, "hash", j->profile.hash);
        json_bool(w, "exec_list", j->profile.exec_list);
        json_bool(w, "shows_host", j->profile.shows_host);
        json_bool(w, "network", j->profile.network);
        put_some(w, "workspace", j->profile.workspace);
        json_close(w, '}');
        json_str(w, "caller", j->uid == 0 ? "root" : "rootless");
        json_u64(w, "uid", j->uid);
        put_some(w, "against", o->against);
        put_some(w, "probe_at", o->probe_at);
        json_bool(w, "quick", o->quick);
        json_bool(w, "self_test", o->fast);
        put_some(w, "only", o->only);
        report_command(j, &command);
        put_inert(w, "command", command.data ? command.data : "");
        put_inert(w, "launcher", j->launcher);
        put_inert(w, "probe", j->probe);
        put_some(w, "probe_inside", o->against ? o->probe_at : LAUNCH_PROBE);
        put_host(w, j);
}

void report_json(const struct judge *j, struct buf *out) {
        struct json w = {.out = out};
        char text[REPORT_BIG];

        if (out->max == 0)
                out->max = REPORT_MAX;
        json_open(&w, NULL, '{');
        json_u64(&w, "report", 1);
        json_str(&w, "stockade", STOCKADE_VERSION);
        json_str(&w, "start", j->start);
        json_u64(&w, "wall_ms", j->wall_ms);
        json_str(&w, "headline", report_headline(j, text, sizeof text));
        json_str(&w, "summary", report_summary(j, text, sizeof text));
        json_bool(&w, "good", judge_good(j));
        put_judged(&w, j);
        put_tally(&w, j, GROUP_COUNT);
        put_groups(&w, j);
        put_limits(&w, j);
        json_open(&w, "records", '{');
        put_some(&w, "folder", j->folder);
        put_some(&w, "page", j->options.report);
        put_record(&w, "allowed", &j->allowed);
        put_record(&w, "blocked", &j->blocked);
        json_close(&w, '}');
        put_state(&w, j);
        put_untested(&w, j);
        json_close(&w, '}');
}
