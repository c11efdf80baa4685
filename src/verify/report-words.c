/* What the three reports say alike.
 *
 * One place for every sentence, so that the terminal, the page and the machine's twin never differ. Nothing here looks
 * at anything but the judge's findings. Never says that something holds when it was not tried. */
#include "verify/report-words.h"

#include <stdarg.h>

#include "base/text.h"

const char *const report_control_names[] = {
        [CONTROL_NONE] = "none", [CONTROL_USER] = "user",   [CONTROL_ROOT] = "root",
        [CONTROL_INIT] = "init", [CONTROL_SCENE] = "scene", [CONTROL_OTHER] = "other",
};
const char *const report_control_words[] = {
        [CONTROL_NONE] = "nowhere on an ordinary host",
        [CONTROL_USER] = "in an ordinary process without a sandbox",
        [CONTROL_ROOT] = "for the host's root in a mount namespace of its own",
        [CONTROL_INIT] = "in a pid namespace whose first process is an ordinary one",
        [CONTROL_SCENE] = "in the check itself, which shows both sides",
        [CONTROL_OTHER] = "in another check",
};
static_assert(ELEMENTSOF(report_control_words) == CONTROL_OTHER + 1, "every control has words");
const char *const report_shown_names[] = {
        [SHOWN_NOT] = "not", [SHOWN_YES] = "yes", [SHOWN_NO] = "no", [SHOWN_ELSEWHERE] = "elsewhere"};

enum verdict report_verdict(const struct finding *f) {
        return f->verdict == VERDICT_PENDING ? VERDICT_UNTRIED : f->verdict;
}

const char *report_why(const struct finding *f) {
        if (f->verdict == VERDICT_PENDING)
                return "the judge did not come to it";
        if (f->verdict == VERDICT_UNTRIED && f->why[0] == '\0')
                return "no reason was noted";
        return f->why;
}

void report_count(const struct judge *j, enum group g, struct report_count *ret) {
        struct report_count n = {0};

        for (size_t i = 0; i < j->count; i++) {
                const struct finding *f = &j->findings[i];

                if (!j->chosen[i] || (g != GROUP_COUNT && check_at(i)->group != g))
                        continue;
                enum verdict v = report_verdict(f);
                n.permitted += v == VERDICT_PERMITTED;
                n.inapplicable += v == VERDICT_INAPPLICABLE;
                if (v == VERDICT_PERMITTED || v == VERDICT_INAPPLICABLE)
                        continue;
                n.checks++;
                n.promised += v == VERDICT_PROMISED;
                n.otherwise += v == VERDICT_OTHERWISE;
                n.open += v == VERDICT_OPEN;
                n.untried += v == VERDICT_UNTRIED;
                n.witnessed += f->witnessed;
                n.shown += f->control == SHOWN_YES || f->control == SHOWN_ELSEWHERE;
                n.unshown += f->control == SHOWN_NO;
        }
        *ret = n;
}

/* Groups that were asked for and in which nothing could be tried, for people. Returns how many. */
static size_t empty_groups(const struct judge *j, char *buf, size_t size) {
        size_t count = 0, used = 0;

        buf[0] = '\0';
        for (enum group g = 0; g < GROUP_COUNT; g++) {
                struct report_count n;

                report_count(j, g, &n);
                if (n.checks == 0 || n.checks > n.untried || n.permitted > 0)
                        continue;
                int more = snprintf(buf + used, size - used, "%s%s", count++ ? ", " : "", check_group_titles[g]);
                used = MIN(used + (size_t)MAX(more, 0), size - 1);
        }
        return count;
}

const char *report_headline(const struct judge *j, char *buf, size_t size) {
        struct report_count n;
        char names[256];

        report_count(j, GROUP_COUNT, &n);
        unsigned tried = n.checks - n.untried;
        size_t empty = empty_groups(j, names, sizeof names);
        if (n.open == 1)
                (void)snprintf(buf, size, "One of %u attacks got through this sandbox.", tried);
        else if (n.open > 0)
                (void)snprintf(buf, size, "%u of %u attacks got through this sandbox.", n.open, tried);
        else if (tried == 0)
                (void)snprintf(buf, size, "No attack could be tried, so nothing is shown about this sandbox.");
        else if (empty > 0)
                (void)snprintf(buf, size, "None of %u attacks got through, but nothing could be tried in: %s.", tried,
                               names);
        else if (j->broken)
                (void)snprintf(buf, size, "None of %u attacks got through, but the attacker did not come to its end.",
                               tried);
        else if (report_has_state(j) && !digest_same(&j->before, &j->after))
                (void)snprintf(buf, size, "None of %u attacks got through, but the host is not as it was before.",
                               tried);
        else
                (void)snprintf(buf, size, "None of %u attacks got through this sandbox.", tried);
        return buf;
}

