/* What is said between the operator and a sandbox's guest (PID 1 inside): docs/protocol/guest.md is the specification.
 *
 * One byte stream, framed: a head of 16 bytes, then `size` bytes of payload, little-endian. Underneath is a Unix
 * socket, later virtio-serial or vsock. The guest runs inside and is not trusted: what it says is read as hostile input
 * (guest_read checks every field), and no policy depends on it. It reads what we say with the same function.
 *
 * A channel is a number that the operator chooses: of a run (from 1, never used twice in a sandbox's life between two
 * starts), or of a request (files, ports, lists), told apart by the kind. A guest serves one connection at a time; a
 * newer one takes the place of the older, whose requests end; runs go on.
 *
 * Output of runs has absolute offsets per stream. The guest keeps what was not yet confirmed (GUEST_CREDIT) in a ring
 * and stops reading from a program whose ring is full. A terminal's ring also keeps what was confirmed, as long as it
 * has room, and while nobody is attached it forgets its oldest bytes instead of stopping the program. A connection is
 * attached to the runs that it started, from their first byte; after a new connection the operator asks for
 * GUEST_LIST_RUNS and attaches to each stream of each run from the offset that it has.
 *
 * Windows: no side sends more than GUEST_WINDOW bytes of a request's DATA, or of a run's INPUT, or of one of a run's
 * outputs, beyond the last CREDIT for them; of the DATA of a READ or TAR_OUT, no more than GUEST_BULK_WINDOW if the
 * operator's HELLO has version 2 or above. Every stream begins with a window of credit; CREDIT names an absolute
 * offset (the bytes taken since the stream began; of an output, the first offset that is still wanted). */
#pragma once

#include "base/buf.h"
#include "wire/wire.h"

#define GUEST_VERSION      4U
#define GUEST_LISTEN_FD    4 /* the guest's listening socket, inherited */
#define GUEST_HEAD         16
#define GUEST_PAYLOAD_MAX  (256U * 1024)
#define GUEST_DATA_MAX     (64U * 1024)  /* bytes of one OUTPUT, INPUT or DATA; never none */
#define GUEST_WINDOW       (64U * 1024)  /* bytes under way beyond the last CREDIT */
#define GUEST_BULK_WINDOW  (256U * 1024) /* likewise of files and archives that are read */
#define GUEST_RING         (64U * 1024)  /* of each of a run's outputs */
#define GUEST_SCROLLBACK   (256U * 1024) /* of a terminal */
#define GUEST_RUNS_MAX     512
#define GUEST_REQUESTS_MAX 64
#define GUEST_ARGS_MAX     1024 /* arguments; as many variables */
#define GUEST_PATH_MAX     4096 /* with its NUL */
#define GUEST_TEXT_MAX     4096 /* with its NUL */
#define GUEST_FDS_MAX      8    /* with EXEC: files of cgroup leaves to write "0" to, before exec */

enum guest_kind {
        /* both ways */
        GUEST_HELLO = 1, /* version, features; the first frame of each side */
        GUEST_DATA,      /* bytes of a request's stream: file, archive, port */
        GUEST_CREDIT,    /* stream, offset: everything before it has been taken */

        /* to the guest: runs */
        GUEST_EXEC = 16, /* run, flags, rows, cols, path (working directory), fds, argv, env; the descriptors of its
                          * cgroup leaf travel with the first byte of the frame */
        GUEST_INPUT,     /* run, bytes */
        GUEST_INPUT_END, /* run: no more input */
        GUEST_SIGNAL,    /* run, number; GUEST_TO_GROUP: to its process group */
        GUEST_RESIZE,    /* run, rows, cols */
        GUEST_ATTACH,    /* run, stream, offset: send from here (or from the oldest byte that is kept) */
        GUEST_FORGET,    /* run that has ended: its rings and its result are not needed any more */
        GUEST_LIST_RUNS, /* request; answered by one RUN per run, then END */

