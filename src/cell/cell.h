/* The cell: starts a process in namespaces of its own and executes a plan in it, ending in exec of the guest.
 *
 * cell_start clones, and the child walks the plan's steps from PHASE_MOUNT on. What the child does is decided by the
 * plan and by struct cell_context, which its parent filled before the clone; between clone and exec it allocates
 * nothing, takes no lock and logs nothing. A failing step is reported as data over the report socket.
 *
 * As root the child is cloned without a user namespace, builds its tree as owner of the mount namespace, and joins a
 * user namespace that was made beforehand last of all: nobody inside owns the mount, network, pid, ipc or uts
 * namespace. Rootless, the user namespace comes first, and a second one locks the mounts at the end.
 *
 * A cell of a run dies with its launcher. One that `lives` does not: its PID 1 serves whoever connects to a socket that
 * it was born with, and the warden that started it may come and go. One with a `box` builds the same tree and then
 * executes a driver's program in place of the guest (docs/protocol/driver.md). */
#pragma once

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/fd.h"
#include "cell/cgroup.h"
#include "wire/plan.h"
#include "wire/report.h"

#define CELL_GUEST_PATH "/run/stockade/guest"
#define CELL_ID_RANGE   65536U
#define CELL_ID_FIRST   1073741824U /* 0x40000000: host ids of sandboxes that root starts: CELL_ID_SLOTS ranges */
#define CELL_ID_SLOTS   8192U
#define CELL_WATCH_MAX  8
#define CELL_OWNER_MAX  4

/* A user namespace that maps one owner of host files to the user inside, for idmapped mounts. */
struct cell_owner {
        uid_t uid;
        gid_t gid;
        int user_ns;
};

/* What the warden puts below a plan's own confinement, whatever the plan says. */
struct cell_base {
        const void *filter; /* a seccomp program; NULL: the plan's is the same */
        size_t filter_size;
        bool landlock; /* a domain of its own: no devices are made, no signal and no abstract socket leaves */
        /* May this step have what its host path led to? Asked with the descriptor that is used then. Allocates nothing,
         * changes nothing. */
        bool (*permits)(const void *data, const struct plan_step *s, int source);
        const void *data;
};

/* A sandbox with a box (docs/protocol/driver.md): once the tree stands, a program of ours is executed in place of the
 * guest, in the cell's namespaces, with the host's tree as its root. */
struct cell_box {
        const char *program; /* host path */
        char *const *argv;
        const char *folder; /* host path of the sandbox's folder; in the cell's mount namespace the tree covers it */
        int plan;           /* what BOX_PLAN_FD is */
};

#define CELL_NOT_PERMITTED (-ENOTNAM) /* the error of a step that `permits` refused; no system call here has it */

struct cell_context {
        const struct plan *plan;
        const struct cgroup *cgroup; /* NULL: none */
        int report;                  /* the child's end, SOCK_SEQPACKET */
        int report_outside; /* the other end; the child closes its copy, so that it can notice that we are gone */
        bool rootless;
        uid_t host_uid; /* rootless: the caller's ids, mapped to the user inside */
        gid_t host_gid;
        uint32_t id_base; /* root: first host id of this sandbox's range */
        uid_t tree_uid;   /* the user, as the mounting process numbers it */
        gid_t tree_gid;
        int user_ns; /* root: joined by OP_IDS */
        struct cell_owner owners[CELL_OWNER_MAX];
        size_t owner_count;
        const char *skeleton; /* host path of a directory made by tree_skeleton from this plan; NULL: build in memory */
        bool tty;
        struct winsize size; /* of the terminal, before the command sees it; all 0: not known */
        bool overlay;        /* the plan has an OP_OVERLAY, of this directory: */
        dev_t overlay_dev;
        ino_t overlay_ino;
        int stdio[3];     /* what the command gets; -EBADF: the terminal */
        int authority[3]; /* OP_NETWORK with STEP_TRUST: contents of ca.pem, ca-bundle.pem and ca.jks (wire/gate.h) */
        bool learn;       /* calls that name files are told to whoever reads from the other end of: */
        int watcher;
        bool lives;         /* does not die with its parent; PID 1 gets `listener` as GUEST_LISTEN_FD */
        int listener;       /* only if it lives */
        unsigned spare_fds; /* descriptors from this number on are none of the cell's; 0: it has a copy of all */
        bool apart;         /* it has memory of its own from the start, and nobody waits for its exec */
        int disk;           /* OP_DISK, OP_ROOT_DISK: a mount that is not attached; only if it lives */
        const struct cell_base *base; /* NULL: none */
        const struct cell_box *box;   /* NULL: native. Root, and only if it lives */
        char *const *argv;            /* of the guest, which passes it on: NULL-terminated */
        char *const *envp;

