/* `stockade ledger evidence`: packs into a file that is there whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "ledger/tool.h"

enum { EVIDENCE_WAIT_S = 7 }; /* a little longer than a daemon lets events be without a checkpoint */

/* Waits until the ledger grows: the next thing that a daemon writes may be the checkpoint. */
static bool grows(int dir, unsigned *seconds) {
        uint64_t before, now;

        if (ledger_last(dir, &before, NULL) < 0)
                return false;
        while (*seconds > 0) {
                struct timespec second = {.tv_sec = 1};

                (void)nanosleep(&second, NULL);
                --*seconds;
                if (ledger_last(dir, &now, NULL) == 0 && now > before)
                        return true;
        }
        return false;
}

/* Packs, again if the end was not signed yet and is soon. */
static int pack(int dir, const char *sandbox, uint64_t run, int out, struct ledger_verdict *v, struct err *err) {
        unsigned seconds = EVIDENCE_WAIT_S;

        for (;;) {
                int r = ledger_evidence(dir, sandbox, run, out, UINT64_MAX, v, err);

                if (r < 0 || v->unsigned_events == 0)
                        return r;
                if (seconds == EVIDENCE_WAIT_S)
                        (void)fprintf(stderr, "waiting for the next signed checkpoint…\n");
                if (!grows(dir, &seconds))
                        return 0;
                if (ftruncate(out, 0) < 0 || lseek(out, 0, SEEK_SET) < 0)
                        return err_set(err, -errno, "could not write the evidence");
        }
}

static int copy_out(int file, struct err *err) {
        char piece[65536];
        ssize_t n;

        if (lseek(file, 0, SEEK_SET) < 0)
                return err_set(err, -errno, "could not write the evidence");
        while ((n = fd_read_full(file, piece, sizeof piece)) > 0) {
                int r = fd_write_full(STDOUT_FILENO, piece, (size_t)n);
                if (r < 0)
                        return err_set(err, r, "could not write the evidence");
        }
        return n < 0 ? err_set(err, (int)n, "could not write the evidence") : 0;
}

/* Gives the file its name. One that is there already stays. */
static int give_name(int file, const char *name, struct err *err) {
        char link[40];

        if (fsync(file) < 0)
                return err_set(err, -errno, "could not write the evidence");
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        if (linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0)
                return 0;
        int r = err_set(err, -errno, "cannot make '%.200s'", name);
        return r == -EEXIST ? err_hint(err, "name another file with -o, or remove that one first") : r;
}

static int unnamed_file(const char *name, struct err *err) {
        char folder[TOOL_NAME];
        const char *slash = strrchr(name, '/');

        (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - name) + 1 : 1, slash ? name : ".");
        int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
        return fd < 0 ? err_set(err, -errno, "cannot write to folder '%.200s'", folder) : fd;
}

int tool_evidence(const struct tool_options *o, struct err *err) {
        struct ledger_verdict v;
        char name[TOOL_NAME], made[128], n[32], m[32];
        const char *output = o->output;
        uint64_t run = 0;

        if (!o->sandbox) {
                (void)err_set(err, ERR_INPUT, "whose evidence?");
                return err_hint(err, "name the sandbox: --sandbox ID");
        }
        int r = o->run ? tool_number(o->run, "--run", &run, err) : 0;
        if (r < 0)
                return r;
        if (o->run && run == 0)
                return err_set(err, ERR_INPUT, "runs are counted from 1");
        _cleanup_fd_ int dir = tool_open(o, name, err);
        if (dir < 0)
                return dir;
        if (!output) {
                if (run)
                        (void)snprintf(made, sizeof made, "evidence-%.40s-%llu.json", o->sandbox,
                                       (unsigned long long)run);
                else
                        (void)snprintf(made, sizeof made, "evidence-%.40s.json", o->sandbox);
                output = made;
        }
        bool standard = str_eq(output, "-");
        _cleanup_fd_ int file = standard ? memfd_create("evidence", MFD_CLOEXEC) : unnamed_file(output, err);
        if (file < 0)
                return standard ? err_set(err, -errno, "cannot pack evidence") : file;
        r = pack(dir, o->sandbox, run, file, &v, err);
        if (r == 0)
                r = standard ? copy_out(file, err) : give_name(file, output, err);
        if (r < 0)
                return r;
        (void)fprintf(stderr,
                      "%s: %s event%s of sandbox %s, of %s in the ledger\nsigned by the keys with the fingerprint %s\n",
                      standard ? "evidence" : output, tool_count(n, sizeof n, v.events), v.events == 1 ? "" : "s",
                      v.sandbox, tool_count(m, sizeof m, v.last_seq), v.key[0] ? v.key : "(none yet)");
        if (v.unsigned_events > 0)
                (void)fprintf(
                        stderr,
                        "%s at the end %s under no signed checkpoint, and no daemon seems to write one: start it and "
                        "pack again\n",
                        tool_count(n, sizeof n, v.unsigned_events), v.unsigned_events == 1 ? "is" : "are");
        return v.unsigned_events > 0 ? TOOL_BROKEN : TOOL_GOOD;
}
