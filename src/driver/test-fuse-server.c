/* The file server as a machine's kernel sees it, over a pair of sockets: what it serves, and what a hostile one gets.
 * tests/driver/test_vm_files.py mounts it. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/test.h"
#include "driver/fuse-server.h"

/* Sanitizers need calls of their own. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct kernel {
        char folder[64]; /* `tree` in it is served, `secret` beside it is not */
        pid_t pid;
        int stream;
        uid_t uid;     /* who asks; also the group */
        uint32_t many; /* see struct fuse_server */
        bool live;
        unsigned notices;
        size_t size; /* of the last answer */
        _Alignas(8) unsigned char answer[FUSE_MESSAGE_MAX + 1];
};

static void write_file(const char *folder, const char *name, const char *text) {
        char path[128];

        (void)snprintf(path, sizeof path, "%s/%s", folder, name);
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        CHECK(fd >= 0 && fd_write_full(fd, text, strlen(text)) == 0);
}

static void make_tree(struct kernel *k) {
        char path[128];

        (void)snprintf(k->folder, sizeof k->folder, "/tmp/stockade-test-files-XXXXXX");
        CHECK(mkdtemp(k->folder) != NULL);
        write_file(k->folder, "secret", "secret");
        (void)snprintf(path, sizeof path, "%s/tree", k->folder);
        CHECK(mkdir(path, 0755) == 0);
        write_file(path, "file", "0123456789");
        _cleanup_fd_ int tree = open(path, O_PATH | O_CLOEXEC);
        CHECK(mkdirat(tree, "folder", 0755) == 0 && symlinkat("../secret", tree, "out") == 0 &&
              symlinkat("file", tree, "in") == 0 && mknodat(tree, "fifo", S_IFIFO | 0644, 0) == 0);
}

static int serve(const struct kernel *k, int stream) {
        static struct fuse_server s;
        char path[128];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(path, sizeof path, "%s/tree", k->folder);
        s.stream = stream;
        s.many = k->many;
        s.live = k->live;
        s.most = 100;
        s.tree = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        s.proc = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s.tree < 0 || s.proc < 0 || (!SANITIZED && geteuid() == 0 && fuse_server_confine() < 0))
                return 99;
        return -fuse_server_run(&s);
}

static void send_raw(const struct kernel *k, uint32_t opcode, uint64_t node, const void *body, size_t size) {
        const struct fuse_in_header h = {.len = (uint32_t)(sizeof h + size),
                                         .opcode = opcode,
                                         .unique = opcode + 1000,
                                         .nodeid = node,
                                         .uid = k->uid,
                                         .gid = k->uid};

        CHECK(send(k->stream, &h, sizeof h, MSG_NOSIGNAL) == sizeof h);
        CHECK(send(k->stream, body, size, MSG_NOSIGNAL) == (ssize_t)size);
}

/* What it answers: 0 and k->answer, or -errno; -EPIPE when it is gone. */
static int ask(struct kernel *k, uint32_t opcode, uint64_t node, const void *body, size_t size) {
        struct fuse_out_header h;

        send_raw(k, opcode, node, body, size);
        do {
                if (fd_read_full(k->stream, &h, sizeof h) != sizeof h)
                        return -EPIPE;
                k->notices += h.error == FUSE_NOTICE_MANY && h.unique == 0 && h.len == sizeof h;
        } while (h.error == FUSE_NOTICE_MANY);
        k->size = h.len - sizeof h;
        CHECK(h.unique == opcode + 1000 && k->size < sizeof k->answer);
        CHECK(fd_read_full(k->stream, k->answer, k->size) == (ssize_t)k->size);
        k->answer[k->size] = '\0';
        return h.error;
}

static int ask_name(struct kernel *k, uint32_t opcode, uint64_t node, const void *fixed, size_t size,
                    const char *name) {
        unsigned char body[512];

        if (size > 0)
                memcpy(body, fixed, size);
        memcpy(body + size, name, strlen(name) + 1);
        return ask(k, opcode, node, body, size + strlen(name) + 1);
}

static const struct fuse_entry_out *entry(const struct kernel *k) {
        return (const struct fuse_entry_out *)(const void *)k->answer;
}

static uint64_t look(struct kernel *k, uint64_t node, const char *name) {
        int r = ask_name(k, FUSE_LOOKUP, node, NULL, 0, name);

        CHECK(r == 0);
        return r == 0 ? entry(k)->nodeid : 0;
}

