/* stockade.conf: `key = value` lines, driven by one table (conf.c), as profiles are by theirs.
 *
 * The file belongs to root (system mode) or to the user who runs the daemon; every key has a default, so that no file
 * is needed. Unknown keys, wrong units and duplicates are errors with line numbers. `stockade.conf(5)` is made from the
 * same table. The ceiling is the part that the warden holds every plan against. */
#pragma once

#include "base/err.h"

#define CONF_LIST_MAX  32
#define CONF_TEXT      256
#define CONF_SIZE_MAX  (64U * 1024) /* of the file */
#define CONF_UNLIMITED UINT64_MAX   /* "unlimited" of a ceiling, "never" of a time: compares as larger than anything */

struct conf_list {
        char items[CONF_LIST_MAX][CONF_TEXT];
        size_t count;
};

struct conf {
        /* ceiling: no sandbox gets more, whatever the operator process asks for */
        struct conf_list ceiling_read;  /* host paths that may be bound read-only, with what is below: /usr /etc … */
        struct conf_list ceiling_write; /* host paths that may be shared as writable; empty by default */
        struct conf_list ceiling_devices; /* device nodes beyond null, zero, full, urandom, tty */
        bool ceiling_whole_tree;          /* the profile high: the host's tree copy-on-write */
        bool ceiling_network;
        char docker_socket[CONF_TEXT], docker_runtime[CONF_TEXT]; /* for the driver docker; runtime "": the engine's */
        uint64_t ceiling_memory, ceiling_cpus, ceiling_processes; /* of one sandbox; cpus in thousandths */
        uint64_t ceiling_disk, ceiling_inodes;

        /* admission */
        uint64_t max_sandboxes, max_memory, max_cpus, max_disk;         /* of the host; 0: what it has */
        uint64_t owner_sandboxes, owner_memory, owner_cpus, owner_disk; /* of one owner; 0: as the host */
        uint64_t owner_logs;                                            /* bytes of the output of runs that is kept */
        uint64_t owner_snapshots, owner_images, owner_keys;             /* how many of them */
        uint64_t owner_clients, owner_watchers; /* connections, and those that follow something */
        uint64_t disk_reserve;                  /* free bytes below which writers are paused and new disks refused */

        struct conf_list drivers; /* ways of isolation that are offered, the preferred one first */

        /* defaults of sandboxes */
        char profile[CONF_TEXT]; /* when none is named */
        uint64_t idle, lifetime; /* milliseconds; CONF_UNLIMITED: never */
        uint64_t pool;           /* prepared sandboxes per profile in use */
        struct conf_list pool_drivers;
        uint64_t snapshot_pause; /* milliseconds for which one may stand still while its disk is copied */
        bool require_recording;  /* refuse and pause when the ledger cannot be written */

        /* the API */
        struct conf_list listen;      /* 127.0.0.1:7070 [::1]:7070; empty: no API */
        struct conf_list hosts;       /* names that clients may call us by, besides the addresses */
        struct conf_list origins;     /* of web pages that may call it */
        struct conf_list frames;      /* of web pages that may show its pages in a frame */
        struct conf_list proxies;     /* addresses that are believed about whom they ask for */
        struct conf_list operators;   /* wallets that act for all */
        struct conf_list wallets;     /* wallets that may sign in besides; "*": every one */
        char url[CONF_TEXT];          /* in texts that are signed; "": that of the first address */
        char ports_domain[CONF_TEXT]; /* of host names for ports: {port}-{id}.ports.example.org; "": there are none */
        uint64_t chain;
        bool plain_sign_in;
        uint64_t session;                                        /* milliseconds */
        char session_secret_file[CONF_TEXT];                     /* "": the environment, or one of our own */
        struct conf_list session_secret_previous;                /* files with those that were before it */
        char certificate[CONF_TEXT], certificate_key[CONF_TEXT]; /* files of the API's TLS; "": it speaks none */
        uint64_t rate_auth, rate_write, rate_sandbox, rate_read; /* requests of an address in a minute */
        uint64_t rate_owner;
        uint64_t connections, connections_address;

        char mode[CONF_TEXT]; /* cloud, instance */
        char instance_name[CONF_TEXT], instance_owner[CONF_TEXT], instance_profile[CONF_TEXT];
        char instance_image[CONF_TEXT];
        char network_name[CONF_TEXT], managing_operator[CONF_TEXT]; /* that the API shows */
        uint64_t service_id, blueprint_id;

        struct conf_list ssh_listen; /* where SSH is spoken; empty: nowhere */

        /* ids of our own processes; "" : without root, or numbers of our own */
        char operator_user[CONF_TEXT], gate_user[CONF_TEXT];
        char local_group[CONF_TEXT]; /* who may use the local socket besides root; "*": everybody */
        char log_level[CONF_TEXT];   /* error, warning, info, debug */
};

void conf_defaults(struct conf *c);

/* Defaults, then the file if there is one (path may be NULL). A file that somebody else could have written is refused:
 * it belongs to root or to us, and nobody else may write to it. *ret is untouched on failure. */
int conf_load(const char *path, struct conf *ret, struct err *err);

/* The same from an open file, or /dev/null for defaults alone; whoever opened it looked at its owner. The descriptor's
 * position is neither used nor moved. label names it in errors. */
int conf_load_fd(int fd, const char *label, struct conf *ret, struct err *err);

/* Over what is in *c, which is untouched on failure. "label:line: what is wrong", and as the hint what would be right.
 */
int conf_parse(const char *label, const char *text, struct conf *c, struct err *err);

/* The whole as a file with comments, which conf_parse reads back to the same. */
void conf_print(const struct conf *c, void (*line)(void *data, const char *text), void *data);

/* One row of the table, for documentation and completion; false past the last. */
struct conf_key {
        const char *section;  /* a heading; the same pointer for all rows below it */
        const char *name;     /* ceiling_read */
        char form[48];        /* what a value looks like: "paths", "size | unlimited" */
        const char *standard; /* the default as it would be written; "" for none */
        const char *about;    /* one or two sentences */
};
bool conf_key(size_t i, struct conf_key *ret);
