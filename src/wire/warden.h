/* What the operator asks of the warden: one message per packet on a SOCK_SEQPACKET pair, descriptors alongside.
 * docs/protocol/warden.md is the specification.
 *
 * The warden is root and trusts nobody: every request has a row in one table (who may ask, with how many bytes and
 * which descriptors), every plan must fit under the ceiling, every name is sixteen hexadecimal digits. It parses no
 * JSON, no SQL and no YAML. Requests carry a serial number; answers carry it back, in any order, because long work
 * (copying, packing, unpacking) is done by children. The operator may die at any moment: the warden then starts
 * another, which asks WARDEN_LIST and goes on with what is there.
 *
 * Ids: a sandbox, a disk, an image are named by 16 hexadecimal digits that the operator draws at random. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "wire/wire.h"

#define WARDEN_VERSION       1U
#define WARDEN_FD            3            /* the operator's end of the pair */
#define WARDEN_PACKET_MAX    (32U * 1024) /* plans travel as sealed memfds */
#define WARDEN_PACKED_MAX    8192         /* of a message of ours */
#define WARDEN_FDS_MAX       16
#define WARDEN_ID_SIZE       17 /* with its NUL */
#define WARDEN_LAYERS_MAX    64 /* sealed disks below the top one */
#define WARDEN_TEXT_SIZE     512
#define WARDEN_SANDBOXES_MAX 4096 /* at one time */
#define WARDEN_LEAVES_MAX    256  /* of one sandbox at one time, its guest's not counted */
#define WARDEN_GATES_MAX     256  /* at one time; a slot is below it */
#define WARDEN_PAPER_MAX     (4U << 20)
#define WARDEN_WORK_MAX      4 /* children that pack or unpack at one time, and that copy; more requests wait */

enum warden_kind {
        WARDEN_HELLO = 1, /* version → version, flags (ROOTLESS, NO_FREEZE), numbers (enum warden_fact); first of all */
        WARDEN_LIST,      /* → one WARDEN_ITEM per sandbox, disk, image, gate; then the answer */
        WARDEN_START,     /* id, driver, disk, layers, image; fds: plan, and (flag AUTHORITY) ca.pem, ca-bundle, ca.jks
                           * → pid, start time; fds: connection to the guest, then (flag NETWORKED in the answer)
                           * enum gate_fd TCP to MEMORY. -ENODATA: power was lost in the first moments of its disk,
                           * and the disk with it */
        WARDEN_CONNECT,   /* id → fd: a new connection to its guest */
        WARDEN_NETWORK,   /* id → fds: the gate's sockets of this sandbox again, TCP to MEMORY, and KEY if one is
                           * kept (flag AUTHORITY in the answer); -ENONET: it has no network, or it was cut */
        WARDEN_KEEP_KEY,   /* id; fd: the gate's authority key, kept out of reach for the next gate */
        WARDEN_LEAF,       /* id, run → fds: files to write "0" to, for a process that enters the run's leaf (none:
                            * this host gives us no cgroups) */
        WARDEN_LEAF_END,   /* id, run, flag KILL → usage; removes the leaf if nothing is left in it (else -EBUSY) */
        WARDEN_USAGE,      /* id, run (0: the whole sandbox) → usage */
        WARDEN_FREEZE,     /* id */
        WARDEN_THAW,       /* id; -EBUSY while its disk is copied */
        WARDEN_STOP,       /* id → usage; everything in it is killed, unmounted and removed; its disks stay. 0 also
                            * when it is not there */
        WARDEN_CUT,        /* id: its network sockets are closed here; the operator takes them from the gate */
        WARDEN_GATE,       /* slot (the operator's number for an owner) → pid; fd: the control socket of a new gate;
                            * one that had the slot is ended */
        WARDEN_DISK_MAKE,  /* disk, size, inodes, owner */
        WARDEN_DISK_DROP,  /* disk; 0 also when it is not there; -EBUSY while it is in use */
        WARDEN_DISK_CLONE, /* disk → target: a copy of the image as it is now (flag FROZEN: of a running sandbox, which
                            * the caller froze: -EBUSY if it is not; it is flushed first). -ECANCELED: that sandbox
                            * ended meanwhile; -ETIMEDOUT: it took longer than numbers[0]
                            * milliseconds (0: it may take any time) */
        WARDEN_DISK_SPACE, /* disk → numbers (enum warden_space); flag DURABLE: when a loss of power would not lose it
                            */
        WARDEN_DIFF, /* what layers[split..count) changed since layers[0..split), both over the image (or over nothing);
                      * fd: JSON lines are written to it → numbers: bytes, entries */
        WARDEN_EXPORT,  /* layers, image; fd: a tar.zst is written to it → numbers: bytes, entries */
        WARDEN_IMPORT,  /* disk, size, inodes; fd: a tar.zst is read from it → numbers: bytes, entries, skipped */
        WARDEN_FLATTEN, /* layers, image → target, size, inodes: one disk that shows over the image what all of them
                         * show */
        WARDEN_IMAGE,   /* image, size and inodes (caps), text (where it came from); fd: an archive
                         * → numbers: bytes, entries, skipped; text: what it was */
        WARDEN_IMAGE_DROP, /* image; 0 also when it is not there; -EBUSY while it is in use */
        WARDEN_POOL,       /* size, inodes, numbers[0]: keep so many blank disks of this kind ready */
        WARDEN_DOWN,       /* `stockade down`: the warden, the operator and the gates end; sandboxes go on, or (flag
                            * KILL) are stopped first */
        WARDEN_READ,  /* layers, image; fds: a question, and where the answer goes (pack/read.c) → numbers: bytes,
                       * entries */
        WARDEN_PAPER, /* paper → numbers[0]: its bytes; fd: a memory file with them that nobody can change. -ENOENT:
                       * there is none; -EBUSY: it is being got already */
        WARDEN_KIND_COUNT,