static uint64_t open_it(struct kernel *k, uint32_t opcode, uint64_t node, uint32_t flags) {
        const struct fuse_open_in in = {.flags = flags};

        CHECK(ask(k, opcode, node, &in, sizeof in) == 0);
        return ((const struct fuse_open_out *)(const void *)k->answer)->fh;
}

static void begin(struct kernel *k) {
        const struct fuse_init_in in = {.major = 7, .minor = 36, .max_readahead = 1 << 20, .flags = ~0U};
        const struct fuse_init_out *out = (const struct fuse_init_out *)(const void *)k->answer;
        int pair[2];

        make_tree(k);
        k->uid = geteuid();
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        (void)fflush(stdout);
        k->pid = fork();
        if (k->pid == 0) {
                (void)close(pair[0]);
                _exit(serve(k, pair[1]));
        }
        (void)close(pair[1]);
        k->stream = pair[0];
        CHECK(ask(k, FUSE_INIT, 0, &in, sizeof in) == 0 && out->major == 7 && out->max_write == FUSE_IO_MAX);
        CHECK(!(out->flags & (FUSE_EXPORT_SUPPORT | FUSE_WRITEBACK_CACHE | FUSE_POSIX_ACL)));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
        (void)st;
        (void)type;
        (void)at;
        return remove(path);
}

/* How it ended: the number of an error. */
static int finish(struct kernel *k) {
        int status = -1;

        (void)close(k->stream);
        CHECK(waitpid(k->pid, &status, 0) == k->pid);
        CHECK(nftw(k->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- what it serves --- */

static void reads_and_writes(void) {
        static struct kernel k;
        struct {
                struct fuse_write_in in;
                char data[4];
        } change = {.in = {.offset = 8, .size = 4}, .data = "abcd"};

        begin(&k);
        uint64_t file = look(&k, 1, "file");
        CHECK(entry(&k)->attr.size == 10 && S_ISREG(entry(&k)->attr.mode) && look(&k, 1, "file") == file);
        struct fuse_read_in in = {.fh = open_it(&k, FUSE_OPEN, file, O_RDWR), .offset = 2, .size = 4};
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == 0);
        CHECK_STR((const char *)k.answer, "2345");
        change.in.fh = in.fh;
        CHECK(ask(&k, FUSE_WRITE, file, &change, sizeof change.in + sizeof change.data) == 0);
        in.offset = 0;
        in.size = 100;
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == 0);
        CHECK_STR((const char *)k.answer, "01234567abcd");
        const struct fuse_setattr_in cut = {.valid = FATTR_SIZE | FATTR_MODE, .size = 3, .mode = 0600};
        CHECK(ask(&k, FUSE_SETATTR, file, &cut, sizeof cut) == 0);
        CHECK(((const struct fuse_attr_out *)(const void *)k.answer)->attr.size == 3);
        const struct fuse_release_in end = {.fh = in.fh};
        CHECK(ask(&k, FUSE_RELEASE, file, &end, sizeof end) == 0);
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == -EBADF);
        CHECK(finish(&k) == 0);
}

static void makes_moves_and_removes(void) {
        static struct kernel k;
        const struct fuse_create_in create = {.flags = O_RDWR, .mode = S_IFREG | 0640};
        const struct fuse_mkdir_in mkdir_in = {.mode = 0700};

        begin(&k);
        CHECK(ask_name(&k, FUSE_CREATE, 1, &create, sizeof create, "new") == 0 && entry(&k)->attr.uid == geteuid());
        CHECK((entry(&k)->attr.mode & 07777) == 0640);
        CHECK(ask_name(&k, FUSE_MKDIR, 1, &mkdir_in, sizeof mkdir_in, "d") == 0);
        const struct {
                struct fuse_rename2_in in;
                char names[8];
        } move = {.in = {.newdir = entry(&k)->nodeid}, .names = "new\0old"};
        CHECK(ask(&k, FUSE_RENAME2, 1, &move, sizeof move) == 0);
        CHECK(ask_name(&k, FUSE_LOOKUP, 1, NULL, 0, "new") == 0 && entry(&k)->nodeid == 0 &&
              entry(&k)->entry_valid > 0);
        uint64_t old = look(&k, move.in.newdir, "old");
        const struct fuse_link_in link = {.oldnodeid = old};
        CHECK(ask_name(&k, FUSE_LINK, 1, &link, sizeof link, "twice") == 0 && entry(&k)->nodeid == old);
        CHECK(ask(&k, FUSE_SYMLINK, 1, "s\0/etc/passwd", 14) == 0);
        CHECK(ask(&k, FUSE_READLINK, entry(&k)->nodeid, NULL, 0) == 0);
        CHECK_STR((const char *)k.answer, "/etc/passwd");
        CHECK(ask_name(&k, FUSE_UNLINK, 1, NULL, 0, "twice") == 0);
        CHECK(ask_name(&k, FUSE_RMDIR, 1, NULL, 0, "d") == -ENOTEMPTY);
        CHECK(ask_name(&k, FUSE_RMDIR, 1, NULL, 0, "folder") == 0);
        CHECK(finish(&k) == 0);
}

