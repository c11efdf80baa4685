/* `stockade cp` and `stockade ls`: files between the host and a sandbox.
 *
 * A file goes as bytes and appears whole or not at all; a folder goes as a tar stream. The sandbox is hostile: what
 * comes out of it is unpacked by unpack.c's rules, and a name that it gave decides about nothing outside the target. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json-read.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/pack.h"
#include "cli/pour.h"
#include "cli/table.h"

struct options {
        struct args_common common;
        bool keep_links, force;
        uint64_t limit;
};
#define AT(field) offsetof(struct options, field)

static const struct args_option cp_options[] = {
        {"force", 'f', NULL, "replace files of the host that are there", ARGS_FLAG, AT(force)},
        {"limit", 0, "SIZE", "take no more than this from a sandbox (default: 16GiB)", ARGS_BYTES, AT(limit)},
        {"keep-links", 0, NULL, "also links of a sandbox that lead out of the folder", ARGS_FLAG, AT(keep_links)},
};

const struct args_verb cp_verb = {
        .name = "cp",
        .words = "SOURCE… TARGET",
        .summary = "copy files and folders in and out",
        .about = "Copies from the host to a sandbox, or from a sandbox to the host: a place in a sandbox is written "
                 "SANDBOX:PATH; a PATH that does not begin with / is below the folder where commands begin. A target "
                 "that is a folder takes the source under its own name. - "
                 "stands for standard input or output.\n\n"
                 "What comes out of a sandbox is not trusted: it never leaves the target, has no set-id bits and no "
                 "devices, and links that lead elsewhere are left out.",
        .least = 2,
        .most = SIZE_MAX,
        .what = {WHAT_PLACE, WHAT_PLACE},
        .options = cp_options,
        .count = ELEMENTSOF(cp_options),
};

const struct args_verb ls_verb = {
        .name = "ls",
        .words = "SANDBOX[:PATH]",
        .summary = "list a folder of a sandbox",
        .flags = ARGS_JSON,
        .least = 1,
        .most = 1,
        .what = {WHAT_SANDBOX},
};

/* "SANDBOX:PATH". What has a slash before the colon is a file of the host. */
struct place {
        char *sandbox; /* NULL: on the host */
        char *path;
};

static void place_free(struct place *p) {
        free(p->sandbox);
        free(p->path);
}
#define _cleanup_place_ _cleanup_(place_free)

static char *join(const char *folder, const char *name) {
        char *path;
        size_t n = strlen(folder);

        while (n > 1 && folder[n - 1] == '/')
                n--;
        if (asprintf(&path, "%.*s%s%s", (int)n, folder, n == 1 && folder[0] == '/' ? "" : "/", name) < 0)
                return NULL;
        return path;
}

/* A path that is not absolute is below the folder where the sandbox's commands begin, as the daemon knows it. */
static int make_absolute(const struct args_common *o, struct place *p, struct err *err) {
        _cleanup_request_ struct talk_request q = {0};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        const char *result;
        char cwd[PATH_MAX];

        if (p->path[0] == '/')
                return 0;
        talk_begin(&q, "show");
        talk_str(&q, "sandbox", p->sandbox);
        int r = talk_ask(&t, o, &q, &result, err);
        if (r < 0)
                return r;
        if (!json_find_str(result, "cwd", cwd, sizeof cwd) || cwd[0] != '/')
                return err_set(err, ERR_CORRUPT, "the daemon does not say where commands of %s begin", p->sandbox);
        char *path = p->path[0] ? join(cwd, p->path) : strdup(cwd);
        free(p->path);
        p->path = path;
        return path ? 0 : err_set(err, -ENOMEM, "cannot copy");
}

static int parse_place(const struct args_common *o, const char *text, struct place *ret, struct err *err) {
        size_t n = strcspn(text, ":/");
        bool inside = text[n] == ':' && n > 0;

        *ret = (struct place){.sandbox = inside ? strndup(text, n) : NULL,
                              .path = strdup(inside ? text + n + 1 : text)};
        if ((inside && !ret->sandbox) || !ret->path)
                return err_set(err, -ENOMEM, "cannot copy");
        return inside ? make_absolute(o, ret, err) : 0;
}

