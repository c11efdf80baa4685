/* Digests: taking all parts, sorting, hashing, comparing, printing. What the parts consist of is in digest-host.c and
 * digest-files.c.
 *
 * Lines are sorted, so that two digests are compared in one walk and the order in which a kernel lists things does not
 * matter. A digest that could not be taken whole is an error: a short list would look like a clean host. */
#include "verify/digest.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "verify/digest-parts.h"

const char *const digest_names[] = {
        [DIGEST_MOUNTS] = "mounts",
        [DIGEST_NAMESPACES] = "namespaces",
        [DIGEST_CGROUPS] = "cgroups",
        [DIGEST_PROCESSES] = "processes",
        [DIGEST_SETTINGS] = "settings",
        [DIGEST_KEYS] = "keys",
        [DIGEST_IPC] = "ipc",
        [DIGEST_DEVICES] = "devices",
        [DIGEST_NETWORK] = "network",
        [DIGEST_FILES] = "files",
        [DIGEST_DESCRIPTORS] = "descriptors",
        [DIGEST_LOOPS] = "loops",
        [DIGEST_IDENTITY] = "identity",
};
static_assert(ELEMENTSOF(digest_names) == DIGEST_COUNT, "every part has a name");

void parts_line(struct buf *b, const char *format, ...) {
        char text[8192], safe[4 * sizeof text + 1];
        va_list args;

        va_start(args, format);
        int n = vsnprintf(text, sizeof text, format, args);
        va_end(args);
        if (n < 0)
                return;
        text_escape(safe, sizeof safe, text);
        buf_str(b, safe);
        buf_str(b, "\n");
}