static void a_file_is_whose_who_made_it(void) {
        static struct kernel k;
        const struct fuse_create_in create = {.flags = O_RDWR, .mode = S_IFREG | 0600};
        const struct fuse_mkdir_in mkdir_in = {.mode = 0777};

        if (geteuid() != 0) {
                (void)printf("# not root: not tried\n");
                return;
        }
        begin(&k);
        CHECK(ask_name(&k, FUSE_MKDIR, 1, &mkdir_in, sizeof mkdir_in, "open") == 0);
        uint64_t folder = entry(&k)->nodeid;
        k.uid = 1234;
        CHECK(ask_name(&k, FUSE_CREATE, folder, &create, sizeof create, "mine") == 0);
        CHECK(entry(&k)->attr.uid == 1234 && entry(&k)->attr.gid == 1234);
        CHECK(ask_name(&k, FUSE_MKDIR, folder, &mkdir_in, sizeof mkdir_in, "mine-too") == 0 &&
              entry(&k)->attr.uid == 1234);
        CHECK(ask_name(&k, FUSE_CREATE, 1, &create, sizeof create, "not-mine") == -EACCES);
        k.uid = 0;
        CHECK(ask_name(&k, FUSE_CREATE, 1, &create, sizeof create, "root's") == 0 && entry(&k)->attr.uid == 0);
        CHECK(finish(&k) == 0);
}

/* Nothing of the way that it was opened is in a handle, which others get, too. */
static void one_handle_for_all_who_open_it(void) {
        static struct kernel k = {.live = true};
        struct {
                struct fuse_write_in in;
                char data[2];
        } add = {.in = {.size = 2, .flags = O_APPEND | O_WRONLY}, .data = "ab"};

        begin(&k);
        uint64_t file = look(&k, 1, "file"), first = open_it(&k, FUSE_OPEN, file, O_RDWR);
        CHECK(open_it(&k, FUSE_OPEN, file, O_RDWR | O_APPEND) == first);
        CHECK(open_it(&k, FUSE_OPEN, file, O_RDONLY) != first);
        add.in.fh = first;
        CHECK(ask(&k, FUSE_WRITE, file, &add, sizeof add.in + 2) == 0); /* at its end, which others may have moved */
        add.in.write_flags = FUSE_WRITE_CACHE;                          /* a page that was mapped: where it belongs */
        CHECK(ask(&k, FUSE_WRITE, file, &add, sizeof add.in + 2) == 0);
        const struct fuse_read_in in = {.fh = first, .size = 100};
        const struct fuse_release_in end = {.fh = first};
        CHECK(ask(&k, FUSE_RELEASE, file, &end, sizeof end) == 0);
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == 0);
        CHECK_STR((const char *)k.answer, "ab23456789ab");
        CHECK(ask(&k, FUSE_RELEASE, file, &end, sizeof end) == 0);
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == -EBADF);
        CHECK(finish(&k) == 0);
}

/* It is asked once to forget some, and a listing adds none until it has. */
static void asks_to_forget(void) {
        static struct kernel k = {.many = 2};
        unsigned nodes = 0;

        begin(&k);
        const struct fuse_read_in in = {.fh = open_it(&k, FUSE_OPENDIR, 1, 0), .size = 4000};
        CHECK(ask(&k, FUSE_READDIRPLUS, 1, &in, sizeof in) == 0);
        for (size_t at = 0; at < k.size;) {
                const struct fuse_direntplus *d = (const struct fuse_direntplus *)(const void *)(k.answer + at);
                nodes += d->entry_out.nodeid > 1;
                at += FUSE_DIRENTPLUS_SIZE(d);
        }
        CHECK(nodes == 2);
        CHECK(look(&k, 1, "file") > 1 && k.notices == 1);
        CHECK(look(&k, 1, "folder") > 1 && k.notices == 1); /* not a thousand more since */
        CHECK(finish(&k) == 0);
}

