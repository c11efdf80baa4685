/* `stockade run --learn`: what was refused, and the smallest profile that would have let it pass.
 *
 *   learn_prepare  forks the watcher, before the cell is cloned
 *   the cell       sends the watcher the listener of a second filter (cell/listen.c)
 *   learn_watch    the watcher: notes what each call names, then always says "go on"
 *   learn_judge    would that be refused inside, and would it work outside?
 *   learn_finish   ends the watcher, hands its notes to `stockade-policy learn`, which writes the profile
 *
 * Nothing here allows anything: the sandbox is the one that its profile says. The watcher is a process of its own, so
 * that a flood of calls, or a path that leads to a file system which does not answer, holds up neither the relay nor
 * the limits. Its notes are in memory that it shares with the launcher: whenever it is ended, what it noted is there.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"
#include "wire/gate.h"

struct run;

#define LEARN_ENTRIES_MAX 4096
#define LEARN_TEXT_MAX    (1 << 20)
#define LEARN_HOSTS_MAX   512
#define LEARN_FILE_MAX    (4 << 20)
#define LEARN_MAGIC       "stklrn1\n"
#define LEARN_PATH_SIZE   4096

/* What was wanted with a path. */
enum learn_kind {
        LEARN_READ = 1, /* it is on the host and not inside */
        LEARN_MAKE,     /* something was to be made in this folder */
        LEARN_CHANGE,   /* this file or folder was to be changed or removed */
        LEARN_EXEC,     /* a program */
        LEARN_CONNECT,  /* a socket that somebody on the host listens on */
        LEARN_KIND_COUNT,
};

enum {
        LEARN_FOLDER = 1 << 0,   /* it is one */
        LEARN_INSIDE = 1 << 1,   /* it is there inside, but may not be used this way */
        LEARN_FULL = 1 << 2,     /* MAKE: the folder inside has something in it, which an empty place would cover */
        LEARN_OWN = 1 << 3,      /* EXEC: made inside, not the host's */
        LEARN_UNUSABLE = 1 << 4, /* its permissions would refuse it inside whatever a profile says */
        LEARN_DEVICE = 1 << 5,
        LEARN_STOCKADE = 1 << 6, /* one of our own folders, or above or below one */
        LEARN_USED = 1 << 7,     /* READ: opened or entered, not only looked for */
        LEARN_FLAGS = (1 << 8) - 1,
};

struct learn_entry {
        uint64_t hash; /* of kind and path */
        uint64_t count;
        uint32_t path; /* where its text begins; 0 is "" */
        uint32_t real; /* where it leads on the host, if that is somewhere else */
        uint16_t kind, flags;
};

/* Filled by the watcher alone; an entry counts once entry_count says so. */
struct learn_notes {
        struct learn_entry entries[LEARN_ENTRIES_MAX];
        uint32_t entry_count, text_used;
        uint64_t calls;  /* that were told */
        uint64_t unread; /* whose path could not be read */
        uint64_t more;   /* refused ones that found no room here */
        char text[LEARN_TEXT_MAX];
};

struct learn_host {
        char host[HOSTNAME_SIZE];
        uint16_t port; /* 0: only its address was asked for */
        enum gate_reason reason;
        uint64_t count;
        char method[32], path[256];
};

struct learn {
        pid_t watcher;
        struct learn_notes *notes; /* shared with the watcher */
        struct learn_host hosts[LEARN_HOSTS_MAX];
        size_t host_count;
        uint64_t more_hosts;
        int folder;     /* where the profile goes */
        char name[256]; /* and its name there */
        /* afterwards */
        bool written;
        uint64_t files, programs;
        uint64_t reached; /* hosts, each counted once */
};

/* --- for the parts of a run; all do nothing without --learn --- */

int learn_prepare(struct run *r, struct err *err); /* before the cell is cloned */
void learn_started(struct run *r);                 /* after it was */
void learn_gate_event(struct run *r, const struct gate_event *e);
int learn_finish(struct run *r, struct err *err); /* the sandbox has ended: writes the profile, says what was refused */
void learn_record(const struct run *r,
                  struct json *j); /* "learned": null, or what was refused and where it is written */
void learn_end(struct run *r);     /* frees; safe at any point */

/* --- between the files of learn --- */

_noreturn_ void learn_watch(int socket, struct learn_notes *notes); /* learn_watch.c */

/* learn_judge.c: path is absolute as the sandbox sees it, or empty. */
struct learn_call {
        enum learn_kind kind;
        bool follow; /* a link at the end is followed */
        bool used;   /* opened or entered, not only looked for */
        bool create; /* CHANGE: made if it is not there */
        int inside;  /* what the path is inside, from learn_look; or -errno */
        char path[2 * LEARN_PATH_SIZE];
};
void learn_look(int root, struct learn_call *c); /* inside, before the call goes on */
/* On the host, after the call went on: how long that takes must not tell the caller what is there. */
void learn_judge(int root, struct learn_call *c, struct learn_notes *notes);
void learn_note(struct learn_notes *n, enum learn_kind kind, unsigned flags, const char *path, const char *real);

/* What goes to `stockade-policy learn` on its standard input: LEARN_MAGIC, then entries, hosts and totals. */
void learn_pack(const struct learn *l, char *const *argv, struct buf *out);
