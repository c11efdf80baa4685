/* The report for a terminal or a pipe: short, the worst first.
 *
 * A line per group, and below it what is not as promised; with options.verbose every check. On a terminal long lines
 * are broken between words; in a pipe they are whole, so that they can be searched. Never prints a byte of a sandbox's
 * that is not made inert first. */
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "verify/report-words.h"

enum { TEXT_ROOM = 4 * 768 + 1, TEXT_INDENT = 8, TEXT_NAME = 28 };

struct page {
        FILE *out;
        bool color;
        size_t width; /* 0: lines are not broken */
};

enum paint { PLAIN, BOLD, DIM, GREEN, YELLOW, RED };
static const char *const paints[] = {[PLAIN] = "",         [BOLD] = "\033[1m",    [DIM] = "\033[2m",
                                     [GREEN] = "\033[32m", [YELLOW] = "\033[33m", [RED] = "\033[1;31m"};

static const struct {
        const char *word;
        enum paint paint;
} verdicts[] = {
        [VERDICT_PENDING] = {"not tried", YELLOW},    [VERDICT_PROMISED] = {"refused", GREEN},
        [VERDICT_OTHERWISE] = {"other layer", PLAIN}, [VERDICT_OPEN] = {"OPEN", RED},
        [VERDICT_UNTRIED] = {"not tried", YELLOW},    [VERDICT_PERMITTED] = {"permitted", PLAIN},
        [VERDICT_INAPPLICABLE] = {"n/a", PLAIN},
};

static const char *on(const struct page *p, enum paint paint) {
        return p->color ? paints[paint] : "";
}

static const char *off(const struct page *p) {
        return p->color ? "\033[0m" : "";
}

static void page_open(struct page *p, FILE *out) {
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        struct winsize window = {0};
        int fd = fileno(out);

        *p = (struct page){.out = out};
        if (fd < 0 || !isatty(fd))
                return;
        p->color = !(no_color && no_color[0]) && !(term && str_eq(term, "dumb"));
        p->width = ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
        p->width = MAX(MIN(p->width, 110), 40);
}

static size_t columns(const char *s, size_t bytes) {
        size_t n = 0;

        for (size_t i = 0; i < bytes; n++)
                i += MAX(text_utf8_length((const unsigned char *)s + i), 1);
        return n;
}

/* Text that begins at this column, and hangs there where lines are broken. It is inert already. */
static void put_hanging(const struct page *p, size_t column, const char *text) {
        size_t at = column;

        for (bool first = true; *text; first = false) {
                size_t bytes = strcspn(text, " "), wide = columns(text, bytes);

                if (!first && p->width && at + 1 + wide > p->width) {
                        (void)fprintf(p->out, "\n%*s", (int)column, "");
                        at = column;
                } else if (!first) {
                        (void)fputc(' ', p->out);
                        at++;
                }
                (void)fwrite(text, 1, bytes, p->out);
                at += wide;
                text += bytes + (text[bytes] == ' ');
        }
        (void)fputc('\n', p->out);
}

static void put_line(const struct page *p, size_t indent, const char *label, const char *text) {
        (void)fprintf(p->out, "%*s%s%s%s", (int)indent, "", on(p, DIM), label, off(p));
        put_hanging(p, indent + columns(label, strlen(label)), text);
}

/* The same for text from anywhere; nothing at all if it is empty. */
static void put_inert(const struct page *p, size_t indent, const char *label, const char *text) {
        char inert[TEXT_ROOM];

        if (!text || !text[0])
                return;
        text_escape(inert, sizeof inert, text);
        put_line(p, indent, label, inert);
}

/* What the host saw may be a list. */
static void put_seen(const struct page *p, const char *seen) {
        char line[sizeof((struct finding *)0)->seen];

        for (const char *label = "host saw: "; *seen; label = "          ") {
                size_t n = strcspn(seen, "\n");

                (void)snprintf(line, sizeof line, "%.*s", (int)n, seen);
                put_inert(p, TEXT_INDENT, label, line);
                seen += n + (seen[n] == '\n');
        }
}

