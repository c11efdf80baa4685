/* Handles of the sftp subsystem: files that are read or written as streams of the operator's, and lists of folders. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/json-read.h"
#include "base/text.h"
#include "ssh/sftp.h"

#define WAIT_MS   60000 /* for one frame of the operator's */
#define LINKS_MAX 16    /* that are followed one after the other */
#define RUN_MS    30000 /* for changing a file's mode or time */

struct sftp_handle {
        char path[SFTP_PATH_MAX];
        bool folder, writing;
        bool ended;                /* reading: there is no more */
        struct door_stream stream; /* of `get` or `put`; closed: none yet */
        uint64_t at;               /* the next byte of the stream */
        struct door_frame frame;   /* bytes that were not handed out, from `given` on */
        size_t given;
        uint32_t mode;                /* writing: what it is made with */
        struct sftp_attributes later; /* to be set when it is closed */
        char *list;                   /* folder: the answer */
        struct json_walk walk;
};

int sftp_why(struct sftp_why *why, enum sftp_status status, const char *text) {
        why->status = status;
        (void)snprintf(why->text, sizeof why->text, "%s", text);
        return -EREMOTEIO;
}

int sftp_why_code(struct sftp_why *why, const char *code, const char *message) {
        static const struct {
                const char *code;
                enum sftp_status status;
        } codes[] = {{"not_found", SFTP_NO_FILE}, {"refused", SFTP_DENIED}};
        enum sftp_status status = SFTP_FAILURE;
        char shown[512];

        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (str_eq(codes[i].code, code))
                        status = codes[i].status;
        text_escape(shown, sizeof shown, message);
        return sftp_why(why, status, shown);
}

/* A request with a path and nothing else. */
static int ask(const struct door *d, const char *verb, const char *path, char **ret, struct sftp_why *why) {
        struct door_request q;
        char code[32], message[512];

        door_begin(&q, d, verb);
        (void)door_text(&q, "path", path);
        return door_ask(&q, WAIT_MS, ret, code, message) < 0 ? sftp_why_code(why, code, message) : 0;
}

/* --- attributes --- */

void sftp_file_attributes(const char *entry, struct sftp_attributes *ret) {
        static const struct {
                const char *name;
                uint32_t type;
        } kinds[] = {{"file", S_IFREG}, {"folder", S_IFDIR},  {"link", S_IFLNK},
                     {"pipe", S_IFIFO}, {"socket", S_IFSOCK}, {"device", S_IFCHR}};
        uint64_t mode = 0, uid = 0, gid = 0, changed = 0;
        char kind[16] = "";

        *ret = (struct sftp_attributes){.has = SFTP_HAS_SIZE | SFTP_HAS_IDS | SFTP_HAS_MODE | SFTP_HAS_TIMES};
        (void)json_find_u64(entry, "size", &ret->size);
        (void)json_find_u64(entry, "mode", &mode);
        (void)json_find_u64(entry, "uid", &uid);
        (void)json_find_u64(entry, "gid", &gid);
        (void)json_find_u64(entry, "mtime_ms", &changed);
        (void)json_find_str(entry, "kind", kind, sizeof kind);
        ret->mode = (uint32_t)mode & 07777;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (str_eq(kinds[i].name, kind))
                        ret->mode |= kinds[i].type;
        ret->uid = (uint32_t)uid;
        ret->gid = (uint32_t)gid;
        ret->read_at = ret->changed_at = (uint32_t)(changed / 1000);
}

int sftp_file_stat(const struct door *d, const char *path, bool follow, struct sftp_attributes *ret,
                   char target[SFTP_PATH_MAX], struct sftp_why *why) {
        char now[SFTP_PATH_MAX], to[SFTP_PATH_MAX], folder[SFTP_PATH_MAX];

        (void)snprintf(now, sizeof now, "%s", path);
        for (unsigned links = 0; links < LINKS_MAX; links++) {
                _cleanup_free_ char *entry = NULL;
                int r = ask(d, "stat", now, &entry, why);

                if (r < 0)
                        return r;
                sftp_file_attributes(entry, ret);
                bool link = S_ISLNK(ret->mode) && json_find_str(entry, "target", to, sizeof to);
                if (target)
                        (void)snprintf(target, SFTP_PATH_MAX, "%s", link ? to : "");
                if (!follow || !link)
                        return 0;
                (void)snprintf(folder, sizeof folder, "%s", now);
                *strrchr(folder, '/') = '\0';
                if (!sftp_plain_path(folder, to, now))
                        break;
        }
        return sftp_why(why, SFTP_FAILURE, "too many links");
}

