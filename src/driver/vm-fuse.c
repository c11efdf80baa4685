/* See vm-fuse.h. Both directions have messages that begin with their size; one read of the device is one message, and
 * so is one write. */
#include "driver/vm-fuse.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/fd.h"
#include "driver/fuse-message.h"
#include "driver/vm-forget.h"

#define DEVICE "/dev/fuse"

static _Alignas(8) unsigned char bytes[FUSE_MESSAGE_MAX];

/* A question that was taken back while it was read is none. */
static int carry_questions(int device, int stream) {
        for (;;) {
                ssize_t n = read(device, bytes, sizeof bytes);

                if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                int r = fd_write_full(stream, bytes, (size_t)n);
                if (r < 0)
                        return r;
        }
}

/* In a process of its own: the kernel must not wait here for answers that are to be carried. */
static void forget_unused(void) {
        pid_t pid = fork();

        if (pid == 0) {
                vm_forget();
                _exit(0);
        }
}

/* An answer that nobody waits for any more is refused by the device, and that is all. */
static int carry_answers(int stream, int device) {
        struct fuse_out_header h;

        (void)signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
        for (;;) {
                ssize_t n = fd_read_full(stream, bytes, sizeof h);
                if (n < (ssize_t)sizeof h)
                        return n < 0 ? (int)n : -EPIPE;
                memcpy(&h, bytes, sizeof h);
                if (h.len < sizeof h || h.len > sizeof bytes)
                        return -EPROTO;
                n = fd_read_full(stream, bytes + sizeof h, h.len - sizeof h);
                if (n < 0 || (size_t)n < h.len - sizeof h)
                        return n < 0 ? (int)n : -EPIPE;
                if (h.unique == 0 && h.error == FUSE_NOTICE_MANY)
                        forget_unused();
                else if (write(device, bytes, h.len) < 0 && errno == ENODEV)
                        return 0;
        }
}

static int start(int from, int to, int (*carry)(int from, int to)) {
        pid_t pid = fork();

        if (pid < 0)
                return -errno;
        if (pid > 0)
                return 0;
        /* without them every file is gone, so that memory is never taken from them */
        (void)fd_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "-1000");
        _exit(carry(from, to) < 0);
}

int vm_fuse_mount(const char *at, int stream, struct err *err) {
        _cleanup_fd_ int own = stream, device = open(DEVICE, O_RDWR | O_CLOEXEC);
        char options[96];

        if (device < 0)
                return err_set(err, -errno, "the machine cannot open " DEVICE);
        int r = vm_forget_open(err);
        if (r < 0)
                return r;
        (void)snprintf(options, sizeof options,
                       "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", device);
        if (mount("files", at, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
                return err_set(err, -errno, "cannot mount the tree");
        r = start(device, own, carry_questions);
        if (r == 0)
                r = start(own, device, carry_answers);
        return r < 0 ? err_set(err, r, "cannot carry the tree") : 0;
}
