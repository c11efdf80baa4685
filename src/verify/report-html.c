/* The report as one page that a person likes to read, keeps, prints or sends on.
 *
 * Nothing is loaded from anywhere and nothing in it runs: a policy in its head says so too. Everything that is not a
 * word of this file passes through put(), which makes it inert and escapes it; a hostile name is shown, never obeyed.
 */
#include "verify/report-style.h"
#include "verify/report-words.h"

static void put_escaped(struct buf *o, const char *s) {
        for (; *s; s++)
                switch (*s) {
                case '&':
                        buf_str(o, "&amp;");
                        break;
                case '<':
                        buf_str(o, "&lt;");
                        break;
                case '>':
                        buf_str(o, "&gt;");
                        break;
                case '"':
                        buf_str(o, "&quot;");
                        break;
                case '\'':
                        buf_str(o, "&#39;");
                        break;
                default:
                        buf_add(o, s, 1);
                }
}

static void put(struct buf *o, const char *s) {
        _cleanup_free_ char *inert = report_inert(s);

        if (inert)
                put_escaped(o, inert);
        else
                o->failed = true;
}

/* Text of several lines, each made inert by itself. */
static void put_lines(struct buf *o, const char *text) {
        _cleanup_free_ char *inert = report_inert_lines(text ? text : "");

        if (inert)
                put_escaped(o, inert);
        else
                o->failed = true;
}

/* <before>text<after> */
static void put_in(struct buf *o, const char *before, const char *text, const char *after) {
        buf_str(o, before);
        put(o, text);
        buf_str(o, after);
}

/* A row of a list of facts; nothing where there is nothing to say. */
static void put_fact(struct buf *o, const char *name, const char *value) {
        if (!value || !value[0])
                return;
        put_in(o, "<div><dt>", name, "</dt>");
        put_in(o, "<dd>", value, "</dd></div>\n");
}

static const char *const verdict_marks[] = {
        [VERDICT_PENDING] = "–", [VERDICT_PROMISED] = "✓",  [VERDICT_OTHERWISE] = "◇",    [VERDICT_OPEN] = "✗",
        [VERDICT_UNTRIED] = "–", [VERDICT_PERMITTED] = "○", [VERDICT_INAPPLICABLE] = "·",
};

static void put_tag(struct buf *o, enum verdict v) {
        buf_printf(o, "<span class=\"tag %s\">%s ", check_verdict_names[v], verdict_marks[v]);
        put_in(o, "", check_verdict_words[v], "</span>");
}

static void put_bar(struct buf *o, const struct report_count *n) {
        const struct {
                enum verdict verdict;
                unsigned count;
        } parts[] = {{VERDICT_OPEN, n->open},           {VERDICT_PROMISED, n->promised},
                     {VERDICT_OTHERWISE, n->otherwise}, {VERDICT_UNTRIED, n->untried},
                     {VERDICT_PERMITTED, n->permitted}, {VERDICT_INAPPLICABLE, n->inapplicable}};

        buf_str(o, "<div class=\"bar\" aria-hidden=\"true\">");
        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (parts[i].count > 0 && parts[i].verdict != VERDICT_PERMITTED &&
                    parts[i].verdict != VERDICT_INAPPLICABLE)
                        buf_printf(o, "<i class=\"%s\" style=\"flex:%u\"></i>", check_verdict_names[parts[i].verdict],
                                   parts[i].count);
        buf_str(o, "</div>\n<ul class=\"keys\">");
        for (size_t i = 0; i < ELEMENTSOF(parts); i++)
                if (parts[i].count > 0 || parts[i].verdict == VERDICT_OPEN) {
                        buf_printf(o, "<li%s><b>%u</b> ", parts[i].count ? "" : " class=\"zero\"", parts[i].count);
                        put_tag(o, parts[i].verdict);
                        buf_str(o, "</li>");
                }
        buf_str(o, "</ul>\n");
}

/* What the sentence in large letters means, for somebody who does not do this for a living. */
static void put_lead(struct buf *o, const struct judge *j, const struct report_count *n) {
        buf_str(o, "<p class=\"lead\">");
        if (n->open > 0)
                buf_str(o, "What is marked OPEN below worked from inside the sandbox: do not rely on it for code that "
                           "you do not trust until that is closed. ");
        else if (judge_good(j))
                buf_str(o, "A program that means harm was started inside, tried to get out or to use the machine up, "
                           "and was refused each time. ");
        buf_printf(
                o,
                "The judge stood outside: canaries, listeners, limits, records and the state of the host are what the "
                "host saw itself, and %u answers to system calls were read from the kernel; the rest is what the probe "
                "reports of answers that only show inside.",
                n->witnessed);
        if (n->untried > 0)
                buf_printf(o, " %u attempt%s could not be made here, and the page says why.", n->untried,
                           n->untried == 1 ? "" : "s");
        buf_str(o, "</p>\n");
}