/* --- requests ------------------------------------------------------------------------------------------------- */

static int ask(const struct options *o, const char *verb, const char *sandbox, const char *path, struct talk *t,
               struct err *err) {
        _cleanup_request_ struct talk_request q;

        talk_begin(&q, verb);
        talk_str(&q, "sandbox", sandbox);
        talk_str(&q, "path", path);
        return talk_go(t, &o->common, &q, err);
}

enum kind { NOTHING, A_FILE, A_FOLDER, SOMETHING };

/* What is at a path of the sandbox; a link is what it leads to, as the sandbox sees it. */
static int look(const struct options *o, const struct place *p, enum kind *ret, struct err *err) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        const char *result;
        char kind[16] = "";

        int r = ask(o, "stat", p->sandbox, p->path, &t, err);
        if (r == 0)
                r = talk_wait(&t, &result, NULL, NULL, err);
        if (r < 0 && str_eq(t.code, "not_found")) {
                *ret = NOTHING; /* the sandbox too may be unknown: whoever goes on hears it */
                return 0;
        }
        if (r < 0)
                return r;
        (void)json_find_str(result, "kind", kind, sizeof kind);
        *ret = str_eq(kind, "file")                                  ? A_FILE
               : str_eq(kind, "folder") || str_eq(kind, "directory") ? A_FOLDER
                                                                     : SOMETHING;
        return 0;
}

/* The last part of a path, in memory of its own; "" for one that has none. */
static char *last_part(const char *path) {
        char copy[PATH_MAX];

        if (strlen(path) >= sizeof copy)
                return strdup("");
        memcpy(copy, path, strlen(path) + 1);
        const char *name = basename(copy);
        return strdup(str_eq(name, "/") || str_eq(name, ".") || str_eq(name, "..") ? "" : name);
}

/* --- to a sandbox --------------------------------------------------------------------------------------------- */

static int put_file(const struct options *o, const char *file, const struct place *to, const char *path,
                    struct err *err) {
        _cleanup_request_ struct talk_request q;
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        _cleanup_fd_ int in = -EBADF;
        const char *result;
        struct stat st;

        int r = pour_open(file, &in, err);
        if (r < 0)
                return r;
        talk_begin(&q, "put");
        talk_str(&q, "sandbox", to->sandbox);
        talk_str(&q, "path", path);
        if (fstat(in, &st) == 0 && S_ISREG(st.st_mode))
                json_u64(&q.json, "mode", st.st_mode & 0777);
        r = talk_go(&t, &o->common, &q, err);
        return r < 0 ? r : pour_in(&t, in, false, &result, err);
}

static int give(void *data, const void *bytes, size_t size, struct err *err) {
        return pour_give(data, bytes, size, err);
}

static void tell_left_out(uint64_t count, const char *what, const char *example) {
        if (count > 0)
                (void)fprintf(stderr, "stockade: left out %llu %s, such as '%s'\n", (unsigned long long)count, what,
                              example);
}

static int put_folder(const struct options *o, int dir, const struct place *to, const char *path, bool make,
                      struct err *err) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF}, before = {.fd = -EBADF};
        struct pack_count count;
        const char *result;
        struct pour p;
        int r = 0;

        if (make) {
                r = ask(o, "mkdir", to->sandbox, path, &before, err);
                if (r == 0)
                        r = talk_wait(&before, &result, NULL, NULL, err);
        }
        if (r == 0)
                r = ask(o, "tar-in", to->sandbox, path, &t, err);
        if (r < 0)
                return r;
        pour_begin(&p, &t, false);
        r = pack_folder(dir, ".", 0, give, &p, &count, err);
        if (r < 0 && r != -ECANCELED) {
                tell_progress_end(&p.progress);
                return r;
        }
        r = pour_end(&p, &result, err);
        tell_left_out(count.special, "devices, sockets or pipes", count.example);
        if (r == 0 && count.changed > 0)
                (void)fprintf(stderr, "stockade: %llu files changed while they were copied\n",
                              (unsigned long long)count.changed);
        return r;
}