/* There is no verb for it: the sandbox's own programs do it. */
static int execute(const struct door *d, const char *const *argv, size_t count, struct sftp_why *why) {
        struct door_request q;
        _cleanup_free_ char *result = NULL;
        char code[32], message[512];
        uint64_t status = 1;

        door_begin(&q, d, "exec");
        json_open(&q.json, "argv", '[');
        for (size_t i = 0; i < count; i++)
                (void)door_text(&q, NULL, argv[i]);
        json_close(&q.json, ']');
        json_u64(&q.json, "timeout_ms", RUN_MS);
        if (door_ask(&q, RUN_MS + 5000, &result, code, message) < 0)
                return sftp_why_code(why, code, message);
        if (!json_find_u64(result, "exit_code", &status) || status != 0)
                return sftp_why(why, SFTP_FAILURE, "it could not be changed");
        return 0;
}

int sftp_file_change(const struct door *d, const char *path, const struct sftp_attributes *a, struct sftp_why *why) {
        char mode[16], when[32];
        int r = 0;

        if (a->has & (SFTP_HAS_SIZE | SFTP_HAS_IDS))
                return sftp_why(why, SFTP_UNSUPPORTED, "only modes and times can be changed");
        if (a->has & SFTP_HAS_MODE) {
                (void)snprintf(mode, sizeof mode, "%04o", a->mode & 07777);
                r = execute(d, (const char *[]){"chmod", mode, path}, 3, why);
        }
        if (r == 0 && (a->has & SFTP_HAS_TIMES)) {
                (void)snprintf(when, sizeof when, "@%u", a->changed_at);
                r = execute(d, (const char *[]){"touch", "-d", when, path}, 4, why);
        }
        return r;
}

/* --- handles --- */

static struct sftp_handle *handle_new(const char *path) {
        struct sftp_handle *h = calloc(1, sizeof *h);

        if (!h)
                return NULL;
        (void)snprintf(h->path, sizeof h->path, "%s", path);
        h->stream.fd = -EBADF;
        return h;
}

void sftp_file_drop(struct sftp_handle *h) {
        if (!h)
                return;
        door_close(&h->stream);
        free(h->list);
        free(h);
}

const char *sftp_file_path(const struct sftp_handle *h) {
        return h->path;
}

bool sftp_file_is_folder(const struct sftp_handle *h) {
        return h->folder;
}

static int begin_put(const struct door *d, struct sftp_handle *h, struct sftp_why *why) {
        struct door_request q;

        door_begin(&q, d, "put");
        (void)door_text(&q, "path", h->path);
        json_u64(&q.json, "mode", h->mode);
        return door_go(&q, &h->stream) < 0 ? sftp_why(why, SFTP_FAILURE, "it could not be asked for") : 0;
}

int sftp_file_open(const struct door *d, const char *path, uint32_t flags, const struct sftp_attributes *a,
                   struct sftp_handle **ret, struct sftp_why *why) {
        struct sftp_attributes now = {0};
        bool write = flags & SFTP_OPEN_WRITE;
        int r = sftp_file_stat(d, path, !write, &now, NULL, why);
        bool there = r == 0;

        if (r < 0 && (!write || why->status != SFTP_NO_FILE || !(flags & SFTP_OPEN_CREATE)))
                return r;
        if (there && !S_ISREG(now.mode) && !(write && S_ISLNK(now.mode)))
                return sftp_why(why, SFTP_FAILURE, "it is no file");
        if (there && (flags & SFTP_OPEN_NEW))
                return sftp_why(why, SFTP_FAILURE, "it is there already");
        bool whole = !there || (flags & SFTP_OPEN_EMPTY) || now.size == 0;
        if (write && ((flags & SFTP_OPEN_APPEND) || !whole))
                return sftp_why(why, SFTP_UNSUPPORTED, "a file can only be written anew, from its beginning");
        struct sftp_handle *h = handle_new(path);
        if (!h)
                return sftp_why(why, SFTP_FAILURE, "out of memory");
        h->writing = write;
        h->mode = there ? now.mode & 07777 : (a->has & SFTP_HAS_MODE) ? a->mode & 0777 : 0644;
        r = write ? begin_put(d, h, why) : 0;
        if (r < 0)
                sftp_file_drop(h);
        else
                *ret = h;
        return r;
}

int sftp_file_folder(const struct door *d, const char *path, struct sftp_handle **ret, struct sftp_why *why) {
        _cleanup_free_ char *list = NULL;
        int r = ask(d, "ls", path, &list, why);

        if (r < 0)
                return r;
        struct sftp_handle *h = handle_new(path);
        if (!h)
                return sftp_why(why, SFTP_FAILURE, "out of memory");
        h->folder = true;
        h->list = TAKE_PTR(list);
        if (!json_walk_begin(&h->walk, h->list, "entries")) {
                sftp_file_drop(h);
                return sftp_why(why, SFTP_FAILURE, "it is no folder");
        }
        *ret = h;
        return 0;
}

const char *sftp_file_entry(struct sftp_handle *h) {
        return h->folder && json_walk_next(&h->walk) ? h->walk.value : NULL;
}