        /* from the warden */
        WARDEN_ANSWER = 100, /* serial, error, and what the request returns */
        WARDEN_ITEM,         /* serial: one thing of LIST */
        WARDEN_GONE,         /* id: its PID 1 ended without WARDEN_STOP; error: its wait status or -1; usage */
        WARDEN_GATE_GONE,    /* slot: this gate ended */
        WARDEN_PRESSURE,     /* numbers[0]: free bytes of the state's file system fell below (1) or rose above (0) the
                              * mark; numbers[1]: how many there are */
        WARDEN_END,          /* please end: `stockade down` */
        WARDEN_FROM_END,
};

enum {
        WARDEN_AUTHORITY = 1 << 0, /* START: three descriptors of a TLS authority come along; GATE: it may open TLS */
        WARDEN_KILL = 1 << 1,      /* LEAF_END: kill what is in it first; DOWN: stop every sandbox */
        WARDEN_FROZEN = 1 << 2,    /* DISK_CLONE; ITEM: the sandbox is frozen */
        WARDEN_READONLY = 1 << 3,  /* ITEM: a disk that is in use as a layer */
        WARDEN_NETWORKED = 1 << 4, /* ANSWER to START, ITEM: has a network */
        WARDEN_ROOTLESS = 1 << 5,  /* ANSWER to HELLO: disks, images and other ids are not to be had */
        WARDEN_NO_FREEZE = 1 << 6, /* ANSWER to HELLO: this host has no cgroup v2, so nothing can be paused */
        WARDEN_IN_USE = 1 << 7,    /* ITEM: a disk or an image that a sandbox has */
        WARDEN_ABANDON =
                1 << 8, /* STOP: its disk is going to be dropped; what is not on the host yet need not get there */
        WARDEN_DURABLE = 1 << 9, /* DISK_SPACE: what was written to it is put on the host's disk first */
};

enum warden_item { WARDEN_ITEM_SANDBOX, WARDEN_ITEM_DISK, WARDEN_ITEM_IMAGE, WARDEN_ITEM_GATE, WARDEN_ITEM_COUNT };

/* What there is to read about this host. */
enum warden_paper {
        WARDEN_PAPER_DOCTOR,  /* what `stockade doctor --json` says now */
        WARDEN_PAPER_VERIFY,  /* the latest report of `stockade verify`: JSON */
        WARDEN_PAPER_PAGE,    /* the same as a page */
        WARDEN_PAPER_DRIVERS, /* what probes of the declared drivers say: {"drivers": […]} */
        WARDEN_PAPER_COUNT,
};