static int copy_in(const struct options *o, const char *from, const struct place *to, bool into, struct err *err) {
        _cleanup_free_ char *name = last_part(from);
        enum kind kind;
        struct stat st;
        int r = look(o, to, &kind, err);

        if (r < 0)
                return r;
        if (into && kind != A_FOLDER) {
                (void)err_set(err, ERR_INPUT, "'%s' in %s is no folder", to->path, to->sandbox);
                return err_hint(err, "several sources need a folder that is there");
        }
        bool is_folder = !str_eq(from, "-") && stat(from, &st) == 0 && S_ISDIR(st.st_mode);
        bool below = kind == A_FOLDER && name && name[0] && !str_eq(from, "-");
        _cleanup_free_ char *path = below ? join(to->path, name) : strdup(to->path);
        if (!path)
                return err_set(err, -ENOMEM, "cannot copy");
        if (!is_folder)
                return put_file(o, from, to, path, err);
        _cleanup_fd_ int dir = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return err_set(err, -errno, "cannot open '%s'", from);
        const struct place target = {.sandbox = to->sandbox, .path = path};
        if (below) {
                r = look(o, &target, &kind, err);
                if (r < 0)
                        return r;
        }
        return put_folder(o, dir, to, path, kind != A_FOLDER, err);
}

/* --- from a sandbox ------------------------------------------------------------------------------------------- */

static int get_file(const struct options *o, const struct place *from, const char *path, struct err *err) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct pour_file file;
        const char *result;

        int r = pour_create(&file, path, 0666 & ~unpack_umask(), o->force, err);
        if (r < 0)
                return r;
        r = ask(o, "get", from->sandbox, from->path, &t, err);
        if (r == 0)
                r = pour_out(&t, &file, o->limit, false, &result, err);
        if (r == 0)
                r = pour_keep(&file, err);
        pour_discard(&file);
        return r;
}

static int receive_folder(struct talk *t, struct unpack *u, uint64_t limit, struct err *err) {
        struct tell_progress progress;
        struct talk_frame f;
        uint64_t bytes = 0;
        int r;

        tell_progress_begin(&progress, "received", false);
        while ((r = talk_next(t, &f, err)) > 0) {
                if (f.kind != LOCAL_OUTPUT)
                        continue;
                bytes += f.size;
                r = unpack_take(u, f.data, f.size, err);
                if (r == 0 && bytes > limit + limit / 2 + (64 << 20)) /* headers count too */
                        r = err_set(err, ERR_LIMIT, "the sandbox sends more than --limit");
                if (r < 0)
                        break;
                tell_progress(&progress, bytes);
        }
        tell_progress_end(&progress);
        const char *result;
        return r < 0 ? r : talk_result(t, &result, err);
}

static int get_folder(const struct options *o, const struct place *from, const char *path, struct err *err) {
        struct unpack_options limits = {
                .max_bytes = o->limit, .max_entries = 1 << 24, .any_link = o->keep_links, .replace = o->force};
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        struct unpack_count count = {0};
        struct unpack *u;

        if (mkdir(path, 0777) < 0 && errno != EEXIST)
                return err_set(err, -errno, "cannot make '%s'", path);
        _cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return err_set(err, -errno, "cannot open '%s'", path);
        int r = unpack_begin(&u, dir, &limits, err);
        if (r < 0)
                return r;
        r = ask(o, "tar-out", from->sandbox, from->path, &t, err);
        if (r == 0)
                r = receive_folder(&t, u, o->limit, err);
        if (r == 0)
                r = unpack_end(u, &count, err);
        unpack_free(u);
        tell_left_out(count.links, "links that lead out of the folder (--keep-links takes them too)", count.example);
        tell_left_out(count.special, "devices, sockets or pipes", count.example);
        return r;
}

