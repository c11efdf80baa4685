/* Names in folders: looking them up, making, moving and removing them. What makes a file does so as the ids that the
 * machine's kernel names, so that the new file is theirs. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "driver/fuse-server.h"

static int folder_of(const struct fuse_server *s, uint64_t number) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, number);

        if (!node)
                return -ESTALE;
        return S_ISDIR(node->type) ? node->fd : -ENOTDIR;
}

/* An answer with what the name leads to now. */
static int tell(struct fuse_server *s, int folder, const char *name, struct fuse_entry_out *ret) {
        struct stat st;
        int64_t number = fuse_nodes_look(&s->nodes, folder, name, &st);

        if (number < 0)
                return (int)number;
        *ret = (struct fuse_entry_out){.nodeid = (uint64_t)number,
                                       .generation = s->nodes.nodes[number].generation,
                                       .entry_valid = fuse_server_trust(s),
                                       .attr_valid = fuse_server_trust(s)};
        fuse_server_attr(&st, &ret->attr);
        return sizeof *ret;
}

/* What is not there, where nobody else makes files, is believed as well: node 0. */
int fuse_name_lookup(struct fuse_server *s, const struct fuse_message *m) {
        struct fuse_entry_out *out = fuse_server_answer(s);
        int folder = folder_of(s, m->head.nodeid);

        if (folder < 0)
                return folder;
        int r = tell(s, folder, m->name, out);
        if (r != -ENOENT || s->live)
                return r;
        *out = (struct fuse_entry_out){.entry_valid = fuse_server_trust(s)};
        return sizeof *out;
}

/* --- as somebody --- */

/* setfsuid says what was, not whether it worked: asked again, it says what is. An id that the namespace does not map
 * cannot be had. */
static int be(uint32_t uid, uint32_t gid) {
        (void)setfsgid(gid);
        (void)setfsuid(uid);
        return (uint32_t)setfsgid(gid) == gid && (uint32_t)setfsuid(uid) == uid ? 0 : -EPERM;
}

/* Who makes files, from `begin` on; afterwards the server is itself again. */
struct maker {
        uid_t uid;
        gid_t gid;
};

static int maker_begin(struct maker *ret, const struct fuse_message *m) {
        *ret = (struct maker){.uid = geteuid(), .gid = getegid()};
        return be(m->head.uid, m->head.gid);
}

static void maker_end(const struct maker *was) {
        if (be(was->uid, was->gid) < 0)
                _exit(125); /* what comes next must not be done as somebody else */
}

typedef int make_one(int folder, const struct fuse_message *m);

/* Makes it and tells of it. */
static int make(struct fuse_server *s, const struct fuse_message *m, make_one *one) {
        int folder = folder_of(s, m->head.nodeid);
        struct maker was;

        if (folder < 0)
                return folder;
        int r = maker_begin(&was, m);
        if (r == 0 && one(folder, m) < 0)
                r = -errno;
        maker_end(&was);
        return r < 0 ? r : tell(s, folder, m->name, fuse_server_answer(s));
}

static int make_symlink(int folder, const struct fuse_message *m) {
        return symlinkat(m->second, folder, m->name);
}

static int make_folder(int folder, const struct fuse_message *m) {
        return mkdirat(folder, m->name, m->in.mkdir.mode & 07777);
}

static int make_node(int folder, const struct fuse_message *m) {
        mode_t type = m->in.mknod.mode & S_IFMT;

        if (type != S_IFREG && type != S_IFIFO && type != S_IFSOCK) {
                errno = EPERM;
                return -1;
        }
        return mknodat(folder, m->name, type | (m->in.mknod.mode & 07777), 0);
}

int fuse_name_symlink(struct fuse_server *s, const struct fuse_message *m) {
        return make(s, m, make_symlink);
}

int fuse_name_mkdir(struct fuse_server *s, const struct fuse_message *m) {
        return make(s, m, make_folder);
}

int fuse_name_mknod(struct fuse_server *s, const struct fuse_message *m) {
        return make(s, m, make_node);
}

/* 0 also when there is something already: it is opened as any other, so that nothing but files is. */
static int create_file(const struct fuse_message *m, int folder) {
        struct maker was;
        int r = maker_begin(&was, m);

        if (r == 0) {
                _cleanup_fd_ int fd = openat(folder, m->name, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                             m->in.create.mode & 07777);
                r = fd < 0 ? -errno : 0;
        }
        maker_end(&was);
        return r == -EEXIST && !(m->in.create.flags & O_EXCL) ? 0 : r;
}

/* Others may put another file there before it is opened: what is told is what is opened. */
int fuse_name_create(struct fuse_server *s, const struct fuse_message *m) {
        struct {
                struct fuse_entry_out entry;
                struct fuse_open_out open;
        } *out = fuse_server_answer(s);
        int folder = folder_of(s, m->head.nodeid);

        int r = folder < 0 ? folder : create_file(m, folder);
        if (r == 0)
                r = tell(s, folder, m->name, &out->entry);
        if (r < 0)
                return r;
        r = fuse_server_handle(s, out->entry.nodeid, fuse_server_flags(m->in.create.flags), &out->open);
        if (r < 0)
                fuse_nodes_forget(&s->nodes, out->entry.nodeid, 1);
        return r < 0 ? r : (int)sizeof *out;
}