static void lists_a_folder(void) {
        static struct kernel k;
        unsigned seen = 0;

        begin(&k);
        struct fuse_read_in in = {.fh = open_it(&k, FUSE_OPENDIR, 1, 0), .size = 64}; /* one or two at a time */
        while (ask(&k, FUSE_READDIR, 1, &in, sizeof in) == 0 && k.size > 0)
                for (size_t at = 0; at < k.size;) {
                        const struct fuse_dirent *d = (const struct fuse_dirent *)(const void *)(k.answer + at);
                        in.offset = d->off;
                        seen++;
                        at += FUSE_DIRENT_SIZE(d);
                }
        CHECK(seen == 7); /* . .. file folder out in fifo */
        CHECK(finish(&k) == 0);
}

/* Names come with their nodes, which are then the kernel's to forget. */
static void lists_with_attributes(void) {
        static struct kernel k;
        const struct fuse_getattr_in getattr = {0};
        const struct fuse_forget_in forget = {.nlookup = 1};
        uint64_t file = 0;
        unsigned seen = 0, nodes = 0;

        begin(&k);
        struct fuse_read_in in = {.fh = open_it(&k, FUSE_OPENDIR, 1, 0), .size = 400};
        while (ask(&k, FUSE_READDIRPLUS, 1, &in, sizeof in) == 0 && k.size > 0)
                for (size_t at = 0; at < k.size;) {
                        const struct fuse_direntplus *d = (const struct fuse_direntplus *)(const void *)(k.answer + at);
                        in.offset = d->dirent.off;
                        seen++;
                        nodes += d->entry_out.nodeid > 1;
                        if (d->dirent.namelen == 4 && memcmp(d->dirent.name, "file", 4) == 0)
                                file = d->entry_out.nodeid;
                        at += FUSE_DIRENTPLUS_SIZE(d);
                }
        CHECK(seen == 7 && nodes == 5);
        CHECK(look(&k, 1, "file") == file && entry(&k)->attr.size == 10);
        send_raw(&k, FUSE_FORGET, file, &forget, sizeof forget);
        CHECK(ask(&k, FUSE_GETATTR, file, &getattr, sizeof getattr) == 0);
        send_raw(&k, FUSE_FORGET, file, &forget, sizeof forget);
        CHECK(ask(&k, FUSE_GETATTR, file, &getattr, sizeof getattr) == -ESTALE);
        CHECK(finish(&k) == 0);
}

/* --- what a hostile kernel gets --- */

static void a_long_name_is_only_that(void) {
        static struct kernel k;
        char name[400] = "";

        begin(&k);
        memset(name, 'a', 300);
        CHECK(ask_name(&k, FUSE_LOOKUP, 1, NULL, 0, name) == -ENAMETOOLONG);
        CHECK(look(&k, 1, "file") > 1);
        CHECK(finish(&k) == 0);
}

static void leads_nowhere_else(void) {
        static struct kernel k;
        const struct fuse_open_in in = {.flags = O_RDWR};
        const struct fuse_create_in create = {.flags = O_WRONLY, .mode = S_IFREG | 0644};

        begin(&k);
        uint64_t fifo = look(&k, 1, "fifo"), out = look(&k, 1, "out");
        CHECK(S_ISLNK(entry(&k)->attr.mode) && ask(&k, FUSE_OPEN, out, &in, sizeof in) == -EINVAL);
        CHECK(ask_name(&k, FUSE_LOOKUP, out, NULL, 0, "a") == -ENOTDIR);
        CHECK(ask(&k, FUSE_OPEN, fifo, &in, sizeof in) == -EINVAL); /* and does not wait there */
        CHECK(ask(&k, FUSE_OPEN, 1, &in, sizeof in) == -EINVAL);
        CHECK(ask_name(&k, FUSE_CREATE, 1, &create, sizeof create, "out") == -EINVAL); /* not through the link */
        CHECK(ask_name(&k, FUSE_CREATE, 1, &create, sizeof create, "fifo") == -EINVAL);
        const struct fuse_mknod_in device = {.mode = S_IFCHR | 0666, .rdev = 0x103};
        CHECK(ask_name(&k, FUSE_MKNOD, 1, &device, sizeof device, "null") == -EPERM);
        const struct fuse_setattr_in size = {.valid = FATTR_SIZE};
        CHECK(ask(&k, FUSE_SETATTR, out, &size, sizeof size) == -EINVAL);
        CHECK(finish(&k) == 0);
}

