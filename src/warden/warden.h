/* The warden: the one privileged process. It builds and destroys sandboxes and does nothing else.
 *
 * It talks to one operator, which it started and may start again, over one socket (wire/warden.h); link.c has the table
 * of what may be asked. It parses no JSON, no SQL and no YAML, opens no connection, has no threads. One loop; whatever
 * may take long is done by a child (work.c).
 *
 * Sandboxes are not its children in any sense that matters: what a successor has to know about one is in
 * <run>/sandboxes/<id>/info before anybody is told that it runs, and whatever a killed warden left half-made a
 * successor finds and removes (adopt.c). */
#pragma once

#include "base/loop.h"
#include "cell/cgroup-nest.h"
#include "cell/net.h"
#include "cell/skeleton.h"
#include "disk/volume.h"
#include "warden/ceiling.h"
#include "wire/driver.h"
#include "wire/warden.h"

#define WARDEN_NESTS   8
#define WARDEN_BUCKETS 1024
#define WARDEN_DOORS   4
#define WARDEN_HIGH_FD 64 /* descriptors that are kept for long are above this: see high_fd */

struct warden;

/* Long work has slots by what it may have to wait for. */
enum work_lane {
        WORK_PACKING, /* somebody at the other end of a stream, for as long as that takes */
        WORK_COPYING, /* nobody but the host's disk */
        WORK_LOOKING, /* a file system that a sandbox writes to, and may keep busy: one at a time looks at each */
        WORK_READING, /* as packing, and somebody looks at a page meanwhile: not behind archives */
        WORK_PAPERS,  /* a program of ours that looks at this host: one at a time for each paper */
        WORK_LANES,
};

enum sandbox_state {
        SANDBOX_STARTING, /* cloned; its guest has not said that it serves */
        SANDBOX_RUNNING,
        SANDBOX_ENDING, /* killed, or dead; what it had is being removed */
};

/* trees.c: a prepared root that sandboxes live on. */
struct tree_lock {
        char name[SKELETON_NAME_SIZE]; /* "": free */
        int fd;
        size_t users;
};

/* box.c: what a driver left elsewhere is being removed. */
struct box_end {
        struct sandbox *s;
        pid_t pid;
        int pidfd;
        struct loop_watch exit;
        struct loop_timer timer;
        void (*done)(struct sandbox *s, bool gone);
};

struct sandbox {
        struct sandbox *next; /* in its bucket */
        struct warden *w;
        char id[WARDEN_ID_SIZE];
        enum sandbox_state state;
        pid_t pid;
        uint64_t start_time;
        int pidfd;
        struct loop_watch exit;
        bool child; /* ours: how it ended is ours to ask */
        int status; /* wait status; -1: not known */
        int report; /* until its guest serves */
        struct loop_watch reports;
        struct loop_timer timer; /* starting: takes too long; ending: look again */
        unsigned looks, disk_looks;
        uint32_t start_serial, stop_serial; /* of requests that wait for it; 0: none */
        bool asked;                         /* its end was: nobody has to be told */
        bool abandoned;                     /* and its disk is going to be dropped */
        struct err *failure;                /* why it could not be started */
        struct plan plan;                   /* while it starts, where its cell runs beside us: to say what failed */
        void *plan_bytes;
        enum driver driver;
        bool served; /* its guest has said so to us */
        struct box_end *box_end;
        struct cgroup_nest *nest; /* NULL: it has no cgroups */
        uint32_t leaves;
        uint64_t ended_ooms, ended_refusals; /* of runs whose leaf is gone; of a box, what was said of its runs */
        int64_t slot;                        /* of host ids; -1: none */
        uid_t user;                          /* that its processes are on the host, where it has a slot */
        bool networked, cut;
        enum { ORDER_NOT, ORDER_NOW, ORDER_DONE, ORDER_FAILED } order; /* of its disk: see volume_order */
        int disk_root;        /* of a disk that was mounted before it; closed when there is time, because that waits */
        int sockets[NET_FDS]; /* GATE_TCP to GATE_DENIALS; -EBADF after a restart, until they are asked for */
        char disk[WARDEN_ID_SIZE], image[WARDEN_ID_SIZE];
        char (*layers)[WARDEN_ID_SIZE];
        uint32_t layer_count;
        char skeleton[SKELETON_NAME_SIZE];
        struct tree_lock *tree;    /* NULL: none */
        struct warden_usage usage; /* at its end */
};

/* A request while it is handled. */
struct request {
        struct warden *w;
        const struct warden_message *m;
        int *fds; /* taken ones are set to -EBADF */
        size_t fd_count;
        struct sandbox *s; /* of requests about one */
        struct warden_message answer;
        int out[WARDEN_FDS_MAX]; /* sent with the answer */
        size_t out_count;
        uint32_t out_mine; /* bits of those that are closed when they are sent */
        struct err err;
};