/* --- as the server --- */

static int remove_name(const struct fuse_server *s, const struct fuse_message *m, int flags) {
        int folder = folder_of(s, m->head.nodeid);

        if (folder < 0)
                return folder;
        return unlinkat(folder, m->name, flags) < 0 ? -errno : 0;
}

int fuse_name_unlink(struct fuse_server *s, const struct fuse_message *m) {
        return remove_name(s, m, 0);
}

int fuse_name_rmdir(struct fuse_server *s, const struct fuse_message *m) {
        return remove_name(s, m, AT_REMOVEDIR);
}

int fuse_name_rename(struct fuse_server *s, const struct fuse_message *m) {
        bool second = m->head.opcode == FUSE_RENAME2;
        uint32_t flags = second ? m->in.rename2.flags : 0;
        int from = folder_of(s, m->head.nodeid), to = folder_of(s, second ? m->in.rename2.newdir : m->in.rename.newdir);

        if (from < 0 || to < 0)
                return from < 0 ? from : to;
        if (flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE))
                return -EINVAL;
        return (int)kernel_result(syscall(SYS_renameat2, from, m->name, to, m->second, flags));
}

int fuse_name_link(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->in.link.oldnodeid);
        int folder = folder_of(s, m->head.nodeid);
        char name[16];

        if (!node || folder < 0)
                return node ? folder : -ESTALE;
        (void)snprintf(name, sizeof name, "%d", node->fd);
        if (linkat(s->proc, name, folder, m->name, AT_SYMLINK_FOLLOW) < 0)
                return -errno;
        return tell(s, folder, m->name, fuse_server_answer(s));
}

int fuse_name_readlink(struct fuse_server *s, const struct fuse_message *m) {
        const struct fuse_node *node = fuse_nodes_find(&s->nodes, m->head.nodeid);

        if (!node)
                return -ESTALE;
        ssize_t n = readlinkat(node->fd, "", fuse_server_answer(s), FUSE_LINK_MAX);
        return n < 0 ? -errno : (int)n;
}

/* --- folders --- */

struct entry {
        uint64_t inode;
        int64_t next;
        uint16_t size;
        uint8_t type;
        char name[];
};

struct listing {
        struct fuse_server *server;
        int folder;
        bool plus; /* with what each name leads to, counted as if it had been looked up */
        unsigned char *out;
        size_t used, room;
};

static bool is_name(const struct entry *e) {
        return !str_eq(e->name, ".") && !str_eq(e->name, "..");
}

/* False: it does not fit. A name that leads nowhere by now is told without a node, and so are all while the machine's
 * kernel is to forget some. */
static bool pack_one(struct listing *l, const struct entry *e) {
        struct fuse_entry_out found = {0};
        size_t name = strlen(e->name), before = l->plus ? sizeof found : 0,
               whole = FUSE_DIRENT_ALIGN(before + FUSE_NAME_OFFSET + name);
        const struct fuse_dirent d = {
                .ino = e->inode, .off = (uint64_t)e->next, .namelen = (uint32_t)name, .type = e->type};

        if (whole > l->room - l->used)
                return false;
        unsigned char *at = l->out + l->used;
        memset(at, 0, whole);
        if (l->plus && is_name(e) && !fuse_server_is_full(l->server) && tell(l->server, l->folder, e->name, &found) > 0)
                memcpy(at, &found, sizeof found);
        memcpy(at + before, &d, FUSE_NAME_OFFSET);
        memcpy(at + before + FUSE_NAME_OFFSET, e->name, name);
        l->used += whole;
        return true;
}

int fuse_name_readdir(struct fuse_server *s, const struct fuse_message *m) {
        static _Alignas(8) unsigned char entries[32768];
        struct listing l = {.server = s,
                            .folder = folder_of(s, m->head.nodeid),
                            .plus = m->head.opcode == FUSE_READDIRPLUS,
                            .out = fuse_server_answer(s),
                            .room = MIN(m->in.read.size, FUSE_IO_MAX)};
        int fd = fuse_handles_find(&s->handles, m->in.read.fh);

        if (l.folder < 0 || fd < 0)
                return l.folder < 0 ? l.folder : fd;
        if (lseek(fd, (off_t)m->in.read.offset, SEEK_SET) < 0)
                return -errno;
        long n = syscall(SYS_getdents64, fd, entries, sizeof entries);
        if (n < 0)
                return -errno;
        for (size_t at = 0; at < (size_t)n;) {
                const struct entry *e = (const struct entry *)(const void *)(entries + at);
                if (!pack_one(&l, e))
                        break;
                at += e->size;
        }
        return (int)l.used;
}
