/* After a run on a copy-on-write view: show what changed, and apply, keep or discard it as the caller said or says now.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/knockout.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli/run.h"
#include "disk/apply.h"
#include "disk/show.h"
#include "disk/tar.h"

/* One character from the terminal; anything but y is no. */
static char ask(const char *question) {
        char line[16], more[64];

        (void)tcflush(STDIN_FILENO, TCIFLUSH); /* what was typed for the command is no answer */
        (void)fprintf(stderr, "%s ", question);
        (void)fflush(stderr);
        if (!fgets(line, sizeof line, stdin))
                return 'd';
        for (const char *rest = line; !strchr(rest, '\n') && fgets(more, sizeof more, stdin);)
                rest = more;
        return line[0];
}

static bool ask_risky(void *data, const struct diff_entry *e) {
        char path[512], question[1200];

        (void)data;
        text_escape(path, sizeof path, e->path);
        (void)snprintf(question, sizeof question, "  %s: %s. Apply this one? [y/N]", path, e->risk);
        return ask(question) == 'y';
}

static int show(const struct diff *d, struct err *err) {
        _cleanup_buf_ struct buf out = {.max = 64 << 20};

        int result = show_text(d, false, &out);
        if (result < 0 || !buf_ok(&out))
                return err_set(err, result < 0 ? result : ERR_LIMIT, "could not list the changes");
        (void)fputs(out.data ? out.data : "", stderr);
        return 0;
}

static int open_keep(const char *file, struct err *err) {
        int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        return fd < 0 ? err_set(err, -errno, "cannot make '%s' for the changes", file) : fd;
}

static int keep(struct run *r, const struct diff *d, const char *file, struct err *err) {
        if (r->keep < 0)
                r->keep = open_keep(file, err);
        if (r->keep < 0)
                return r->keep;
        int result = tar_write(d, r->upper, r->keep, err);
        if (result == 0 && fsync(r->keep) < 0)
                result = err_set(err, -errno, "cannot write '%s'", file);
        fd_close(&r->keep);
        if (result == 0 && !r->options.quiet)
                (void)fprintf(stderr, "stockade: the changes are in '%s'\n", file);
        return result;
}

static int apply(struct run *r, const struct diff *d, bool interactive, struct err *err) {
        struct apply_options o = {.root = r->limits.overlay,
                                  .risky = r->options.changes_risky ? APPLY_RISKY_ALL
                                           : interactive            ? APPLY_RISKY_ASK
                                                                    : APPLY_RISKY_NONE,
                                  .ask = ask_risky};
        struct apply_decision v = {0};
        _cleanup_fd_ int state = paths_state_dir("apply", false, err);
        if (state < 0)
                return state;
        int result = apply_check(d, r->lower, &o, &v, err);
        if (result < 0)
                return result;
        size_t left_out = 0;
        for (size_t i = 0; i < v.count; i++)
                if (v.verdict[i] != APPLY_YES) {
                        char path[512];
                        text_escape(path, sizeof path, d->entry[i].path);
                        (void)fprintf(stderr, "stockade: not applied: %s: %s\n", path, apply_reason(v.verdict[i]));
                        left_out++;
                }
        result = apply_run(d, &v, r->upper, r->lower, state, &o, err);
        size_t refused = v.refused;
        if (result == 0 && !r->options.quiet)
                (void)fprintf(stderr, "stockade: %zu of %zu changes applied to '%s'\n", v.chosen, d->count,
                              r->limits.overlay);
        apply_decision_free(&v);
        if (result == 0 && left_out > 0 && !interactive) {
                (void)err_set(err, ERR_REFUSED, "%zu change%s not applied to '%s'", left_out,
                              left_out == 1 ? " was" : "s were", r->limits.overlay);
                return err_hint(
                        err, "%s",
                        refused ? "they changed outside, or are devices or set-id files: run again, or use --keep FILE"
                                : "the host's own tools would execute them: read them, then use --apply-risky");
        }
        return result;
}

static int settle(struct run *r, const struct diff *d, struct err *err) {
        switch (r->options.changes) {
        case CHANGES_DISCARD:
                return knockout_off(KNOCKOUT_LAUNCHER) ? apply(r, d, false, err) : 0;
        case CHANGES_KEEP:
                return keep(r, d, r->options.keep, err);
        case CHANGES_APPLY:
                return apply(r, d, false, err);
        case CHANGES_ASK:
        default:
                break;
        }
        for (;;) {
                switch (ask("Apply these changes? [y]es, [n]o: throw them away, [k]eep them in a file:")) {
                case 'y':
                        return apply(r, d, true, err);
                case 'k': {
                        char name[64];
                        (void)snprintf(name, sizeof name, "stockade-%s.tar", r->id);
                        return keep(r, d, name, err);
                }
                case 'n':
                case 'd':
                        return 0;
                default:
                        break;
                }
        }
}

/* An apply that was killed is finished or taken back before anything new looks at the folder. */
static int changes_recover(const char *workspace, struct err *err) {
        struct apply_recovery earlier;
        _cleanup_fd_ int state = paths_state_dir("apply", false, err);
        if (state < 0)
                return state;
        int result = apply_recover(state, &earlier, err);
        if (result < 0) {
                (void)err_prefix(err, result, "an earlier apply could not be finished");
                if (strstr(err->text, workspace))
                        return result;
                err_print(err); /* it concerns another folder */
        }
        return 0;
}

/* The file is made before the command runs, which may be able to change what its name means. */
int changes_prepare(struct run *r, struct err *err) {
        int result = changes_recover(r->limits.overlay, err);
        if (result == 0 && r->options.changes == CHANGES_KEEP) {
                r->keep = open_keep(r->options.keep, err);
                result = r->keep < 0 ? r->keep : 0;
        }
        return result;
}

int changes_settle(struct run *r, struct err *err) {
        struct diff_options o = {.userxattr = r->cell.rootless, .start = r->start};
        struct diff d = {0};

        if (r->upper < 0 || r->lower < 0)
                return err_set(err, ERR_CORRUPT, "the changes to '%s' were not handed over", r->limits.overlay);
        int result = diff_compute(r->upper, r->lower, &o, &d, err);
        if (result < 0)
                return result;
        if (d.count == 0) {
                if (!r->options.quiet && r->options.changes == CHANGES_ASK)
                        (void)fprintf(stderr, "stockade: no changes to '%s'\n", r->limits.overlay);
                if (r->options.changes == CHANGES_KEEP)
                        result = keep(r, &d, r->options.keep, err);
        } else {
                if (!r->options.quiet && !r->options.json)
                        result = show(&d, err);
                if (result == 0)
                        result = settle(r, &d, err);
        }
        diff_free(&d);
        return result;
}