#define REQUEST_LATER 1 /* a handler's answer: it comes later */

struct link_packet; /* one that found no room in the socket */
struct work;
struct warm;
struct kill;

struct gate {
        pid_t pid; /* 0: none */
        int pidfd;
        struct loop_watch exit;
        uint32_t slot;
        struct warden *w;
};

struct ssh {
        int doors[WARDEN_DOORS];
        size_t door_count;   /* 0: no SSH */
        int link, operators; /* the pair: stockade-ssh's end, and the operator's */
        pid_t pid;           /* 0: none */
        int pidfd;
        struct loop_watch exit;
        struct loop_timer timer;
        uint64_t since; /* it was started */
        unsigned delay; /* ms before the next is */
};

/* A file as it was when it was read. */
struct certificate_look {
        uint64_t numbers[5];
};

struct certificate {
        int link; /* our end; -EBADF: no operator has one */
        struct certificate_look looked[2];
        struct loop_timer timer;
};

struct warden {
        struct loop *loop;
        struct conf conf;
        struct ceiling ceiling;
        bool rootless;

        /* state.c */
        char state_path[PATH_MAX], run_path[PATH_MAX], config_path[PATH_MAX];
        int state, run, sandboxes, trees, lock;
        uid_t operator_uid, gate_uid; /* gate_uid 0: a number of its own for each */
        char token[WARDEN_ID_SIZE];

        int ids;                                 /* cell/ids.h; root only */
        struct volumes *volumes;                 /* root only */
        struct cgroup_nest *nests[WARDEN_NESTS]; /* the first is where new sandboxes go */
        char nest_names[WARDEN_NESTS][WARDEN_ID_SIZE];
        size_t nest_count;
        struct sandbox *buckets[WARDEN_BUCKETS];
        size_t sandbox_count;
        struct tree_lock tree_locks[SKELETONS_MAX];
        struct sandbox *gone; /* ended while there was no operator, or nobody of us: it is told when it is there */

        /* link.c */
        int link;
        struct loop_watch link_watch;
        bool hello, reading;
        struct link_packet *first, *last;
        size_t queued;
        struct loop_timer stuck; /* the operator does not read what it is told */
        uint8_t packet[WARDEN_PACKET_MAX];
        struct { /* a request that waits for a disk to be free; none is read before it is answered */
                bool on;
                struct warden_message m; /* it points into packet */
                int fds[WARDEN_FDS_MAX];
                size_t fd_count;
                struct loop_timer timer;
        } held;

        /* listen.c */
        int doors[WARDEN_DOORS]; /* of the API */
        size_t door_count;
        bool outside; /* others than this host can connect to them */

        int secret; /* secret.c: what the operator makes its keys from; below 0: nothing */

        struct ssh ssh;
        struct certificate certificate;

        /* operator.c */
        const char *operator_program; /* --operator; NULL: ours */
        const char *boxes;            /* --boxes: where the programs of drivers are; NULL: beside ours */
        pid_t operator_pid;
        int operator_pidfd, operator_lock, listener; /* operator_lock: its folder, as it has it */
        struct loop_watch operator_exit;
        struct loop_timer operator_timer;
        uint64_t operator_since; /* when it said hello; 0: not yet */
        unsigned operator_delay; /* ms before the next is started */
        bool ending, stop_all, told_to_end, said_ready;
        struct loop_task look;

        struct gate gates[WARDEN_GATES_MAX];
        struct kill *kills; /* use.c: leaves that are being killed */

        /* work.c */
        struct work *working, *waiting;
        size_t working_count[WORK_LANES], waiting_count[WORK_LANES];

        struct loop_timer order_timer; /* disks.c */
        struct warm *warm;             /* warm.c; NULL: nobody asked for a disk yet */

        struct loop_timer space_timer;
        bool low_on_space;
        uint64_t free_bytes; /* when that changed */
};

/* state.c: folders, lock, boot, token. */
int state_open(struct warden *w, struct err *err);
int state_remove_tree(int parent, const char *name); /* a folder of ours that holds only files */
int state_listen(struct warden *w, struct err *err); /* operator.sock */
void state_watch_space(struct warden *w);

/* listen.c: what the API listens at, with its session secret. What cannot be had is said in the log. */
void listen_open(struct warden *w);
/* A listening socket at this address, or an error that names the key of stockade.conf; *outside becomes true if others
 * than this host can connect. */
int listen_door(const char *text, const char *what, const char *key, bool *outside, struct err *err);