static void put_control(const struct page *p, const struct check *c, const struct finding *f) {
        char text[TEXT_ROOM];

        if (f->control == SHOWN_NOT && c->control != CONTROL_NONE && c->control != CONTROL_OTHER)
                return;
        (void)snprintf(text, sizeof text, "%s%s%s%s%s%s", f->control == SHOWN_NO ? "it did NOT work " : "",
                       report_control_words[c->control], c->note ? ": " : "", c->note ? c->note : "",
                       f->control_said[0] ? "; " : "", f->control_said);
        put_inert(p, TEXT_INDENT, "works:    ", text);
}

static void put_check(const struct page *p, const struct check *c, const struct finding *f, bool brief, bool verbose) {
        enum verdict v = report_verdict(f);
        char mechanism[512], error[100], does[512];

        text_escape(error, sizeof error, f->error);
        if (brief && error[0])
                (void)snprintf(does, sizeof does, "%.380s (%s)", c->does, error);
        else
                (void)snprintf(does, sizeof does, "%s", c->does);
        (void)fprintf(p->out, "  %s%-11s%s  %-*s ", on(p, verdicts[v].paint), verdicts[v].word, off(p), TEXT_NAME,
                      c->name);
        put_hanging(p, 16 + MAX(strlen(c->name), TEXT_NAME), does);
        if (brief)
                return;
        put_inert(p, TEXT_INDENT, "because:  ", report_why(f));
        if (v == VERDICT_INAPPLICABLE)
                put_inert(p, TEXT_INDENT, "it said:  ", f->said); /* if it was tried */
        if (v == VERDICT_UNTRIED || v == VERDICT_INAPPLICABLE)
                return;
        put_inert(p, TEXT_INDENT, "promised: ", check_mechanism(c, mechanism, sizeof mechanism));
        if (v == VERDICT_OTHERWISE && !verbose)
                return;
        put_seen(p, f->seen);
        put_inert(p, TEXT_INDENT, "it said:  ", f->said);
        if (error[0])
                put_line(p, TEXT_INDENT, f->witnessed ? "errno, read from the kernel: " : "errno, as it says: ", error);
        put_control(p, c, f);
}

static void put_checks(const struct page *p, const struct judge *j, enum group g, enum verdict v, bool brief) {
        for (size_t i = 0; i < j->count; i++)
                if (j->chosen[i] && check_at(i)->group == g && report_verdict(&j->findings[i]) == v)
                        put_check(p, check_at(i), &j->findings[i], brief, j->options.verbose);
}

static void put_group(const struct page *p, const struct judge *j, enum group g) {
        static const enum verdict order[] = {VERDICT_OPEN, VERDICT_OTHERWISE, VERDICT_UNTRIED, VERDICT_INAPPLICABLE};
        struct report_count n;
        bool all = j->options.verbose;

        report_count(j, g, &n);
        if (n.checks + n.permitted + n.inapplicable == 0)
                return;
        (void)fprintf(p->out, "%s%-28s%s %3u of %u refused", on(p, BOLD), check_group_titles[g], off(p),
                      n.promised + n.otherwise, n.checks);
        if (n.otherwise)
                (void)fprintf(p->out, ", %u by another layer", n.otherwise);
        if (n.open)
                (void)fprintf(p->out, ", %s%u OPEN%s", on(p, RED), n.open, off(p));
        if (n.untried)
                (void)fprintf(p->out, ", %s%u not tried%s", on(p, YELLOW), n.untried, off(p));
        if (n.permitted)
                (void)fprintf(p->out, ", %u permitted", n.permitted);
        if (n.inapplicable)
                (void)fprintf(p->out, ", %u not applicable", n.inapplicable);
        (void)fputc('\n', p->out);
        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                put_checks(p, j, g, order[i], false);
        if (all) {
                put_checks(p, j, g, VERDICT_PROMISED, true);
                put_checks(p, j, g, VERDICT_PERMITTED, true);
        }
}