static void takes_no_number_that_is_none(void) {
        static struct kernel k;
        static const uint64_t none[] = {0, 2, 59999, 60001, UINT32_MAX, UINT64_MAX};
        const struct fuse_getattr_in in = {0};

        begin(&k);
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                const struct fuse_read_in read_in = {.fh = none[i], .size = 1};
                const struct fuse_open_in open_in = {0};
                const struct fuse_rename_in to = {.newdir = none[i]};
                const struct fuse_link_in link = {.oldnodeid = none[i]};
                unsigned char names[sizeof to + 8];

                CHECK(ask(&k, FUSE_GETATTR, none[i], &in, sizeof in) == -ESTALE);
                CHECK(ask_name(&k, FUSE_LOOKUP, none[i], NULL, 0, "file") == -ESTALE);
                CHECK(ask(&k, FUSE_OPEN, none[i], &open_in, sizeof open_in) == -ESTALE);
                CHECK(ask(&k, FUSE_READLINK, none[i], NULL, 0) == -ESTALE);
                CHECK(ask(&k, FUSE_STATFS, none[i], NULL, 0) == -ESTALE);
                CHECK(ask(&k, FUSE_READ, 1, &read_in, sizeof read_in) == -EBADF);
                CHECK(ask(&k, FUSE_READDIR, 1, &read_in, sizeof read_in) == -EBADF);
                memcpy(names, &to, sizeof to);
                memcpy(names + sizeof to, "file\0to", 8);
                CHECK(ask(&k, FUSE_RENAME, 1, names, sizeof names) == -ESTALE);
                CHECK(ask_name(&k, FUSE_LINK, 1, &link, sizeof link, "x") == -ESTALE);
        }
        const struct fuse_forget_in forget = {.nlookup = UINT64_MAX};
        send_raw(&k, FUSE_FORGET, 1, &forget, sizeof forget);
        send_raw(&k, FUSE_FORGET, 77, &forget, sizeof forget);
        CHECK(ask(&k, FUSE_GETATTR, 1, &in, sizeof in) == 0);
        CHECK(finish(&k) == 0);
}

static void bounds_what_is_asked(void) {
        static struct kernel k;
        const struct fuse_fallocate_in collapse = {.mode = 8};

        begin(&k);
        uint64_t file = look(&k, 1, "file"), handle = open_it(&k, FUSE_OPEN, file, O_RDONLY | O_TRUNC | O_DIRECT);
        struct fuse_read_in in = {.fh = handle, .offset = UINT64_MAX, .size = UINT32_MAX};
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == -EINVAL);
        in.offset = 0;
        CHECK(ask(&k, FUSE_READ, file, &in, sizeof in) == 0 && k.size == 10); /* it was not cut */
        CHECK(ask(&k, FUSE_FALLOCATE, file, &collapse, sizeof collapse) == -EBADF);
        CHECK(ask(&k, FUSE_GETXATTR, file, "any", 4) == -ENOSYS);
        CHECK(ask(&k, FUSE_IOCTL, file, "any", 4) == -ENOSYS);
        CHECK(finish(&k) == 0);
}

/* --- a kernel that says anything --- */

enum { ROUNDS = 20000, FIXED_MAX = 128 };

static uint64_t state = 88172645463325252ULL;

static uint64_t any(void) {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^= state << 17;
}

/* Mostly numbers that mean something here. */
static uint64_t some(void) {
        return any() % 8 ? any() % 12 : any();
}