static int copy_out(const struct options *o, const struct place *from, const char *to, bool into, struct err *err) {
        struct stat st;
        enum kind kind;
        int r = look(o, from, &kind, err);

        if (r < 0)
                return r;
        bool is_folder = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
        if (into && !is_folder) {
                (void)err_set(err, ERR_INPUT, "'%s' is no folder", to);
                return err_hint(err, "several sources need a folder that is there");
        }
        _cleanup_free_ char *name = last_part(from->path);
        _cleanup_free_ char *path = is_folder && name && name[0] ? join(to, name) : strdup(to);
        if (!path)
                return err_set(err, -ENOMEM, "cannot copy");
        if (kind != A_FOLDER) /* also when there is nothing: the refusal has better words */
                return get_file(o, from, path, err);
        if (str_eq(to, "-"))
                return err_set(err, ERR_INPUT, "a folder cannot go to standard output");
        return get_folder(o, from, path, err);
}

static int copy_one(const struct options *o, const char *from, const struct place *target, bool into, struct err *err) {
        _cleanup_place_ struct place source = {0};
        int r = parse_place(&o->common, from, &source, err);

        if (r < 0)
                return r;
        if (!source.sandbox == !target->sandbox) {
                (void)err_set(err, ERR_INPUT, "one of the two has to be SANDBOX:PATH, and one not");
                return err_hint(err, "stockade cp FILE SANDBOX:PATH, or stockade cp SANDBOX:PATH FILE");
        }
        return target->sandbox ? copy_in(o, source.path, target, into, err)
                               : copy_out(o, &source, target->path, into, err);
}

int cmd_cp(int argc, char **argv) {
        _cleanup_place_ struct place target = {0};
        struct options o = {.limit = 16ULL << 30};
        struct err err = {0};
        int status;

        if (!client_begin(&cp_verb, &argc, argv, &o, &status))
                return status;
        int r = parse_place(&o.common, argv[argc], &target, &err);
        for (int i = 1; r == 0 && i < argc; i++)
                r = copy_one(&o, argv[i], &target, argc > 2, &err);
        return r < 0 ? talk_failed(NULL, &o.common, &err) : 0;
}

/* --- listing -------------------------------------------------------------------------------------------------- */

static char letter_of(const char *kind) {
        return str_eq(kind, "folder") || str_eq(kind, "directory") ? 'd'
               : str_eq(kind, "link")                              ? 'l'
               : str_eq(kind, "file")                              ? '-'
                                                                   : '?';
}

static void print_entries(const char *result) {
        static const struct table_column columns[] = {
                {"MODE", 0}, {"SIZE", TABLE_RIGHT}, {"CHANGED", 0}, {"NAME", TABLE_SHRINK}};
        struct json_walk w;
        struct table t;

        table_begin(&t, columns, ELEMENTSOF(columns));
        if (json_walk_begin(&w, result, "entries"))
                while (json_walk_next(&w)) {
                        uint64_t mode = tell_number(w.value, "mode") & 07777;
                        char text[64], kind[16];

                        (void)tell_text(kind, sizeof kind, w.value, "kind");
                        (void)snprintf(text, sizeof text, "%c%04llo", letter_of(kind), (unsigned long long)mode);
                        table_cell(&t, text);
                        table_cell(&t, tell_size(text, sizeof text, tell_number(w.value, "size")));
                        table_cell(&t, tell_time(text, sizeof text, tell_number(w.value, "mtime_ms")));
                        table_json(&t, w.value, "name");
                }
        table_print(&t);
}

int cmd_ls(int argc, char **argv) {
        _cleanup_talk_ struct talk t = {.fd = -EBADF};
        _cleanup_place_ struct place place = {0};
        struct options o = {0};
        struct err err = {0};
        const char *result;
        int status;

        if (!client_begin(&ls_verb, &argc, argv, &o, &status))
                return status;
        int r = parse_place(&o.common, argv[1], &place, &err);
        if (r == 0 && !place.sandbox) { /* a sandbox alone */
                place.sandbox = TAKE_PTR(place.path);
                place.path = strdup("");
                r = place.path ? make_absolute(&o.common, &place, &err) : -ENOMEM;
        }
        if (r == 0)
                r = ask(&o, "ls", place.sandbox, place.path, &t, &err);
        if (r == 0)
                r = talk_wait(&t, &result, NULL, NULL, &err);
        if (r < 0)
                return talk_failed(&t, &o.common, &err);
        if (o.common.json)
                talk_print(result);
        else
                print_entries(result);
        return 0;
}
