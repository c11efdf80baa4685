/* The sftp subsystem: packets in, answers out, one after the other. */
#include "ssh/sftp.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"
#include "base/json-read.h"

#define ASK_MS        60000
#define READ_MOST     (128U * 1024)
#define ENTRIES_MOST  64            /* of one answer */
#define ENTRIES_BYTES (192U * 1024) /* about so many bytes of one */

struct sftp {
        int fd;
        const struct door *d;
        struct sftp_handle *handles[SFTP_HANDLES];
        uint64_t serial; /* of handles: an old one never means a new file */
        uint64_t serials[SFTP_HANDLES];
        struct buf out;
        struct sftp_request q;
        char path[SFTP_PATH_MAX], to[SFTP_PATH_MAX]; /* of the request, as plain ones */
        uint8_t body[SFTP_PACKET_MAX];
        uint8_t data[READ_MOST];
};

/* --- answers --- */

static void status(struct sftp *s, enum sftp_status code, const char *text) {
        sftp_begin(&s->out, SFTP_STATUS, s->q.id);
        sftp_put_u32(&s->out, code);
        sftp_put_string(&s->out, text, strlen(text));
        sftp_put_string(&s->out, "en", 2);
}

static void result(struct sftp *s, int r, const struct sftp_why *why) {
        if (r < 0)
                status(s, why->status, why->text);
        else
                status(s, SFTP_OK, "");
}

static void put_name(struct sftp *s, const char *name, const char *line, const struct sftp_attributes *a) {
        sftp_put_string(&s->out, name, strlen(name));
        sftp_put_string(&s->out, line, strlen(line));
        sftp_put_attributes(&s->out, a);
}

static void one_name(struct sftp *s, const char *name) {
        static const struct sftp_attributes none;

        sftp_begin(&s->out, SFTP_NAME, s->q.id);
        sftp_put_u32(&s->out, 1);
        put_name(s, name, name, &none);
}

/* As `ls -l` would print it. */
static void long_line(const struct sftp_attributes *a, const char *name, char *ret, size_t size) {
        char mode[11] = "?rwxrwxrwx", when[32] = "";
        time_t changed = a->changed_at;
        struct tm tm = {0};

        mode[0] = (char)(S_ISDIR(a->mode)    ? 'd'
                         : S_ISLNK(a->mode)  ? 'l'
                         : S_ISFIFO(a->mode) ? 'p'
                         : S_ISSOCK(a->mode) ? 's'
                         : S_ISCHR(a->mode)  ? 'c'
                                             : '-');
        for (unsigned i = 0; i < 9; i++)
                if (!(a->mode & 0400U >> i))
                        mode[1 + i] = '-';
        (void)gmtime_r(&changed, &tm);
        (void)strftime(when, sizeof when, "%b %e  %Y", &tm);
        (void)snprintf(ret, size, "%s %4u %-8u %-8u %8llu %s %s", mode, 1, a->uid, a->gid, (unsigned long long)a->size,
                       when, name);
}

/* --- handles --- */

static int add_handle(struct sftp *s, struct sftp_handle *h) {
        for (size_t i = 0; i < SFTP_HANDLES; i++)
                if (!s->handles[i]) {
                        s->handles[i] = h;
                        s->serials[i] = ++s->serial;
                        sftp_begin(&s->out, SFTP_HANDLE, s->q.id);
                        sftp_put_handle(&s->out, s->serials[i]);
                        return 0;
                }
        sftp_file_drop(h);
        status(s, SFTP_FAILURE, "too many files are open");
        return -EMFILE;
}

static struct sftp_handle **find_handle(struct sftp *s) {
        for (size_t i = 0; i < SFTP_HANDLES; i++)
                if (s->handles[i] && s->serials[i] == s->q.handle)
                        return &s->handles[i];
        status(s, SFTP_FAILURE, "there is no such handle");
        return NULL;
}

/* --- requests --- */

static void do_init(struct sftp *s) {
        sftp_begin(&s->out, SFTP_VERSION, 3);
        sftp_put_string(&s->out, "posix-rename@openssh.com", 24);
        sftp_put_string(&s->out, "1", 1);
}

