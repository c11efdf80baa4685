/* What is behind the three streams: files, folders, sockets and terminals of the caller. Bytes may flow; nothing else
 * of them may be had. The files themselves, and the caller's terminal, say what happened. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "verify/scene.h"

static const char given[] = "standard input\n", earlier[] = "earlier\n";

struct files {
        char folder[512], in[560], out[560];
        int source, target;
};

static void files_close(struct files *s) {
        fd_close(&s->source);
        fd_close(&s->target);
        scene_remove(s->folder);
}

static bool files_open(struct judge *j, struct finding *f, struct files *s) {
        *s = (struct files){.source = -EBADF, .target = -EBADF};
        if (!scene_folder(j, f, "streams", s->folder, sizeof s->folder))
                return false;
        (void)snprintf(s->in, sizeof s->in, "%s/in", s->folder);
        (void)snprintf(s->out, sizeof s->out, "%s/out", s->folder);
        if (scene_write(s->in, given, 0600) && scene_write(s->out, earlier, 0600)) {
                s->source = open(s->in, O_RDONLY | O_CLOEXEC);
                s->target = open(s->out, O_WRONLY | O_APPEND | O_CLOEXEC);
        }
        if (s->source >= 0 && s->target >= 0)
                return true;
        finding_untried(f, "no files for streams: %s", strerror(errno));
        return false;
}

static bool as_before(const char *path) {
        struct stat st;
        char names[64];

        return stat(path, &st) == 0 && (st.st_mode & 07777) == 0600 && listxattr(path, names, sizeof names) <= 0;
}

/* Files of the host as streams: reopened, cut, or given other attributes. */
void scene_stream(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, plain = {0};
        _cleanup_free_ char *text = NULL;
        _cleanup_(files_close) struct files s;
        struct said said = {0};
        size_t size = 0;

        if (!files_open(j, f, &s))
                return;
        struct launch l = {.where = LAUNCH_INSIDE,
                           .argv = WORDS("{probe}", c->name, "stream-token=REACHED"),
                           .facts = true,
                           .in = s.source,
                           .out = s.target};
        if (!scene_run(j, f, &l, &o) || fd_read_file(AT_FDCWD, s.out, 1 << 20, true, &text, &size, NULL) < 0)
                return;
        struct buf written = {.data = text, .size = size};
        bool spoke = scene_said(&written, c->name, &said, f);
        if (!str_starts(text, earlier))
                finding_open(f, "what was written before is gone from the file behind standard output");
        if (!scene_holds(s.in, given))
                finding_open(f, "the file behind standard input was written to");
        if (!as_before(s.in) || !as_before(s.out))
                finding_open(f, "mode or attributes of a file behind a stream changed");
        if (spoke && str_eq(said.result, "done"))
                finding_open(f, "%.200s", said.evidence);
        else if (!spoke || !str_eq(said.result, "refused"))
                finding_untried(f, "it did not say that it was refused: status %d", o.status);
        else
                finding_promised(f, "both files are as they were, but for what was printed");
        /* what a stream is for works on the same files */
        l.argv = WORDS("/bin/cat");
        l.facts = false;
        (void)lseek(s.source, 0, SEEK_SET); /* it may have been read ahead */
        (void)truncate(s.out, 0);
        if (scene_run(j, f, &l, &plain))
                finding_control(f, scene_holds(s.out, given), "bytes flow from one file to the other");
}

/* A folder as standard input would be a way out: refused, or useless. */
void scene_stream_folder(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        _cleanup_fd_ int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct said said = {0}, other = {0};
        struct launch l = {.where = LAUNCH_INSIDE, .argv = WORDS("{probe}", c->name), .facts = true, .in = root};

        if (!scene_run(j, f, &l, &o))
                return;
        bool spoke = scene_said(&o.out, c->name, &said, f);
        if (spoke && str_eq(said.result, "done"))
                finding_open(f, "%.200s", said.evidence);
        else if (spoke && str_eq(said.result, "refused"))
                finding_promised(f, "it is no folder inside: %s", said.error);
        else if (o.status == 125)
                finding_promised(f, "refused: %.200s", o.err.data ? o.err.data : "");
        else
                finding_untried(f, "it said nothing: status %d", o.status);
        l.where = LAUNCH_OUTSIDE;
        l.argv = WORDS("{probe}", c->name, "control=yes");
        if (scene_run(j, f, &l, &control))
                finding_control(f, said_find(&control.out, c->name, &other) && str_eq(other.result, "done"),
                                "without a sandbox: %.100s", other.evidence);
}

