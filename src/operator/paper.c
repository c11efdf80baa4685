/* What there is to read about this host, for whoever acts for all: what the doctor finds, and the latest report of
 * `stockade verify`. The warden has it (wire/warden.h); we look whether it is what it should be, and pass it on.
 *
 * A paper is asked for once, whoever wants it meanwhile. What the doctor found is good for a minute: he tries things,
 * which costs the host a second. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "operator/sandbox.h"
#include "operator/verbs.h"
#include "operator/warden-link.h"

#define FRESH_MS    60000
#define WAITING_MAX 32
#define ANSWER_MAX  (LOCAL_ANSWER_MAX - 64)

struct waiter {
        struct waiter *next;
        struct paper *paper;
        struct call *call;
};

/* One operator in a process. */
static struct paper {
        struct core *o;
        struct waiter *waiting; /* the warden was asked as long as there is one, or was when there was */
        unsigned waiting_count;
        bool asked;
        struct buf fresh; /* the last answer, as long as it is good */
        uint64_t until;   /* of the loop */
} papers[WARDEN_PAPER_COUNT];

/* --- what it says --- */

/* Exactly what the warden says it is; a NUL follows. */
static int read_whole(int fd, uint64_t size, char **ret, struct err *err) {
        struct stat st;

        if (size > WARDEN_PAPER_MAX || fstat(fd, &st) < 0 || (uint64_t)st.st_size != size)
                return call_err(err, ERR_CORRUPT, "the warden's answer is not whole");
        _cleanup_free_ char *text = malloc(size + 1);
        if (!text)
                return err_set(err, -ENOMEM, "cannot read it");
        for (size_t at = 0; at < size;) {
                ssize_t n = pread(fd, text + at, size - at, (off_t)at);

                if (n <= 0)
                        return err_set(err, n < 0 ? -errno : -EIO, "cannot read it");
                at += (size_t)n;
        }
        text[size] = '\0';
        *ret = TAKE_PTR(text);
        return 0;
}

static int not_it(struct err *err, const char *what, const char *hint) {
        (void)call_err(err, ERR_CORRUPT, "%s cannot be understood", what);
        return err_hint(err, "%s", hint);
}

/* The result of its verb. */
static int put_answer(const struct paper *p, const char *text, size_t size, struct buf *ret, struct err *err) {
        bool page = p == &papers[WARDEN_PAPER_PAGE], doctor = p == &papers[WARDEN_PAPER_DOCTOR];
        struct json j = {.out = ret};

        if (page && (size == 0 || strlen(text) != size || !text_is_utf8(text)))
                return not_it(err, "the page of 'stockade verify'", "run 'stockade verify' on the host again");
        if (!page && (json_check(text, size, err) < 0 || !json_find_kind(text, doctor ? "facts" : "tally")))
                return doctor ? not_it(err, "what the doctor says", "run 'stockade doctor' on the host")
                              : not_it(err, "the report of 'stockade verify'",
                                       "run 'stockade verify' on the host again");
        if (page) {
                json_open(&j, NULL, '{');
                json_str(&j, "page", text);
                json_close(&j, '}');
        } else {
                const char *value = json_at(text, "", &size);

                buf_add(ret, value, size);
        }
        return buf_ok(ret) ? 0 : err_set(err, -ENOMEM, "cannot pass it on");
}

/* --- to those who wait --- */

static struct call *take_waiter(struct waiter *w) {
        struct call *c = w->call;

        for (struct waiter **at = &w->paper->waiting; *at; at = &(*at)->next)
                if (*at == w) {
                        *at = w->next;
                        break;
                }
        w->paper->waiting_count--;
        free(w);
        return c;
}

/* What is wrong with our own files is nobody's request's fault. */
static void refuse(const struct paper *p, struct call *c, const struct err *err) {
        bool none = err->code == -ENOENT && p != &papers[WARDEN_PAPER_DOCTOR];

        call_refuse_as(c, none ? "not_found" : err->code == -EBUSY ? "busy" : "failed", err);
}

static void got(void *data, const struct warden_message *m, int *fds, size_t fd_count) {
        _cleanup_buf_ struct buf result = {.max = ANSWER_MAX};
        _cleanup_free_ char *text = NULL;
        struct paper *p = data;
        struct err err = {0};
        int r = m->error;

        p->asked = false;
        if (r < 0) {
                (void)call_err(&err, r, "%s", m->text);
                (void)err_hint(&err, "%s", m->hint);
        } else
                r = fd_count == 1 ? read_whole(fds[0], m->numbers[0], &text, &err)
                                  : call_err(&err, ERR_CORRUPT, "the warden's answer is not whole");
        if (r == 0)
                r = put_answer(p, text, m->numbers[0], &result, &err);
        if (r < 0 && !err.hint[0])
                (void)err_hint(&err, "try again in a moment");
        while (p->waiting) {
                struct call *c = take_waiter(p->waiting);

                if (r < 0)
                        refuse(p, c, &err);
                else
                        call_answer(c, &result);
        }
        if (r == 0 && p == &papers[WARDEN_PAPER_DOCTOR]) {
                buf_free(&p->fresh);
                p->fresh = result;
                p->until = loop_now(p->o->loop) + FRESH_MS;
                result = (struct buf){0};
        }
}

/* --- asked for --- */

static void gone(struct call *c) {
        struct waiter *w = c->data;

        call_drop(take_waiter(w));
}

static void want(struct call *c, enum warden_paper which) {
        struct warden_message m = {.kind = WARDEN_PAPER, .paper = which};
        struct paper *p = &papers[which];

        p->o = c->o;
        if (p->fresh.size > 0 && loop_now(c->o->loop) < p->until) {
                call_answer(c, &p->fresh);
                return;
        }
        struct waiter *w = p->waiting_count < WAITING_MAX ? calloc(1, sizeof *w) : NULL;
        if (!w) {
                call_refuse_text(c, "busy", "try again in a moment", "%u others wait for it already", p->waiting_count);
                return;
        }
        int r = p->asked ? 0 : warden_call(c->o, &m, NULL, 0, got, p);
        if (r < 0) {
                free(w);
                call_refuse_text(c, "busy", "try again in a moment", "the warden cannot be asked: %s", err_name(r));
                return;
        }
        p->asked = true;
        *w = (struct waiter){.next = p->waiting, .paper = p, .call = c};
        p->waiting = w;
        p->waiting_count++;
        c->data = w;
        c->gone = gone;
}

void verb_doctor(struct call *c) {
        want(c, WARDEN_PAPER_DOCTOR);
}

void verb_verify(struct call *c) {
        want(c, WARDEN_PAPER_VERIFY);
}

void verb_verify_page(struct call *c) {
        want(c, WARDEN_PAPER_PAGE);
}