        /* to the guest: requests. Paths are absolute. Each is answered by exactly one END, last */
        GUEST_STAT = 32, /* path: ENTRY, END */
        GUEST_LIST,      /* path: ENTRY per entry, then END */
        GUEST_READ,      /* path, offset, length (UINT64_MAX: to the end): DATA, then END */
        GUEST_WRITE,     /* path, mode, flags: DATA from us, FINISH; atomically, then END */
        GUEST_MKDIR,     /* path, mode, flags: GUEST_PARENTS */
        GUEST_MOVE,      /* path, target, flags: GUEST_NO_REPLACE */
        GUEST_REMOVE,    /* path, flags: GUEST_RECURSIVE */
        GUEST_TAR_OUT,   /* path: DATA (a tar), then END */
        GUEST_TAR_IN,    /* path: DATA from us, FINISH, then END */
        GUEST_WATCH,     /* path, flags: OPENED, then CHANGE frames until CANCEL */
        GUEST_CONNECT,   /* port on the sandbox's loopback: OPENED, then DATA both ways, FINISH both ways, END */
        GUEST_PROCESSES, /* PROCESS per process, then END */
        GUEST_USAGE,     /* path: one END with enum guest_usage numbers of its file system */
        GUEST_FINISH,    /* request: this side of the stream is complete (from the guest: CONNECT only) */
        GUEST_CANCEL,    /* request: stop, whatever it does; answered by END with -ECANCELED. Of one that has ended
                          * already (its END may be under way) nothing is said */
        GUEST_WRITE_IF,  /* since version 3: as WRITE, of a file that has this size, time_ms and inode; otherwise END
                          * with -ESTALE */
        GUEST_LEAF_END,  /* since version 4: run, flags: GUEST_KILL. Of a run that has no leaf outside: what it started
                          * is ended, or it is asked whether something lives on. END with 0 when nothing does, with
                          * -EBUSY otherwise, and enum guest_leaf numbers; -EOPNOTSUPP from a guest that cannot tell */

        /* from the guest */
        GUEST_STARTED = 64, /* run, number: pid inside */
        GUEST_OUTPUT,       /* run, stream, offset, bytes */
        GUEST_EXITED,       /* run, number: wait status, rusage, newest; or error and text: why it could not be started.
                             * Once for each run on a connection that is attached to all of its streams, after the
                             * output that had been read by then */
        GUEST_RUN,          /* request, run: one run as the guest knows it */
        GUEST_ENTRY,        /* request: one file */
        GUEST_CHANGE,       /* request, number: enum guest_change, path below the watched one, target, mode */
        GUEST_OPENED,       /* request: the connection to the port stands; the watch is set */
        GUEST_PROCESS,      /* request: one process */
        GUEST_END,          /* request: 0 or -errno, numbers, a sentence */
};

/* The first three are outputs of a run. CREDIT has the others too. */
enum guest_stream {
        GUEST_OUT,
        GUEST_ERR,
        GUEST_TTY,
        GUEST_STREAMS,
        GUEST_IN = GUEST_STREAMS, /* CREDIT from the guest: of a run's input */
        GUEST_OF_REQUEST,         /* CREDIT: the channel is a request's, and this is of its DATA */
};

/* Flags of EXEC, WRITE, MKDIR, MOVE, REMOVE, SIGNAL, EXITED, RUN, WATCH, LEAF_END. */
enum {
        GUEST_TERMINAL = 1 << 0, /* exec, run: on a terminal of its own */
        GUEST_STDIN = 1 << 1,    /* exec, run: input follows; otherwise it is empty. A terminal always takes input */
        GUEST_RECURSIVE = 1 << 2,
        GUEST_PARENTS = 1 << 3, /* write, mkdir: make folders that are missing on the way; mkdir: fine if it is there */
        GUEST_TO_GROUP = 1 << 4,
        GUEST_ENDED = 1 << 5,      /* run: has ended; number is its wait status; error, rusage are its result */
        GUEST_NO_REPLACE = 1 << 6, /* write, move: -EEXIST when the target is there */
        GUEST_OPEN = 1 << 7,       /* run, exited: some process still holds its output, so more may come */
        GUEST_KILL = 1 << 8,       /* leaf-end: whatever lives is killed, and waited for */
};