static void put_head(const struct page *p, const struct judge *j) {
        char caller[64], line[TEXT_ROOM], profile[280], kernel[160] = "an unknown kernel";

        for (size_t i = 0; i < ELEMENTSOF(j->host) && j->host[i].name[0]; i++)
                if (str_eq(j->host[i].name, "kernel"))
                        text_escape(kernel, sizeof kernel, j->host[i].value);
        report_caller(j, caller, sizeof caller);
        if (j->options.against) {
                (void)snprintf(line, sizeof line, "%.512s, as %s, on %s", j->options.against, caller, kernel);
                put_inert(p, 0, "judged: ", line);
        } else {
                text_escape(profile, sizeof profile, j->profile.name);
                (void)snprintf(line, sizeof line, "driver %s, profile %s, as %s, on %s",
                               j->options.driver ? j->options.driver : "native", profile, caller, kernel);
                put_inert(p, 0, "judged: ", line);
        }
        (void)fputc('\n', p->out);
}

/* Refusals that say less than they should. */
static void put_unshown(const struct page *p, const struct judge *j) {
        _cleanup_buf_ struct buf names = {0};

        for (size_t i = 0; i < j->count; i++)
                if (j->chosen[i] && j->findings[i].control == SHOWN_NO)
                        buf_printf(&names, "%s%s", names.size ? ", " : "", check_at(i)->name);
        if (names.size > 0 && buf_ok(&names))
                put_line(p, 0, "The attempt did not work without a sandbox either: ", names.data);
}

static void put_state(const struct page *p, const struct judge *j) {
        enum { LINES = 20 };
        _cleanup_buf_ struct buf lines = {0};
        size_t shown = 0;

        if (!report_has_state(j))
                return;
        if (digest_same(&j->before, &j->after)) {
                put_line(p, 0, "", "The host is as it was before: nothing changed and nothing was left behind.");
                return;
        }
        size_t count = digest_difference(&j->before, &j->after, &lines);
        (void)fprintf(p->out, "%sThe host is not as it was before:%s\n", on(p, RED), off(p));
        for (char *line = lines.data; line && *line && shown < LINES; shown++) {
                char *end = strchrnul(line, '\n');
                bool more = *end == '\n';

                *end = '\0';
                put_inert(p, 2, "", line);
                line = more ? end + 1 : end;
        }
        if (count > shown)
                (void)fprintf(p->out, "  and %zu more\n", count - shown);
}

static void put_end(const struct page *p, const struct judge *j) {
        char text[REPORT_BIG], duration[32];
        const char *left_out = report_left_out(j);
        struct report_count n;

        report_count(j, GROUP_COUNT, &n);
        (void)fprintf(p->out, "\n%s", on(p, n.open ? RED : judge_good(j) ? GREEN : YELLOW));
        put_hanging(p, 0, report_headline(j, text, sizeof text));
        (void)fputs(off(p), p->out);
        size_t used = strlen(report_summary(j, text, sizeof text));
        (void)snprintf(text + used, sizeof text - used, ", in %s",
                       report_duration(j->wall_ms, duration, sizeof duration));
        put_hanging(p, 0, text);
        if (left_out)
                (void)fprintf(p->out, "%zu more were left out: %s\n",
                              j->count - n.checks - n.permitted - n.inapplicable, left_out);
        put_unshown(p, j);
        put_state(p, j);
        put_inert(p, 0, "page:    ", j->options.report);
        if (j->folder[0])
                put_inert(p, 0, "records: ", j->folder);
        else if (!j->options.fast)
                (void)fputs("records: none were kept\n", p->out);
        if (!j->options.verbose && !j->options.report && !j->options.fast)
                put_line(p, 0, "more:    ", "--verbose shows every check, --report FILE.html makes a page of it");
}

void report_text(const struct judge *j, FILE *out) {
        struct page p;

        page_open(&p, out);
        put_head(&p, j);
        for (enum group g = 0; g < GROUP_COUNT; g++)
                put_group(&p, j, g);
        put_end(&p, j);
        (void)fflush(out);
}