/* 2026-01-31T23:59:59Z as 2026-01-31 23:59:59 UTC */
static void put_date(struct buf *o, const char *start) {
        if (strlen(start) == 20 && start[10] == 'T' && start[19] == 'Z') {
                char date[32];

                (void)snprintf(date, sizeof date, "%.10s %.8s UTC", start, start + 11);
                put(o, date);
        } else
                put(o, start);
}

static void put_head(struct buf *o, const struct judge *j) {
        struct report_count n;
        char text[REPORT_BIG], duration[32];

        report_count(j, GROUP_COUNT, &n);
        buf_str(o, "<header>\n<p class=\"over\">stockade verify · ");
        put_date(o, j->start);
        buf_str(o, " · took ");
        put_in(o, "", report_duration(j->wall_ms, duration, sizeof duration), "</p>\n");
        buf_printf(o, "<h1%s>", n.open ? " class=\"bad\"" : "");
        put_in(o, "", report_headline(j, text, sizeof text), "</h1>\n");
        put_lead(o, j, &n);
        put_bar(o, &n);
        buf_str(o, "</header>\n<nav aria-label=\"Sections\">");
        for (enum group g = 0; g < GROUP_COUNT; g++) {
                struct report_count of;

                report_count(j, g, &of);
                if (of.checks + of.permitted > 0)
                        buf_printf(o, "<a href=\"#%s\">%s</a>", check_group_names[g], check_group_titles[g]);
        }
        buf_str(o, "<a href=\"#limits\">Limits</a><a href=\"#records\">Records</a><a href=\"#host\">Host state</a>"
                   "<a href=\"#untested\">Not tested</a><a href=\"#repeat\">Repeat it</a></nav>\n");
}

/* Facts of the host: those about our own programs, which are hashes, or the others. */
static void put_host(struct buf *o, const struct judge *j, bool programs) {
        for (size_t i = 0; i < ELEMENTSOF(j->host) && j->host[i].name[0]; i++)
                if (str_starts(j->host[i].name, "stockade") == programs)
                        put_fact(o, j->host[i].name, j->host[i].value);
}

static void put_judged(struct buf *o, const struct judge *j) {
        char caller[64];

        buf_str(o, "<section>\n<h2>What was judged</h2>\n<dl class=\"facts\">\n");
        put_fact(o, "sandbox", j->options.against ? j->options.against : "Stockade " STOCKADE_VERSION);
        if (!j->options.against) {
                put_fact(o, "driver", j->options.driver);
                put_fact(o, "profile", j->profile.name);
                put_fact(o, "hash of the profile", j->profile.hash);
                put_fact(o, "launcher", j->launcher);
        }
        put_fact(o, "started by", report_caller(j, caller, sizeof caller));
        put_fact(o, "judge", "Stockade " STOCKADE_VERSION);
        put_fact(o, "attacker", j->probe);
        put_fact(o, "attacker inside", j->options.against ? j->options.probe_at : LAUNCH_PROBE);
        buf_str(o, "</dl>\n<h3>On this host</h3>\n<dl class=\"facts two\">\n");
        put_host(o, j, false);
        buf_str(o, "</dl>\n<details><summary>Hashes of the programs</summary>\n<dl class=\"facts\">\n");
        put_host(o, j, true);
        buf_str(o, "</dl></details>\n</section>\n");
}

static void put_control(struct buf *o, const struct check *c, const struct finding *f) {
        buf_str(o, "<div><dt>where it works</dt><dd>");
        switch (f->control) {
        case SHOWN_YES:
                put_in(o, "It works ", report_control_words[c->control], "");
                break;
        case SHOWN_ELSEWHERE:
                put_in(o, "It is shown ", report_control_words[c->control], "");
                break;
        case SHOWN_NO:
                put_in(o, "<span class=\"warn\">It did not work either ", report_control_words[c->control],
                       "</span>, so this refusal says less than it should");
                break;
        case SHOWN_NOT:
        default:
                if (c->control == CONTROL_NONE || c->control == CONTROL_OTHER)
                        put_in(o, "It works ", report_control_words[c->control], "");
                else
                        put_in(o, "Not shown in this report; it would work ", report_control_words[c->control], "");
        }
        if (c->note)
                put_in(o, ": ", c->note, "");
        buf_str(o, ".");
        if (f->control_said[0])
                put_in(o, " <code>", f->control_said, "</code>");
        buf_str(o, "</dd></div>\n");
}