enum guest_change {
        GUEST_MADE = 1,
        GUEST_REMOVED,
        GUEST_CHANGED,    /* contents */
        GUEST_ATTRIBUTES, /* mode, owner, times */
        GUEST_MOVED,      /* from path to target, both watched */
        GUEST_LOST,       /* changes were missed: look again. path is "" */
        GUEST_CHANGES,
};

enum guest_usage { GUEST_BYTES, GUEST_BYTES_FREE, GUEST_INODES, GUEST_INODES_FREE, GUEST_NUMBERS };
/* What a run and all that it started have used and were refused; UINT64_MAX: not known. */
enum guest_leaf { GUEST_LEAF_CPU, GUEST_LEAF_MEMORY, GUEST_LEAF_OOMS, GUEST_LEAF_REFUSALS, GUEST_LEAF_NUMBERS };
enum { GUEST_WRITE_TIME = 1, GUEST_WRITE_INODE }; /* numbers of the END of WRITE, since version 3 */

struct guest_rusage {
        uint64_t user_us, system_us, memory_peak; /* bytes */
};

/* One frame, read. What its kind does not have is zero (texts: ""). Pointers are into the payload. */
struct guest_message {
        enum guest_kind kind;
        uint32_t channel; /* run or request */
        uint32_t flags;
        uint32_t version, features; /* HELLO */
        uint32_t run;               /* RUN, LEAF_END: which one (the channel is the request's) */
        enum guest_stream stream;
        uint64_t offset, length; /* RUN: bytes of input that came, and of these, that were taken */
        const uint8_t *data;
        size_t data_size;
        uint16_t rows, cols;
        uint16_t port;
        uint32_t mode;                    /* ENTRY, CHANGE: with the file's type; PROCESS: a letter, as in /proc */
        int32_t number;                   /* signal; pid; wait status; enum guest_change */
        int32_t parent;                   /* PROCESS: pid of its parent */
        int32_t error;                    /* 0 or -errno */
        const char *path, *target, *text; /* text: a sentence; of PROCESS, a command line; no control bytes */
        uint32_t argc, envc;              /* EXEC; walk with guest_strings */
        uint32_t fds;                     /* EXEC: how many descriptors come with it */
        struct wire strings;              /* EXEC: argv then env */
        uint64_t oldest[GUEST_STREAMS];   /* RUN: first byte that is kept */
        uint64_t newest[GUEST_STREAMS];   /* RUN, EXITED: one past the last byte that was read */
        struct guest_rusage rusage;       /* EXITED, RUN; PROCESS: but for the peak */
        uint64_t size, time_ms, inode;    /* ENTRY; PROCESS: memory, start (ms since 1970) */
        uint64_t numbers[GUEST_NUMBERS];  /* END: of READ, WRITE, TAR_*: bytes, and of TAR_* entries, of WRITE
                                           * time_ms and inode; enum guest_usage, guest_leaf */
        uint32_t uid, gid;                /* ENTRY, PROCESS */
};

/* Appends one frame. For EXEC argv and envp are given beside it (NULL-terminated; argc and envc are counted here);
 * otherwise NULL. A message that guest_read would refuse marks b failed; so the buffer has to be given up then. NULL
 * texts are "". */
void guest_put(struct buf *b, const struct guest_message *m, const char *const *argv, const char *const *envp);

/* Reads the head: payload size and kind. 0, or -EBADMSG for what can be no frame. */
int guest_head(const uint8_t head[GUEST_HEAD], uint32_t *ret_size, uint16_t *ret_kind, uint32_t *ret_channel);

/* Reads and checks one whole frame (head and payload): 0 or -EBADMSG, and then *ret is untouched. */
int guest_read(const void *frame, size_t size, struct guest_message *ret);

/* Copies the strings of a checked EXEC into pointers (argc + 1 + envc + 1 of them, each part NULL-terminated). */
void guest_strings(const struct guest_message *m, const char **argv, const char **envp);

const char *guest_kind_name(enum guest_kind k); /* "exec"; "?" for what is none */