static const struct {
        uint32_t opcode;
        size_t fixed, names;
} kinds[] = {
        {FUSE_LOOKUP, 0, 1},
        {FUSE_FORGET, sizeof(struct fuse_forget_in), 0},
        {FUSE_GETATTR, sizeof(struct fuse_getattr_in), 0},
        {FUSE_SETATTR, sizeof(struct fuse_setattr_in), 0},
        {FUSE_READLINK, 0, 0},
        {FUSE_SYMLINK, 0, 2},
        {FUSE_MKNOD, sizeof(struct fuse_mknod_in), 1},
        {FUSE_MKDIR, sizeof(struct fuse_mkdir_in), 1},
        {FUSE_UNLINK, 0, 1},
        {FUSE_RMDIR, 0, 1},
        {FUSE_RENAME, sizeof(struct fuse_rename_in), 2},
        {FUSE_RENAME2, sizeof(struct fuse_rename2_in), 2},
        {FUSE_LINK, sizeof(struct fuse_link_in), 1},
        {FUSE_OPEN, sizeof(struct fuse_open_in), 0},
        {FUSE_OPENDIR, sizeof(struct fuse_open_in), 0},
        {FUSE_CREATE, sizeof(struct fuse_create_in), 1},
        {FUSE_READ, sizeof(struct fuse_read_in), 0},
        {FUSE_READDIR, sizeof(struct fuse_read_in), 0},
        {FUSE_READDIRPLUS, sizeof(struct fuse_read_in), 0},
        {FUSE_RELEASE, sizeof(struct fuse_release_in), 0},
        {FUSE_FLUSH, sizeof(struct fuse_flush_in), 0},
        {FUSE_STATFS, 0, 0},
        {FUSE_LSEEK, sizeof(struct fuse_lseek_in), 0},
        {FUSE_INTERRUPT, sizeof(struct fuse_interrupt_in), 0},
        {FUSE_GETXATTR, 8, 1},
};

static void ask_anything(struct kernel *k) {
        static const char *const names[] = {"file", "folder", "out", "in", "fifo", "new", "...", "\n"};
        unsigned char body[FIXED_MAX + 64] = {0};
        size_t which = any() % ELEMENTSOF(kinds), size = 0;

        for (; size < kinds[which].fixed; size += sizeof(uint64_t)) {
                uint64_t field = some() | (any() % 4 ? 0 : some() << 32);
                memcpy(body + size, &field, sizeof field);
        }
        size = kinds[which].fixed;
        for (size_t i = 0; i < kinds[which].names; i++) {
                const char *name = names[any() % ELEMENTSOF(names)];
                memcpy(body + size, name, strlen(name) + 1);
                size += strlen(name) + 1;
        }
        if (geteuid() == 0)
                k->uid = (uid_t)some();
        if (kinds[which].opcode == FUSE_FORGET || kinds[which].opcode == FUSE_INTERRUPT)
                send_raw(k, kinds[which].opcode, some(), body, size);
        else
                CHECK(ask(k, kinds[which].opcode, some(), body, size) != -EPIPE);
}

/* Whatever it asks, all of it is answered, and nothing beside the tree is touched. */
static void whatever_is_asked(void) {
        static struct kernel k;
        char path[128], text[16] = "";
        struct stat before, after;

        begin(&k);
        (void)snprintf(path, sizeof path, "%s/secret", k.folder);
        CHECK(lstat(path, &before) == 0);
        for (unsigned i = 0; i < ROUNDS; i++)
                ask_anything(&k);
        CHECK(lstat(path, &after) == 0 && after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
              after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && read(fd, text, sizeof text - 1) == 6);
        CHECK_STR(text, "secret");
        CHECK(finish(&k) == 0);
}

/* Protocol that is broken ends it. */
static int break_it(uint32_t opcode, const void *body, size_t size) {
        static struct kernel k;

        begin(&k);
        CHECK(ask(&k, opcode, 1, body, size) == -EPIPE);
        return finish(&k);
}

static void ends_with_what_is_no_message(void) {
        const struct fuse_in_header huge = {.len = UINT32_MAX};
        static struct kernel k;

        CHECK(break_it(FUSE_LOOKUP, "..", 3) == EPROTO && break_it(FUSE_LOOKUP, "a/b", 4) == EPROTO);
        CHECK(break_it(FUSE_GETATTR, "short", 5) == EPROTO);
        begin(&k);
        CHECK(send(k.stream, &huge, sizeof huge, MSG_NOSIGNAL) == sizeof huge);
        CHECK(finish(&k) == EPROTO);
}

TEST_MAIN(TEST(reads_and_writes), TEST(makes_moves_and_removes), TEST(a_file_is_whose_who_made_it),
          TEST(one_handle_for_all_who_open_it), TEST(asks_to_forget), TEST(lists_a_folder), TEST(lists_with_attributes),
          TEST(a_long_name_is_only_that), TEST(leads_nowhere_else), TEST(takes_no_number_that_is_none),
          TEST(bounds_what_is_asked), TEST(whatever_is_asked), TEST(ends_with_what_is_no_message))