static void put_proof(struct buf *o, const struct check *c, const struct finding *f) {
        enum verdict v = report_verdict(f);
        char took[32];

        buf_str(o, "<dl class=\"proof\">\n");
        if (v == VERDICT_UNTRIED || v == VERDICT_OTHERWISE || f->why[0])
                put_fact(o, "why", report_why(f));
        if ((v != VERDICT_UNTRIED && v != VERDICT_INAPPLICABLE) || f->seen[0]) {
                buf_str(o, "<div><dt>the host saw</dt><dd class=\"lines\">");
                put_lines(o, f->seen[0] ? f->seen : "nothing: no trace of it outside");
                buf_str(o, "</dd></div>\n");
        }
        if (f->said[0])
                put_in(o, "<div><dt>the attacker said</dt><dd><code>", f->said, "</code></dd></div>\n");
        if (f->error[0]) {
                put_in(o, "<div><dt>refused with</dt><dd><code>", f->error, "</code>, ");
                buf_str(o, f->witnessed ? "read from the kernel by the judge" : "as the attacker says");
                buf_str(o, "</dd></div>\n");
        }
        if (c->errors)
                put_fact(o, "expected", c->errors);
        put_control(o, c, f);
        if (f->ms > 0)
                put_fact(o, "took", report_duration(f->ms, took, sizeof took));
        buf_str(o, "</dl>\n");
}

static void put_check(struct buf *o, const struct check *c, const struct finding *f) {
        enum verdict v = report_verdict(f);
        char mechanism[512];

        buf_printf(o, "<tr class=\"is-%s\"><td><details%s><summary>", check_verdict_names[v],
                   v == VERDICT_OPEN ? " open" : "");
        put_in(o, "<span class=\"name\">", c->name, "</span> ");
        put_in(o, "<span class=\"does\">", c->does, "</span></summary>\n");
        put_proof(o, c, f);
        put_in(o, "</details></td><td data-is=\"must be stopped by:\">",
               check_mechanism(c, mechanism, sizeof mechanism), "</td><td>");
        put_tag(o, v);
        buf_str(o, "</td><td>");
        if (f->error[0])
                put_in(o, "<code>", f->error, "</code>");
        buf_str(o, "</td></tr>\n");
}

static void put_group(struct buf *o, const struct judge *j, enum group g) {
        static const enum verdict order[] = {VERDICT_OPEN,     VERDICT_OTHERWISE, VERDICT_UNTRIED,
                                             VERDICT_PROMISED, VERDICT_PERMITTED, VERDICT_INAPPLICABLE};
        struct report_count n;

        report_count(j, g, &n);
        if (n.checks + n.permitted + n.inapplicable == 0)
                return;
        buf_printf(o, "<section>\n<h2 id=\"%s\">", check_group_names[g]);
        put_in(o, "", check_group_titles[g], "</h2>\n");
        buf_printf(o, "<p class=\"soft\">%u of %u refused", n.promised + n.otherwise, n.checks);
        if (n.open)
                buf_printf(o, ", <span class=\"warn\">%u OPEN</span>", n.open);
        if (n.untried)
                buf_printf(o, ", %u could not be tried", n.untried);
        if (n.permitted)
                buf_printf(o, ", %u permitted by the profile", n.permitted);
        if (n.inapplicable)
                buf_printf(o, ", %u not applicable", n.inapplicable);
        buf_printf(o,
                   ". The judge read %u of the answers from the kernel itself; for %u the same attempt was seen to "
                   "work where it may.</p>\n",
                   n.witnessed, n.shown);
        buf_str(o,
                "<table class=\"checks\"><thead><tr><th scope=\"col\">What was tried</th><th scope=\"col\">What must "
                "stop it</th><th scope=\"col\">Verdict</th><th scope=\"col\">Answer</th></tr></thead><tbody>\n");
        for (size_t k = 0; k < ELEMENTSOF(order); k++)
                for (size_t i = 0; i < j->count; i++)
                        if (j->chosen[i] && check_at(i)->group == g && report_verdict(&j->findings[i]) == order[k])
                                put_check(o, check_at(i), &j->findings[i]);
        buf_str(o, "</tbody></table>\n</section>\n");
}