static void do_open(struct sftp *s) {
        struct sftp_why why;
        struct sftp_handle *h;
        bool folder = s->q.kind == SFTP_OPENDIR;
        int r = folder ? sftp_file_folder(s->d, s->path, &h, &why)
                       : sftp_file_open(s->d, s->path, s->q.flags, &s->q.attributes, &h, &why);

        if (r < 0)
                result(s, r, &why);
        else
                (void)add_handle(s, h);
}

static void do_close(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);
        struct sftp_why why;

        if (h)
                result(s, sftp_file_close(s->d, TAKE_PTR(*h), &why), &why);
}

static void do_read(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);
        struct sftp_why why;

        if (!h)
                return;
        ssize_t n = sftp_file_read(s->d, *h, s->q.offset, s->data, MIN(s->q.length, READ_MOST), &why);
        if (n < 0)
                result(s, (int)n, &why);
        else if (n == 0)
                status(s, SFTP_EOF, "");
        else {
                sftp_begin(&s->out, SFTP_DATA, s->q.id);
                sftp_put_string(&s->out, s->data, (size_t)n);
        }
}

static void do_write(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);
        struct sftp_why why;

        if (h)
                result(s, sftp_file_write(s->d, *h, s->q.offset, s->q.data, s->q.data_size, &why), &why);
}

static void answer_attributes(struct sftp *s, const char *path, bool follow) {
        struct sftp_attributes a;
        struct sftp_why why;
        int r = sftp_file_stat(s->d, path, follow, &a, NULL, &why);

        if (r < 0) {
                result(s, r, &why);
                return;
        }
        sftp_begin(&s->out, SFTP_ATTRS, s->q.id);
        sftp_put_attributes(&s->out, &a);
}

static void do_fstat(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);

        if (h)
                answer_attributes(s, sftp_file_path(*h), true);
}

static void do_fsetstat(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);

        if (!h)
                return;
        if (s->q.attributes.has & (SFTP_HAS_SIZE | SFTP_HAS_IDS)) {
                status(s, SFTP_UNSUPPORTED, "only modes and times can be changed");
                return;
        }
        sftp_file_later(*h, &s->q.attributes);
        status(s, SFTP_OK, "");
}

static void do_readdir(struct sftp *s) {
        struct sftp_handle **h = find_handle(s);
        const char *entry;
        uint32_t count = 0;
        char name[SFTP_PATH_MAX], line[SFTP_PATH_MAX + 128];

        if (!h)
                return;
        if (!sftp_file_is_folder(*h)) {
                status(s, SFTP_FAILURE, "it is no folder");
                return;
        }
        sftp_begin(&s->out, SFTP_NAME, s->q.id);
        size_t place = s->out.size;
        sftp_put_u32(&s->out, 0);
        while (count < ENTRIES_MOST && s->out.size < ENTRIES_BYTES && (entry = sftp_file_entry(*h))) {
                struct sftp_attributes a;

                if (!json_find_str(entry, "name", name, sizeof name))
                        continue;
                sftp_file_attributes(entry, &a);
                long_line(&a, name, line, sizeof line);
                put_name(s, name, line, &a);
                count++;
        }
        if (count == 0)
                status(s, SFTP_EOF, "");
        else if (buf_ok(&s->out))
                for (size_t i = 0; i < 4; i++)
                        s->out.data[place + i] = (char)(uint8_t)(count >> (24 - 8 * i));
}

/* A verb with a path, and perhaps another or a mode. */
static void do_verb(struct sftp *s, const char *verb, const char *to, bool with_mode) {
        struct door_request q;
        struct sftp_why why;
        char code[32], message[512], *answer = NULL;

        door_begin(&q, s->d, verb);
        (void)door_text(&q, "path", s->path);
        if (to)
                (void)door_text(&q, "to", to);
        if (with_mode && (s->q.attributes.has & SFTP_HAS_MODE))
                json_u64(&q.json, "mode", s->q.attributes.mode & 07777);
        int r = door_ask(&q, ASK_MS, &answer, code, message);
        free(answer);
        if (r < 0)
                (void)sftp_why_code(&why, code, message);
        result(s, r, &why);
}

/* A folder is removed as one, anything else as a file: what the client asked for is what goes. */
static void do_remove(struct sftp *s, bool folder) {
        struct sftp_attributes a;
        struct sftp_why why;
        int r = sftp_file_stat(s->d, s->path, false, &a, NULL, &why);

        if (r < 0)
                result(s, r, &why);
        else if (S_ISDIR(a.mode) != folder)
                status(s, SFTP_FAILURE, folder ? "it is no folder" : "it is a folder");
        else
                do_verb(s, "rm", NULL, false);
}