/* --- reading --- */

static int begin_get(const struct door *d, struct sftp_handle *h, uint64_t offset, struct sftp_why *why) {
        struct door_request q;

        door_close(&h->stream);
        h->frame.size = h->given = 0;
        h->ended = false;
        h->at = offset;
        door_begin(&q, d, "get");
        (void)door_text(&q, "path", h->path);
        json_u64(&q.json, "offset", offset);
        return door_go(&q, &h->stream) < 0 ? sftp_why(why, SFTP_FAILURE, "it could not be asked for") : 0;
}

/* The next bytes of the stream: 1, or 0 at its end. */
static int next_bytes(struct sftp_handle *h, struct sftp_why *why) {
        char code[32], message[512];

        for (;;) {
                int r = door_wait(&h->stream, WAIT_MS, &h->frame);

                h->given = 0;
                if (r < 0) {
                        h->frame.size = 0;
                        return sftp_why(why, SFTP_FAILURE, "the operator does not answer");
                }
                if (h->frame.kind == LOCAL_OUTPUT && h->frame.size > 0)
                        return 1;
                if (h->frame.kind != LOCAL_ANSWER)
                        continue;
                bool good = door_good(&h->frame, code, message);
                h->frame.size = 0;
                h->ended = good;
                return good ? 0 : sftp_why_code(why, code, message);
        }
}

ssize_t sftp_file_read(const struct door *d, struct sftp_handle *h, uint64_t offset, uint8_t *ret, size_t size,
                       struct sftp_why *why) {
        size_t done = 0;

        if (h->folder || h->writing)
                return sftp_why(why, SFTP_FAILURE, "it is not open for reading");
        if ((h->stream.fd < 0 || h->at != offset) && begin_get(d, h, offset, why) < 0)
                return -EREMOTEIO;
        while (done < size) {
                if (h->given == h->frame.size) {
                        int r = h->ended ? 0 : next_bytes(h, why);

                        if (r < 0) {
                                door_close(&h->stream);
                                return r;
                        }
                        if (r == 0)
                                break;
                }
                size_t n = MIN(size - done, h->frame.size - h->given);
                memcpy(ret + done, h->frame.data + h->given, n);
                h->given += n;
                h->at += n;
                done += n;
        }
        return (ssize_t)done;
}

/* --- writing --- */

/* The operator's last word; the stream is over. */
static int finish_put(struct sftp_handle *h, struct sftp_why *why) {
        struct door_frame f;
        char code[32], message[512];
        int r;

        do
                r = door_wait(&h->stream, WAIT_MS, &f);
        while (r > 0 && f.kind != LOCAL_ANSWER);
        if (r > 0)
                r = door_good(&f, code, message) ? 0 : sftp_why_code(why, code, message);
        else
                r = sftp_why(why, SFTP_FAILURE, "the operator does not answer");
        door_close(&h->stream);
        return r;
}

int sftp_file_write(const struct door *d, struct sftp_handle *h, uint64_t offset, const uint8_t *data, size_t size,
                    struct sftp_why *why) {
        (void)d;
        if (!h->writing || h->stream.fd < 0)
                return sftp_why(why, SFTP_FAILURE, "it is not open for writing");
        if (offset != h->at)
                return sftp_why(why, SFTP_UNSUPPORTED, "a file can only be written from its beginning to its end");
        if (size == 0)
                return 0;
        int r = door_put(&h->stream, LOCAL_INPUT, data, size);
        if (r == 0)
                r = door_drain(&h->stream, WAIT_MS);
        if (r == 0) {
                h->at += size;
                return 0;
        }
        /* it did not take it: why, is the answer */
        r = finish_put(h, why);
        return r < 0 ? r : sftp_why(why, SFTP_FAILURE, "it ended early");
}

void sftp_file_later(struct sftp_handle *h, const struct sftp_attributes *a) {
        if (a->has & SFTP_HAS_MODE)
                h->later.mode = a->mode;
        if (a->has & SFTP_HAS_TIMES)
                h->later.changed_at = a->changed_at;
        h->later.has |= a->has & (SFTP_HAS_MODE | SFTP_HAS_TIMES);
}

int sftp_file_close(const struct door *d, struct sftp_handle *h, struct sftp_why *why) {
        int r = 0;

        if (h->writing && h->stream.fd >= 0) {
                r = door_put(&h->stream, LOCAL_FINISH, NULL, 0) < 0 ? sftp_why(why, SFTP_FAILURE, "out of memory")
                                                                    : finish_put(h, why);
                if (r == 0 && h->later.has)
                        r = sftp_file_change(d, h->path, &h->later, why);
        } else if (h->writing)
                r = sftp_why(why, SFTP_FAILURE, "it could not be written");
        sftp_file_drop(h);
        return r;
}