static void put_limits(struct buf *o, const struct judge *j) {
        size_t count = 0;

        buf_str(o, "<section>\n<h2 id=\"limits\">Limits that were confirmed</h2>\n");
        for (size_t i = 0; i < j->count; i++) {
                const struct check *c = check_at(i);
                const struct finding *f = &j->findings[i];

                if (!j->chosen[i] || !report_is_limit(c) || f->verdict != VERDICT_PROMISED)
                        continue;
                if (count++ == 0)
                        buf_str(o, "<p class=\"soft\">Each was set small and tried, and it ended as it should."
                                   "</p>\n<ul class=\"list\">\n");
                put_in(o, "<li class=\"lines\"><b>", c->does, "</b>");
                put_lines(o, f->seen);
                buf_str(o, "</li>\n");
        }
        buf_str(o, count ? "</ul>\n</section>\n"
                         : "<p>None: this report made no check of that kind that ended as promised.</p>\n</section>\n");
}

static void put_record(struct buf *o, const char *title, const struct judge_record *r) {
        char sentence[REPORT_BIG];

        put_in(o, "<div class=\"card\"><h3>", title, "</h3>\n");
        if (!record_good(r->text)) {
                buf_str(o, "<p>There is no such record in this report.</p></div>\n");
                return;
        }
        put_in(o, "<p><code>", record_sentence(r->text, sentence, sizeof sentence), "</code></p>\n");
        if (r->path[0])
                put_in(o, "<p class=\"soft\">Kept as <code>", r->path, "</code></p>\n");
        _cleanup_buf_ struct buf pretty = {.max = REPORT_MAX};
        record_pretty(r->text, &pretty);
        buf_str(o, "<details><summary>The whole record</summary>\n<pre>");
        if (buf_ok(&pretty))
                put_lines(o, pretty.data);
        buf_str(o, "</pre></details></div>\n");
}

static void put_records(struct buf *o, const struct judge *j) {
        buf_str(o,
                "<section>\n<h2 id=\"records\">Two runs to look at</h2>\n<p class=\"soft\">Every run leaves a record. "
                "These two were made for this report, with the attacker in the place of <code>" LAUNCH_PROBE
                "</code>.</p>\n");
        put_record(o, "One that worked", &j->allowed);
        put_record(o, "One that was stopped", &j->blocked);
        if (j->folder[0])
                put_in(o, "<p class=\"soft\">They are kept with this report in <code>", j->folder, "</code>.</p>\n");
        else
                buf_str(o, "<p class=\"soft\">Nothing was kept on disk: there was no folder to keep it in.</p>\n");
        buf_str(o, "</section>\n");
}

/* Its beginning to compare by eye, the whole for whoever points at it. */
static void put_hash(struct buf *o, const char *hash) {
        char begin[13];

        (void)snprintf(begin, sizeof begin, "%.12s", hash);
        put_in(o, "<td><code title=\"", hash, "\">");
        put_in(o, "", begin, "</code></td>");
}

static void put_state(struct buf *o, const struct judge *j) {
        buf_str(o, "<section>\n<h2 id=\"host\">The host before and after</h2>\n");
        if (!report_has_state(j)) {
                buf_str(o, "<p>It was not compared in this report.</p>\n</section>\n");
                return;
        }
        buf_str(o, digest_same(&j->before, &j->after) ? "<p>Nothing changed and nothing was left behind.</p>\n"
                                                      : "<p class=\"warn\">The host is not as it was before.</p>\n");
        buf_str(o, "<table class=\"state\"><thead><tr><th scope=\"col\">Part</th><th scope=\"col\">Before</th><th "
                   "scope=\"col\">After</th><th scope=\"col\"></th></tr></thead><tbody>\n");
        for (enum digest_part p = 0; p < DIGEST_COUNT; p++) {
                bool same = str_eq(j->before.hash[p], j->after.hash[p]);

                put_in(o, "<tr><td>", digest_names[p], "</td>");
                put_hash(o, j->before.hash[p]);
                put_hash(o, j->after.hash[p]);
                buf_printf(o, "<td>%s</td></tr>\n", same ? "the same" : "<span class=\"warn\">changed</span>");
        }
        buf_str(o, "</tbody></table>\n");
        if (!digest_same(&j->before, &j->after)) {
                _cleanup_buf_ struct buf lines = {0};

                (void)digest_difference(&j->before, &j->after, &lines);
                buf_str(o, "<pre>");
                put_lines(o, lines.data);
                buf_str(o, "</pre>\n");
        }
        buf_str(o, "</section>\n");
}