/* A socket as standard input could carry descriptors, and a handle to the process behind it. */
void scene_stream_socket(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        static const char script[] = "readlink /proc/self/fd/0";
        int ends[2];

        (void)c;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
                finding_untried(f, "no sockets: %s", strerror(errno));
                return;
        }
        _cleanup_fd_ _unused_ int ours = ends[0]; /* its peer has to stay */
        _cleanup_fd_ int theirs = ends[1];
        struct launch l = {.where = LAUNCH_INSIDE, .argv = WORDS("/bin/sh", "-c", script), .in = theirs};
        if (!scene_run(j, f, &l, &o))
                return;
        (void)snprintf(f->said, sizeof f->said, "%.100s", o.out.data ? o.out.data : "");
        if (!o.out.data || o.out.size == 0)
                finding_untried(f, "it said nothing: status %d %.150s", o.status, o.err.data ? o.err.data : "");
        else if (strstr(o.out.data, "socket:"))
                finding_open(f, "the socket itself is inside");
        else
                finding_promised(f, "something else stands in for it: %.60s", o.out.data);
        l.where = LAUNCH_OUTSIDE;
        if (scene_run(j, f, &l, &control))
                finding_control(f, control.out.data && strstr(control.out.data, "socket:"),
                                "without a sandbox it is: %.60s", control.out.data ? control.out.data : "");
}

/* The device of the file system in which the terminal of this run is. */
static bool terminal_device(struct judge *j, struct finding *f, enum launch_where where, unsigned long *ret) {
        _cleanup_outcome_ struct outcome o = {0};
        const struct launch l = {.where = where,
                                 .argv = WORDS("/bin/sh", "-c", "echo HAS $(stat -Lc %d /proc/self/fd/0) END"),
                                 .terminal = true};

        if (!scene_run(j, f, &l, &o))
                return false;
        const char *at = o.out.data ? strstr(o.out.data, "HAS ") : NULL;
        if (!at || !strstr(at, " END"))
                return false;
        *ret = strtoul(at + 4, NULL, 10);
        return true;
}

void scene_terminal_own(struct judge *j, const struct check *c, struct finding *f) {
        unsigned long inside = 0, outside = 0;
        struct stat st;

        (void)c;
        if (stat("/dev/pts", &st) < 0 || !terminal_device(j, f, LAUNCH_INSIDE, &inside)) {
                finding_untried(f, "no terminal");
                return;
        }
        if (inside == st.st_dev)
                finding_open(f, "the caller's terminal is inside");
        else
                finding_promised(f, "it is in file system %lu, the caller's in %lu", inside, (unsigned long)st.st_dev);
        if (terminal_device(j, f, LAUNCH_OUTSIDE, &outside))
                finding_control(f, outside == st.st_dev, "without a sandbox it is the caller's");
}

/* Sets modes and asks for answers on its terminal: the caller's has its settings back, and nothing was typed there. */
void scene_terminal_settings(struct judge *j, const struct check *c, struct finding *f) {
        _cleanup_outcome_ struct outcome o = {0}, control = {0};
        struct running r = {0};
        struct termios before, after;
        struct err err = {0};
        struct launch l = {
                .where = LAUNCH_INSIDE,
                .argv = WORDS("/bin/sh", "-c", "stty raw -echo; printf '\\033[6n\\033]52;c;?\\007'; echo end"),
                .terminal = true,
                .timeout_ms = 8000};
        int typed = 0;

        (void)c;
        for (int round = 0; round < 2; round++) {
                _cleanup_fd_ int fresh = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), ours = -EBADF,
                                 theirs = -EBADF;

                l.where = round ? LAUNCH_OUTSIDE : LAUNCH_INSIDE;
                if (fresh < 0 || tcgetattr(fresh, &before) < 0 || !scene_start(j, f, &l, &r)) {
                        finding_untried(f, "no terminal");
                        return;
                }
                ours = fcntl(r.out, F_DUPFD_CLOEXEC, 3);
                theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

                (void)launch_wait(j, &r, round ? &control : &o, &err);
                if (theirs < 0 || tcgetattr(ours, &after) < 0 || ioctl(theirs, FIONREAD, &typed) < 0) {
                        finding_untried(f, "the terminal cannot be looked at: %s", strerror(errno));
                        return;
                }
                bool same = before.c_lflag == after.c_lflag && before.c_iflag == after.c_iflag &&
                            before.c_oflag == after.c_oflag;
                if (round) {
                        finding_control(f, !same, "without a sandbox the caller's terminal keeps what was set");
                        return;
                }
                if (!same)
                        finding_open(f, "the caller's terminal was left with other settings");
                if (typed > 0)
                        finding_open(f, "%d bytes were typed on the caller's terminal", typed);
                if (!o.out.data || !strstr(o.out.data, "end"))
                        finding_untried(f, "it did not get so far");
                finding_promised(f, "its settings are back, and nothing was typed there");
        }
}