/* The plain request replaces nothing; the extension does. */
static void do_rename(struct sftp *s, bool replace) {
        struct sftp_attributes a;
        struct sftp_why why;

        if (!replace && sftp_file_stat(s->d, s->to, false, &a, NULL, &why) == 0)
                status(s, SFTP_FAILURE, "something has that name already");
        else
                do_verb(s, "mv", s->to, false);
}

static void do_readlink(struct sftp *s) {
        struct sftp_attributes a;
        struct sftp_why why;
        char target[SFTP_PATH_MAX];
        int r = sftp_file_stat(s->d, s->path, false, &a, target, &why);

        if (r < 0)
                result(s, r, &why);
        else if (!target[0])
                status(s, SFTP_FAILURE, "it is no link");
        else
                one_name(s, target);
}

static void do_setstat(struct sftp *s) {
        struct sftp_why why;

        result(s, sftp_file_change(s->d, s->path, &s->q.attributes, &why), &why);
}

static void handle(struct sftp *s) {
        switch (s->q.kind) {
        case SFTP_INIT:
                do_init(s);
                break;
        case SFTP_OPEN:
        case SFTP_OPENDIR:
                do_open(s);
                break;
        case SFTP_CLOSE:
                do_close(s);
                break;
        case SFTP_READ:
                do_read(s);
                break;
        case SFTP_WRITE:
                do_write(s);
                break;
        case SFTP_STAT:
        case SFTP_LSTAT:
                answer_attributes(s, s->path, s->q.kind == SFTP_STAT);
                break;
        case SFTP_FSTAT:
                do_fstat(s);
                break;
        case SFTP_SETSTAT:
                do_setstat(s);
                break;
        case SFTP_FSETSTAT:
                do_fsetstat(s);
                break;
        case SFTP_READDIR:
                do_readdir(s);
                break;
        case SFTP_REMOVE:
        case SFTP_RMDIR:
                do_remove(s, s->q.kind == SFTP_RMDIR);
                break;
        case SFTP_MKDIR:
                do_verb(s, "mkdir", NULL, true);
                break;
        case SFTP_RENAME:
        case SFTP_EXTENDED:
                do_rename(s, s->q.kind == SFTP_EXTENDED);
                break;
        case SFTP_REALPATH:
                one_name(s, s->path);
                break;
        case SFTP_READLINK:
                do_readlink(s);
                break;
        default:
                status(s, SFTP_UNSUPPORTED, "that is not supported");
        }
}

/* One packet: 1; 0: there are no more. What is wrong inside a packet is answered; a length that is wrong ends it. */
static int turn(struct sftp *s) {
        uint8_t head[4];
        ssize_t n = fd_read_full(s->fd, head, sizeof head);

        if (n == 0)
                return 0;
        size_t size = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (n != (ssize_t)sizeof head || size < 5 || size > sizeof s->body)
                return -EBADMSG;
        if (fd_read_full(s->fd, s->body, size) != (ssize_t)size)
                return -EPIPE;
        int r = sftp_request_read(s->body, size, &s->q);
        s->out.size = 0;
        if (r == 0 && (!sftp_plain_path(s->d->cwd, s->q.path, s->path) || !sftp_plain_path(s->d->cwd, s->q.to, s->to)))
                r = -EBADMSG;
        if (r == -EOPNOTSUPP)
                status(s, SFTP_UNSUPPORTED, "that is not supported");
        else if (r < 0)
                status(s, SFTP_BAD, "the packet is not understood");
        else
                handle(s);
        sftp_end(&s->out);
        if (!buf_ok(&s->out))
                return -ENOMEM;
        r = fd_write_full(s->fd, s->out.data, s->out.size);
        return r < 0 ? r : 1;
}

int sftp_serve(int fd, const struct door *d) {
        static struct sftp s;
        int r;

        s.fd = fd;
        s.d = d;
        do
                r = turn(&s);
        while (r > 0);
        for (size_t i = 0; i < SFTP_HANDLES; i++)
                sftp_file_drop(s.handles[i]);
        buf_free(&s.out);
        return r;
}