/* Those with this verdict, each with its reason, below a title. */
static void put_reasons(struct buf *o, const struct judge *j, enum verdict v, const char *title) {
        size_t count = 0;

        for (size_t i = 0; i < j->count; i++) {
                if (!j->chosen[i] || report_verdict(&j->findings[i]) != v)
                        continue;
                if (count++ == 0)
                        put_in(o, "<h3>", title, "</h3>\n<ul class=\"list\">\n");
                put_in(o, "<li><b>", check_at(i)->does, "</b>");
                put_in(o, "", report_why(&j->findings[i]), " ");
                put_in(o, "<span class=\"soft\">(", check_at(i)->name, ")</span></li>\n");
        }
        if (count)
                buf_str(o, "</ul>\n");
}

static void put_untested(struct buf *o, const struct judge *j) {
        const char *what, *why, *left_out = report_left_out(j);

        buf_str(o, "<section>\n<h2 id=\"untested\">What was not tested, and why</h2>\n");
        put_reasons(o, j, VERDICT_UNTRIED, "Could not be tried here");
        put_reasons(o, j, VERDICT_INAPPLICABLE, "Not applicable to this driver");
        if (left_out) {
                put_in(o, "<h3>Left out</h3>\n<p>These were not tried: ", left_out, ".</p>\n<ul class=\"names\">");
                for (size_t i = 0; i < j->count; i++)
                        if (!j->chosen[i])
                                put_in(o, "<li>", check_at(i)->name, "</li>");
                buf_str(o, "</ul>\n");
        }
        buf_str(o, "<h3>Beyond what these checks can show</h3>\n<ul class=\"list\">\n");
        for (size_t i = 0; report_beyond(j, i, &what, &why); i++) {
                put_in(o, "<li><b>", what, "</b>");
                put_in(o, "", why, "</li>\n");
        }
        buf_str(o, "</ul>\n</section>\n");
}

static void put_repeat(struct buf *o, const struct judge *j) {
        _cleanup_buf_ struct buf command = {0};
        char caller[64];

        report_command(j, &command);
        buf_str(o, "<section>\n<h2 id=\"repeat\">Repeat it</h2>\n");
        put_in(o, "<p>As ", report_caller(j, caller, sizeof caller), ", on the same host:</p>\n");
        put_in(o, "<pre>", command.data ? command.data : "", "</pre>\n");
        buf_str(o, "<p>It does nothing to the host: its targets are its own, in namespaces of its own, and no packet "
                   "leaves. The same findings for programs are printed by <code>--json</code>.</p>\n</section>\n"
                   "<section>\n<h2>How to read the verdicts</h2>\n<dl class=\"wide\">\n");
        static const struct {
                enum verdict verdict;
                const char *means;
        } meanings[] = {
                {VERDICT_PROMISED, "The attempt failed, with the answer that the named mechanism gives."},
                {VERDICT_OTHERWISE, "The attempt failed, but something else stopped it, or with another answer. It is "
                                    "closed; the promised mechanism was not seen at work."},
                {VERDICT_OPEN, "It worked, or the host saw a sign that it did, whatever the attacker says."},
                {VERDICT_UNTRIED, "Nothing is known: this host, user or sandbox has not what the attempt needs."},
                {VERDICT_PERMITTED, "The profile allows it, and it works. Not counted as a check."},
                {VERDICT_INAPPLICABLE, "It means nothing for sandboxes of this driver, or cannot be asked of them. It "
                                       "was not tried, and is not counted as a check."},
        };
        for (size_t i = 0; i < ELEMENTSOF(meanings); i++) {
                buf_str(o, "<div><dt>");
                put_tag(o, meanings[i].verdict);
                put_in(o, "</dt><dd>", meanings[i].means, "</dd></div>\n");
        }
        buf_str(o, "</dl>\n</section>\n");
}

void report_html(const struct judge *j, struct buf *out) {
        char text[REPORT_BIG];

        if (out->max == 0)
                out->max = REPORT_MAX;
        buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                     "'unsafe-inline'\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
        put(out, report_headline(j, text, sizeof text));
        buf_str(out, "</title>\n<style>");
        buf_str(out, report_style);
        buf_str(out, "</style>\n</head>\n<body>\n<main>\n");
        put_head(out, j);
        put_judged(out, j);
        for (enum group g = 0; g < GROUP_COUNT; g++)
                put_group(out, j, g);
        put_limits(out, j);
        put_records(out, j);
        put_state(out, j);
        put_untested(out, j);
        put_repeat(out, j);
        put_in(out, "<footer>stockade ", STOCKADE_VERSION, ", ");
        put_in(out, "", report_summary(j, text, sizeof text), "</footer>\n</main>\n</body>\n</html>\n");
}