static int compare_lines(const void *a, const void *b) {
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the lines of b. once: equal ones become one. */
static int sort_lines(struct buf *b, bool once) {
        size_t count = 0, kept = 0;

        if (b->size == 0)
                return 0;
        for (size_t i = 0; i < b->size; i++)
                count += b->data[i] == '\n';
        _cleanup_free_ const char **lines = calloc(count + 1, sizeof *lines);
        struct buf sorted = {.max = b->max};
        if (!lines)
                return -ENOMEM;
        for (char *line = b->data, *end; kept < count && (end = strchr(line, '\n')); line = end + 1) {
                *end = '\0';
                lines[kept++] = line;
        }
        qsort(lines, kept, sizeof *lines, compare_lines);
        for (size_t i = 0; i < kept; i++) {
                if (once && i > 0 && str_eq(lines[i], lines[i - 1]))
                        continue;
                buf_str(&sorted, lines[i]);
                buf_str(&sorted, "\n");
        }
        buf_free(b);
        *b = sorted;
        return buf_ok(b) ? 0 : -ENOMEM;
}

static void hash_lines(const struct buf *b, char ret[HASH_TEXT_SIZE]) {
        struct hash h;
        uint8_t bytes[HASH_SIZE];

        hash_init(&h);
        hash_add(&h, b->data, b->size);
        hash_done(&h, bytes);
        hash_text(bytes, ret);
}

static int take_part(struct digest *d, enum digest_part part, const struct parts_scope *s, struct err *err) {
        struct buf *b = &d->parts[part];

        b->max = PARTS_BYTES_MAX;
        int r = parts_take(part, s, b, err);
        if (r < 0)
                return err_prefix(err, r, "digest of %s", digest_names[part]);
        if (!buf_ok(b))
                return err_set(err, ERR_LIMIT, "digest of %s: too much to remember", digest_names[part]);
        r = sort_lines(b, part == DIGEST_NAMESPACES); /* several processes hold the same */
        if (r < 0)
                return err_set(err, r, "digest of %s", digest_names[part]);
        hash_lines(b, d->hash[part]);
        return 0;
}

static int take(struct digest *d, struct parts_scope *s, struct err *err) {
        *d = (struct digest){0};
        int r = parts_processes(s, err);
        for (unsigned i = 0; i < DIGEST_COUNT && r == 0; i++)
                r = take_part(d, (enum digest_part)i, s, err);
        free(s->processes);
        if (r < 0)
                digest_free(d);
        return r;
}

int digest_take(struct digest *d, const char *const *watched, const int *ours, struct err *err) {
        struct parts_scope s = {.watched = watched, .ours = ours};

        return take(d, &s, err);
}

int digest_take_host(struct digest *d, const char *const *watched, struct err *err) {
        struct parts_scope s = {.host = true, .watched = watched};

        return take(d, &s, err);
}

void digest_free(struct digest *d) {
        for (size_t i = 0; i < DIGEST_COUNT; i++)
                buf_free(&d->parts[i]);
        *d = (struct digest){0};
}

bool digest_same(const struct digest *a, const struct digest *b) {
        return memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

/* Keeps a line of differences if it fits. */
static void differ(struct buf *ret, char sign, const char *part, const char *line, size_t length) {
        size_t max = ret->max ? ret->max : 1 << 20;

        if (ret->size + strlen(part) + length + 6 <= max)
                buf_printf(ret, "%c %s: %.*s\n", sign, part, (int)length, line);
}

static size_t differences_of(const char *part, const char *a, const char *b, struct buf *ret) {
        size_t count = 0;

        while (*a || *b) {
                size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
                int order = !*a ? 1 : !*b ? -1 : strncmp(a, b, MIN(na, nb));
                if (*a && *b && order == 0)
                        order = (na > nb) - (na < nb);
                if (order != 0) {
                        differ(ret, order < 0 ? '-' : '+', part, order < 0 ? a : b, order < 0 ? na : nb);
                        count++;
                }
                if (order <= 0)
                        a += na + 1;
                if (order >= 0)
                        b += nb + 1;
        }
        return count;
}

size_t digest_difference(const struct digest *a, const struct digest *b, struct buf *ret) {
        size_t count = 0;

        for (size_t i = 0; i < DIGEST_COUNT; i++) {
                const char *x = a->parts[i].data, *y = b->parts[i].data;

                if (!str_eq(a->hash[i], b->hash[i]))
                        count += differences_of(digest_names[i], x ? x : "", y ? y : "", ret);
        }
        return count;
}

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool digest_settle(const struct digest *before, struct digest *now, const char *const *watched, const int *ours,
                   unsigned ms) {
        uint64_t end = now_ms() + ms;

        for (long pause = 10;; pause = MIN(2 * pause, 200L)) {
                digest_free(now);
                if (digest_take(now, watched, ours, NULL) == 0 && digest_same(before, now))
                        return true;
                if (now_ms() >= end)
                        return false;
                (void)nanosleep(&(struct timespec){.tv_nsec = pause * 1000000}, NULL);
        }
}

static void write_parts(struct json *j, const struct digest *d) {
        for (size_t i = 0; i < DIGEST_COUNT; i++) {
                _cleanup_free_ char *copy = d->parts[i].data ? strdup(d->parts[i].data) : NULL;

                json_open(j, digest_names[i], '{');
                json_str(j, "hash", d->hash[i]);
                json_open(j, "lines", '[');
                for (char *line = copy, *end; line && (end = strchr(line, '\n')); line = end + 1) {
                        *end = '\0';
                        json_str(j, NULL, line);
                }
                json_close(j, ']');
                json_close(j, '}');
        }
}

static void write_counts(struct json *j, const struct digest_counts *c) {
        json_open(j, "counts", '{');
        json_u64(j, "files", c->files);
        json_u64(j, "inodes", c->inodes);
        json_u64(j, "slab_kib", c->slab_kib);
        json_u64(j, "unreclaimable_kib", c->unreclaimable_kib);
        json_u64(j, "stacks_kib", c->stacks_kib);
        json_u64(j, "percpu_kib", c->percpu_kib);
        json_u64(j, "tables_kib", c->tables_kib);
        json_u64(j, "cgroups", c->cgroups);
        json_u64(j, "dying", c->dying);
        json_close(j, '}');
}

void digest_write(const struct digest *d, struct buf *ret) {
        struct json j = {.out = ret};

        json_open(&j, NULL, '{');
        write_parts(&j, d);
        json_close(&j, '}');
}

int digest_main(int argc, char **argv) {
        bool host = argc > 1 && str_eq(argv[1], "--host");
        const char *const *folders = (const char *const *)argv + 1 + host; /* argv ends with NULL */
        struct digest_counts counts;
        struct digest d;
        struct err err = {0};
        _cleanup_buf_ struct buf out = {.max = 4 * PARTS_BYTES_MAX};
        struct json j = {.out = &out};

        if (argc > 1 && !host && argv[1][0] == '-') {
                (void)fprintf(stderr, "usage: stockade-verify LAUNCHER digest [--host] [FOLDER…]\n");
                return 2;
        }
        digest_count(&counts); /* before our own work changes them */
        int r = host ? digest_take_host(&d, folders, &err) : digest_take(&d, folders, NULL, &err);
        if (r < 0) {
                err_print(&err);
                return 1;
        }
        json_open(&j, NULL, '{');
        write_parts(&j, &d);
        write_counts(&j, &counts);
        json_close(&j, '}');
        buf_str(&out, "\n");
        digest_free(&d);
        return buf_ok(&out) && fd_write_full(STDOUT_FILENO, out.data, out.size) == 0 ? 0 : 1;
}