const char *report_summary(const struct judge *j, char *buf, size_t size) {
        struct report_count n;

        report_count(j, GROUP_COUNT, &n);
        int used = snprintf(buf, size,
                            "%u check%s: %u refused as promised, %u by another layer, %u OPEN, %u could not be tried",
                            n.checks, n.checks == 1 ? "" : "s", n.promised, n.otherwise, n.open, n.untried);
        if (n.permitted > 0 && used > 0 && (size_t)used < size)
                used += snprintf(buf + used, size - (size_t)used, " (%u permitted by the profile)", n.permitted);
        if (n.inapplicable > 0 && used > 0 && (size_t)used < size)
                (void)snprintf(buf + used, size - (size_t)used, " (%u not applicable to driver %s)", n.inapplicable,
                               j->options.driver);
        return buf;
}

const char *report_caller(const struct judge *j, char *buf, size_t size) {
        if (j->uid == 0)
                (void)snprintf(buf, size, "root");
        else
                (void)snprintf(buf, size, "an ordinary user (id %u)", j->uid);
        return buf;
}

const char *report_duration(unsigned ms, char *buf, size_t size) {
        if (ms < 1000)
                (void)snprintf(buf, size, "%u ms", ms);
        else if (ms < 100000)
                (void)snprintf(buf, size, "%u.%u s", ms / 1000, ms % 1000 / 100);
        else
                (void)snprintf(buf, size, "%u min %u s", ms / 60000, ms % 60000 / 1000);
        return buf;
}

/* " --option value", quoted where a shell would see more in it than a word. */
static void add_option(struct buf *ret, const char *option, const char *value) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

        if (!value)
                return;
        buf_printf(ret, " %s ", option);
        if (value[0] != '\0' && value[strspn(value, plain)] == '\0') {
                buf_str(ret, value);
                return;
        }
        buf_str(ret, "'");
        for (const char *p = value; *p; p++)
                if (*p == '\'')
                        buf_str(ret, "'\\''");
                else
                        buf_add(ret, p, 1);
        buf_str(ret, "'");
}

void report_command(const struct judge *j, struct buf *ret) {
        const struct judge_options *o = &j->options;

        buf_str(ret, "stockade verify");
        add_option(ret, "--driver", o->driver);
        add_option(ret, "--profile", o->against ? NULL : o->profile);
        add_option(ret, "--against", o->against);
        add_option(ret, "--probe-at", o->probe_at);
        add_option(ret, "--only", o->only);
        if (o->quick)
                buf_str(ret, " --quick");
        if (o->fast)
                buf_str(ret, " --self-test");
        add_option(ret, "--report", o->report);
}

bool report_is_limit(const struct check *c) {
        return str_starts(c->name, "limit-");
}

bool report_has_state(const struct judge *j) {
        return j->before.hash[0][0] != '\0' && j->after.hash[0][0] != '\0';
}

const char *report_left_out(const struct judge *j) {
        for (size_t i = 0; i < j->count; i++)
                if (!j->chosen[i])
                        return j->options.only    ? "only the checks that --only names were asked for"
                               : j->options.fast  ? "the self-test makes only its own short list of checks"
                               : j->options.quick ? "--quick leaves out what needs a sandbox of its own"
                                                  : "they were not chosen";
        return NULL;
}

bool report_beyond(const struct judge *j, size_t i, const char **ret_what, const char **ret_why) {
        static const struct {
                bool ours; /* only where Stockade's own sandbox is judged */
                const char *what, *why;
        } beyond[] = {
                {false, "Errors in the kernel that nobody knows of",
                 "A sandbox that shares the host's kernel is as good as the system calls that it leaves open. These "
                 "checks try what is known."},
                {false, "Leaks through the hardware: caches, timing, speculation",
                 "They depend on the processor, its microcode and the kernel's mitigations, and cannot be judged "
                 "reliably by one program on a busy machine."},
                {false, "Other profiles, drivers, users and hosts",
                 "What holds for one says nothing about another. Run it again for each of them."},
                {false, "Names and hosts of the real network",
                 "No packet leaves: servers and names are the judge's own, in namespaces without a way out."},
                {true, "What the profile permits, or what is shared on purpose",
                 "A host that is on the list receives what it is sent, and a folder that is shared to be written is "
                 "really written. That is meant; whether it is wise is not a question for this program."},
                {true, "A second command in a sandbox that runs already",
                 "This build starts one command in each sandbox."},
        };
        for (size_t k = 0; k < ELEMENTSOF(beyond); k++)
                if (!(beyond[k].ours && j->options.against) && i-- == 0) {
                        *ret_what = beyond[k].what;
                        *ret_why = beyond[k].why;
                        return true;
                }
        return false;
}

char *report_inert(const char *s) {
        size_t size = 4 * strlen(s) + 5;
        char *copy = malloc(size);

        if (copy)
                text_escape(copy, size, s);
        return copy;
}

char *report_inert_lines(const char *s) {
        _cleanup_free_ char *line = strdup(s);
        size_t size = 4 * strlen(s) + 5, used = 0;
        char *copy = line ? malloc(size) : NULL;

        if (!copy)
                return NULL;
        for (char *p = line, *next; p; p = next) {
                next = strchr(p, '\n');
                if (next)
                        *next++ = '\0';
                text_escape(copy + used, size - used, p);
                used += strlen(copy + used);
                if (next)
                        copy[used++] = '\n';
        }
        copy[used] = '\0';
        return copy;
}