/* secret.c: fills w->secret. outside: it must not be one of our own (there is one then all the same, for the secrets of
 * sandboxes). secret_again: files and configuration are read once more; what cannot be read is said in the log. */
int secret_open(struct warden *w, bool outside, struct err *err);
void secret_again(struct warden *w);

/* certificate.c: the operator's end of a new pair (wire/certificate.h), on which the certificate is already; -EBADF:
 * the API has none. The caller closes it. */
int certificate_link(struct warden *w);

/* ssh.c: stockade-ssh. */
void ssh_open(struct warden *w);
void ssh_start(struct warden *w);
void ssh_end(struct warden *w);
uint64_t ssh_ports(const struct warden *w); /* WARDEN_FACT_SSH */

/* sandbox.c: the table of sandboxes, and what is written about each. */
struct sandbox *sandbox_find(const struct warden *w, const char *id);
struct sandbox *sandbox_new(struct warden *w, const char *id);
void sandbox_add(struct sandbox *s);
void sandbox_take_out(struct sandbox *s); /* of the table */
void sandbox_free(struct sandbox *s);     /* takes it out, too */
int sandbox_write_info(struct sandbox *s);
int sandbox_read_info(struct sandbox *s, int folder);
int sandbox_folder(const struct sandbox *s); /* a descriptor of <run>/sandboxes/<id> */
bool sandbox_uses_disk(const struct warden *w, const char *disk, bool as_top);
const struct sandbox *sandbox_of_disk(const struct warden *w, const char *disk); /* that writes to it */
bool sandbox_uses_image(const struct warden *w, const char *image);
void sandbox_watch_exit(struct sandbox *s);
int sandbox_cgroup(const struct sandbox *s, struct cgroup *ret); /* -EOPNOTSUPP: it has none */
bool sandbox_is_on_host(const struct sandbox *s); /* its processes are this kernel's, so that runs have leaves */
const struct cgroup_owner *sandbox_owner(const struct sandbox *s, struct cgroup_owner *ret); /* NULL: ourselves */
bool sandbox_evict(const struct sandbox *s, const struct cgroup *leaf);     /* strangers; false: kill nothing in it */
bool sandbox_evict_all(const struct sandbox *s, const struct cgroup *c);    /* of every leaf */
void sandbox_usage(const struct cgroup *c, struct warden_usage *ret);       /* of a leaf */
void sandbox_usage_whole(const struct cgroup *c, struct warden_usage *ret); /* of a sandbox whose runs have no leaves */
void sandbox_refusals_new(struct sandbox *s, const struct cgroup *c, struct warden_usage *ret); /* since it was asked */
void sandbox_measure(const struct sandbox *s, const struct cgroup *c, struct warden_usage *ret); /* of the whole */

/* box.c: the programs of drivers. box_end: done is called when what the driver has elsewhere is gone, or could not be
 * removed. */
int box_find(const struct warden *w, enum driver driver, char ret[PATH_MAX], struct err *err);
/* What root's configuration has for a driver: words of its program, and NULL after them. */
#define BOX_OPTIONS 2
struct box_options {
        char text[BOX_OPTIONS][CONF_TEXT + 16];
};
void box_options(const struct warden *w, enum driver driver, struct box_options *o, char *ret[BOX_OPTIONS + 1]);
bool box_is_elsewhere(const struct sandbox *s);
void box_end(struct sandbox *s, void (*done)(struct sandbox *s, bool gone));

/* trees.c: the lock on the prepared root of a sandbox. trees_hold takes the lock over if it is the first of its kind.
 */
void trees_hold(struct sandbox *s, int *lock);
void trees_adopt(struct sandbox *s);
void trees_release(struct sandbox *s);

/* adopt.c: what a predecessor left. */
int adopt_all(struct warden *w, struct err *err);
void adopt_leave(struct warden *w); /* we end */
void adopt_tell(struct warden *w);  /* the operator said hello: which sandboxes were found dead */