/* numbers of the answer to HELLO */
enum warden_fact {
        WARDEN_FACT_MEMORY, /* bytes of the host */
        WARDEN_FACT_CPUS,   /* thousandths of processors that we may use */
        WARDEN_FACT_DISK,   /* bytes of the state's file system */
        WARDEN_FACT_FREE,   /* of them free to us */
        WARDEN_FACT_SSH,    /* where SSH listens: a port of 16 bits for each of ssh_listen, the first one lowest */
        WARDEN_FACT_COUNT,
};

/* numbers of the answer to DISK_SPACE */
enum warden_space {
        WARDEN_SPACE_HOST, /* bytes that it takes on the host */
        WARDEN_SPACE_BYTES,
        WARDEN_SPACE_BYTES_USED, /* as its file system says; 0 while it is not mounted */
        WARDEN_SPACE_INODES,
        WARDEN_SPACE_INODES_USED,
        WARDEN_SPACE_COUNT,
};

/* UINT64_MAX where the host does not say. */
struct warden_usage {
        uint64_t cpu_us, memory_now, memory_peak, processes_now, processes_peak, read_bytes, write_bytes;
        uint64_t oom_kills, fork_refusals, throttled_us;
};

/* One message, read. What its kind does not have is zero or "". Pointers are into the packet. */
struct warden_message {
        enum warden_kind kind;
        uint32_t serial; /* from 1; 0 in what the warden says unasked */
        uint32_t flags;
        uint32_t version;
        int32_t error;               /* ANSWER: 0, -errno or ERR_*; then text and hint say it in words */
        char id[WARDEN_ID_SIZE];     /* sandbox, disk or image */
        char target[WARDEN_ID_SIZE]; /* the other disk */
        char image[WARDEN_ID_SIZE];  /* START, DIFF, EXPORT, ITEM: the image below all layers; "" for the host's /usr */
        char disk[WARDEN_ID_SIZE];   /* START, ITEM: the top disk; "" for none (memory) */
        char layers[WARDEN_LAYERS_MAX][WARDEN_ID_SIZE]; /* newest first */
        uint32_t layer_count, split;
        uint32_t run;
        uint32_t slot;
        uint32_t item;   /* enum warden_item */
        uint32_t driver; /* enum driver: START, ITEM of a sandbox */
        uint32_t paper;  /* enum warden_paper */
        uint64_t size, inodes;
        uint64_t owner; /* DISK_MAKE: whose space this is; a number of the operator's */
        uint64_t pid, start_time;
        uint64_t numbers[6];
        struct warden_usage usage;
        const char *text, *hint; /* never NULL in what was read; made printable and cut by warden_send */
};

/* Sends one message. Whether it waits for room is the socket's own mode. 0, -EAGAIN, -EINVAL for a message that
 * warden_read would refuse or that has other descriptors than its kind, or -errno. */
int warden_send(int socket, const struct warden_message *m, const int *fds, size_t fd_count);

/* The bytes of a message, for somebody who sends them later: how many, or -EINVAL. */
ssize_t warden_pack(const struct warden_message *m, size_t fd_count, uint8_t ret[WARDEN_PACKED_MAX]);

/* Receives one message into packet (WARDEN_PACKET_MAX bytes). 1, 0 at end of file, -EAGAIN, -EBADMSG, or -errno.
 * Descriptors of a refused message are closed. An answer whose descriptors we have no room for has error -EMFILE. Which
 * kinds may come from the other end is the caller's to know. */
int warden_receive(int socket, void *packet, struct warden_message *ret, int fds[WARDEN_FDS_MAX], size_t *ret_count);

/* Reads and checks the bytes of one message: 0 or -EBADMSG, and then *ret is untouched. */
int warden_read(const void *packet, size_t size, struct warden_message *ret);

bool warden_is_id(const char *text);   /* exactly sixteen of [0-9a-f] */
bool warden_is_request(uint32_t kind); /* from the operator */
const char *warden_kind_name(enum warden_kind k);