        /* used by the child alone */
        int host;   /* O_PATH of the host's root, until OP_PIVOT */
        int folder; /* box: box->folder, as it is below the tree */
        int root;   /* the new root */
        int proc;   /* a writable view of the new /proc that is never attached inside */
        int ruleset;
        uint64_t landlock_handled;
        unsigned landlock_flags;
        int watch[CELL_WATCH_MAX];
        size_t watch_count;
        int upper;  /* the overlay's upper directory */
        bool marks; /* the overlay that is being made has to keep marks of its own on files */
        int empty;  /* an empty file system to cover directories with */
        int null;   /* the null device, to cover files with */
        int anchor; /* where layers of overlays are attached while the tree is built */
};

#define CELL_REPORT_FDS (CELL_WATCH_MAX + 3)

/* Does cell_start wait for the exec, unless it is told not to? (base/kernel.h: kernel_clone3_vfork) */
#if defined(__x86_64__) && defined(STOCKADE_MUSL)
#define CELL_WAITS true
#else
#define CELL_WAITS false
#endif

/* Clones the cell. The parent gets a pidfd and the pid; a failure to clone is an error, a failing step arrives as a
 * report. */
int cell_start(struct cell_context *c, pid_t *ret_pid, int *ret_pidfd, struct err *err);

/* Makes a user namespace with these maps and returns a descriptor for it. Text is as in /proc/PID/uid_map. A process
 * that makes more than a few reaps the helpers in between; it must not wait for children by itself before. */
int cell_user_namespace(const char *uid_map, const char *gid_map, struct err *err);
void cell_user_namespace_reap(void);

/* Receives one report. Returns 1, 0 at end of file, -EAGAIN, or -errno. Surplus descriptors are closed. ret_words: of
 * a REPORT_BOX_FAILED, checked, and empty of any other; NULL: such a report is -EBADMSG. */
int cell_receive(int socket, struct report *ret, struct report_words *ret_words, int fds[CELL_REPORT_FDS],
                 size_t *ret_fd_count);

/* A sentence for a failed step: names the step, its path and the cause. */
int cell_explain(const struct plan *p, const struct report *r, struct err *err);

/* Makes what a plan's root of memory would hold (files, links, mount points) in an empty directory instead, so that
 * later cells can use it read-only: a bind is cheaper than sixty system calls. Returns 0 or -errno. base as in struct
 * cell_context. */
int tree_skeleton(const struct plan *p, const struct cell_base *base, int directory);

/* --- between the files of the cell --- */

int tree_step(struct cell_context *c, const struct plan_step *s);    /* PHASE_MOUNT */
int enter_step(struct cell_context *c, const struct plan_step *s);   /* PHASE_ENTER */
int confine_step(struct cell_context *c, const struct plan_step *s); /* PHASE_CONFINE */
int listen_install(const struct cell_context *c);                    /* just before the plan's own filter */
int enter_session(void);                                             /* of its own, with a keyring of its own */
int box_open_folder(struct cell_context *c);
int box_step(struct cell_context *c, const struct plan_step *s); /* PHASE_ENTER of a cell with a box */
int box_exec(struct cell_context *c);                            /* in place of PHASE_EXEC; returns only on failure */
int cell_send(int socket, const struct report *r, const int *fds, size_t fd_count);