/* start.c, end.c, use.c, network.c, disks.c, pack.c: requests. */
int start_request(struct request *q);
int end_request(struct request *q);
void end_begin(struct sandbox *s); /* kill it and remove what it has */
void end_died(struct sandbox *s);  /* its PID 1 has ended */
void end_tell_gone(const struct sandbox *s);
void end_found_dead(struct sandbox *s); /* in the table; a predecessor's: remove what it has, and tell */
void end_all(struct warden *w);
int use_dial(const struct sandbox *s); /* a connection to its guest, or -errno */
int use_connect(struct request *q);
int use_leaf(struct request *q);
int use_leaf_end(struct request *q);
int use_usage(struct request *q);
int use_freeze(struct request *q);
int use_list(struct request *q);
void use_forget(struct warden *w); /* the operator that asked is gone */
int network_request(struct request *q);
int network_keep_key(struct request *q);
int network_cut(struct request *q);
int network_gate(struct request *q);
int network_memory(const struct sandbox *s, bool make); /* the file of names: a descriptor */
void network_end_gates(struct warden *w);
int disks_make(struct request *q);
int disks_drop(struct request *q);
int disks_space(struct request *q);
int disks_pool(struct request *q);
int disks_clone(struct request *q);
int pack_request(struct request *q); /* pack.c: diff, export, import, flatten, image */
int disks_image_drop(struct request *q);
int paper_request(struct request *q);                      /* paper.c */
int disks_check_size(struct request *q);                   /* is what is asked for within the ceiling? */
int disks_check_space(struct request *q);                  /* is there room? */
void disks_order_soon(struct warden *w);                   /* a sandbox with a disk has started */
void disks_order_late(struct warden *w, const char *disk); /* it ended before its disk was ordered */
void disks_reclaim(struct warden *w);                      /* removes what was dropped, when there is time */

/* link.c */
void link_open(struct warden *w, int fd);
void link_close(struct warden *w);
void link_answer(struct warden *w, uint32_t serial, struct warden_message *m, const int *fds, size_t fd_count);
void link_fail(struct warden *w, uint32_t serial, int code, const struct err *err);
void link_tell(struct warden *w, const struct warden_message *m); /* unasked */
void link_item(struct request *q, const struct warden_message *m);

/* operator.c */
void operator_start(struct warden *w);
void operator_hello(struct warden *w);
void operator_failed(struct warden *w); /* its link broke */
void operator_end(struct warden *w, bool stop_all);
void operator_look(struct warden *w); /* while we end: is there anything left to wait for? */

/* work.c: something long, done by a child. prepare is called here, just before the child is made; run in the child;
 * then finish here, whatever came of it (its error counts if there was none before). What run leaves is the answer,
 * unless something else is done then, with the same request. */
struct work_job {
        struct warden *w;
        struct warden_message m;
        int fds[WARDEN_FDS_MAX]; /* that came with the request */
        size_t fd_count;
        int trees[2];     /* mounts that the work is about */
        int user_ns, ids; /* the ids that they are shown in, and the lock on them */
        int out;          /* goes with the answer, if all went well */
        uint32_t id_base;
        bool made; /* a disk or an image was begun that nobody may see unless it is whole */
};
struct work_result {
        int32_t code;
        uint64_t numbers[6];
        char text[WARDEN_TEXT_SIZE], hint[WARDEN_TEXT_SIZE];
};
struct work_how {
        int (*prepare)(struct work_job *j, struct err *err);
        int (*run)(const struct work_job *j, struct work_result *ret, struct err *err);
        int (*finish)(struct work_job *j, struct work_result *result, struct err *err);
        enum work_lane lane;
        const struct work_how *then;
};
int disks_blank(const struct work_job *j, struct work_result *ret, struct err *err); /* so that volume_make is quick */
int work_begin(struct request *q, const struct work_how *how);                       /* takes q->fds */
int work_quietly(struct warden *w, const struct work_how *how,
                 const struct warden_message *m); /* nobody waits for it */
/* Of work under way, and of what waits for a slot. */
bool work_uses_disk(const struct warden *w, const char *disk);
bool work_writes_disk(const struct warden *w, const char *disk); /* makes it, or fills it */
bool work_copies_disk(const struct warden *w, const char *disk); /* while it does, nobody may write to it */
void work_spoil_copies(struct warden *w, const char *disk);      /* somebody is about to: they fail */
bool work_uses_image(const struct warden *w, const char *image);
bool work_gets_paper(const struct warden *w, uint32_t paper);
void work_forget(struct warden *w); /* the operator that asked is gone: nobody is answered */
void work_end_all(struct warden *w);

/* warm.c: disks that are mounted before they are needed. */
int warm_make(struct request *q);                          /* DISK_MAKE, of a size that is within the ceiling */
bool warm_makes(const struct warden *w, const char *disk); /* is it being made? */
int warm_take(struct warden *w, const char *disk);         /* START: its mount; -EBADF: it is not mounted */
/* Before any other request about the disk. True: its device is being taken apart, and until then it seems to be in use:
 * again in a moment. */
bool warm_let_go(struct warden *w, const struct warden_message *m);
void warm_close_mounts(const struct warden *w); /* in a child of ours that does something else */
void warm_forget(struct warden *w);             /* the operator that asked is gone */
void warm_end(struct warden *w);

/* A descriptor that is kept for long goes above those that come and go, so that a sandbox's first process has few of
 * them to close. */
int high_fd(int fd);
