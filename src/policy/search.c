/* Finding profiles.
 *
 * A tier's name means the built-in one, unless the operator's folder has a file of that name: nobody else can replace a
 * tier. Other names are looked for folder by folder. A name never leaves its folder: it has no slash, and its file is
 * not followed if it is a link. A file that exists and cannot be read is an error, never a reason to look further. */
#include "policy/search.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "policy/value.h"

void search_file_free(struct search_file *f) {
        free(f->label);
        free(f->data);
        *f = (struct search_file){0};
}

void profile_sources_free(struct profile_sources *s) {
        for (size_t i = 0; i < s->count; i++)
                free(s->items[i].path);
        s->count = 0;
}

static int add_source(struct profile_sources *s, const char *path, const char *data, size_t size, struct err *err) {
        if (s->count >= PROFILE_SOURCES_MAX)
                return err_set(err, ERR_LIMIT, "more than %d places were looked at for profiles", PROFILE_SOURCES_MAX);
        struct profile_source *source = &s->items[s->count];

        *source = (struct profile_source){.path = strdup(path), .absent = data == NULL};
        if (!source->path)
                return err_set(err, -ENOMEM, "cannot look for profiles");
        s->count++;
        if (data) {
                struct hash state;

                hash_init(&state);
                hash_add(&state, data, size);
                hash_done(&state, source->hash);
        }
        return 0;
}

struct profile_search search_default(struct search_store *store) {
        const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        int n = -1;

        /* the convention is that a relative XDG_CONFIG_HOME does not count */
        if (config && config[0] == '/')
                n = snprintf(store->user_dir, sizeof store->user_dir, "%s/stockade/profiles", config);
        else if (home && home[0] == '/')
                n = snprintf(store->user_dir, sizeof store->user_dir, "%s/.config/stockade/profiles", home);
        return (struct profile_search){.list = getenv("STOCKADE_PROFILES"),
                                       .user_dir = n > 0 && (size_t)n < sizeof store->user_dir ? store->user_dir : NULL,
                                       .system_dir = PROFILE_SYSTEM_DIR};
}

bool search_is_path(const char *name) {
        size_t length = strlen(name);

        return strchr(name, '/') || (length > 5 && str_eq(name + length - 5, ".yaml"));
}

const struct profile_builtin *search_builtin(const char *name) {
        for (size_t i = 0; i < profile_builtin_count; i++)
                if (str_eq(profile_builtins[i].name, name))
                        return &profile_builtins[i];
        return NULL;
}

const char *search_folder(const struct profile_search *search, size_t i, char *buf, size_t size) {
        const char *rest = search->list ? search->list : "";

        while (*rest) {
                size_t length = strcspn(rest, ":");

                /* an empty part would mean the working directory: it does not count */
                if (length > 0 && length < size && i-- == 0) {
                        memcpy(buf, rest, length);
                        buf[length] = '\0';
                        return buf;
                }
                rest += length + (rest[length] == ':');
        }
        if (search->user_dir && i-- == 0)
                return search->user_dir;
        return i == 0 ? search->system_dir : NULL;
}

static int read_file(const char *path, bool nofollow, struct profile_sources *sources, struct search_file *ret,
                     struct err *err) {
        _cleanup_(search_file_free) struct search_file f = {0};
        struct stat st = {0};

        int r = fd_read_file(AT_FDCWD, path, PROFILE_FILE_MAX, nofollow, &f.data, &f.size, err);
        if (r == -ELOOP && nofollow) {
                (void)err_set(err, ERR_REFUSED, "'%.300s' is a symbolic link, and a name does not leave its folder",
                              path);
                (void)err_hint(err, "copy the file there, or name it by its path");
                return ERR_REFUSED;
        }
        if (r == ERR_LIMIT)
                return err_set(err, ERR_LIMIT, "'%.300s' is larger than %d KiB, which no profile is", path,
                               PROFILE_FILE_MAX / 1024);
        if (r < 0)
                return r;
        f.label = strdup(path);
        if (!f.label)
                return err_set(err, -ENOMEM, "cannot read '%.300s'", path);
        r = add_source(sources, path, f.data, f.size, err);
        if (r < 0)
                return r;
        /* only to recognise cycles; PROFILE_EXTENDS_MAX stops what this misses */
        if (stat(path, &st) == 0) {
                f.device = st.st_dev;
                f.inode = st.st_ino;
        }
        *ret = f;
        f = (struct search_file){0};
        return 0;
}

static int read_builtin(const struct profile_builtin *b, struct profile_sources *sources, struct search_file *ret,
                        struct err *err) {
        _cleanup_(search_file_free) struct search_file f = {.size = b->size};
        char label[80];

        (void)snprintf(label, sizeof label, "builtin:%s", b->name);
        f.label = strdup(label);
        f.data = malloc(b->size + 1);
        if (!f.label || !f.data)
                return err_set(err, -ENOMEM, "cannot read %s", label);
        memcpy(f.data, b->data, b->size);
        f.data[b->size] = '\0';
        int r = add_source(sources, label, f.data, f.size, err);
        if (r < 0)
                return r;
        *ret = f;
        f = (struct search_file){0};
        return 0;
}

/* 1 if it was there and is read, 0 if there is no such file. */
static int try_folder(const char *folder, const char *name, struct profile_sources *sources, struct search_file *ret,
                      struct err *err) {
        char path[PATH_MAX];
        struct err why = {0};

        int n = snprintf(path, sizeof path, "%s/%s.yaml", folder, name);
        if (n < 0 || (size_t)n >= sizeof path)
                return err_set(err, -ENAMETOOLONG, "cannot look for '%s' in '%.200s'", name, folder);
        int r = read_file(path, true, sources, ret, &why);
        if (r == 0)
                return 1;
        if (r == -ENOENT)
                return add_source(sources, path, NULL, 0, err);
        if (err)
                *err = why;
        return r;
}

static int read_path(const char *name, const char *from, struct profile_sources *sources, struct search_file *ret,
                     struct err *err) {
        char path[PATH_MAX];
        const char *slash = from && !str_starts(from, "builtin:") && name[0] != '/' ? strrchr(from, '/') : NULL;

        int n = slash ? snprintf(path, sizeof path, "%.*s/%s", (int)(slash - from), from, name)
                      : snprintf(path, sizeof path, "%s", name);
        if (n < 0 || (size_t)n >= sizeof path)
                return err_set(err, -ENAMETOOLONG, "cannot open profile '%.200s'", name);
        return read_file(path, false, sources, ret, err);
}

static int not_found(const char *name, struct err *err) {
        _cleanup_buf_ struct buf known = {0};

        for (size_t i = 0; i < profile_builtin_count; i++)
                buf_printf(&known, "%s%s", i > 0 ? ", " : "", profile_builtins[i].name);
        int r = err_set(err, ERR_INPUT, "there is no profile '%.80s'", name);
        (void)err_hint(err,
                       "built in: %s; 'stockade profile list' shows all; a file is named by its path: ./%.80s.yaml",
                       known.data ? known.data : "", name);
        return r;
}

int search_read(const struct profile_search *search, const char *name, const char *from,
                struct profile_sources *sources, struct search_file *ret, struct err *err) {
        bool fixed = str_starts(name, "builtin:");
        const char *bare = fixed ? name + strlen("builtin:") : name;
        char folder[PATH_MAX];
        int r = 0;

        if (!fixed && search_is_path(name))
                return read_path(name, from, sources, ret, err);
        r = value_check_name(bare, err);
        if (r < 0)
                return r;
        const struct profile_builtin *builtin = search_builtin(bare);
        if (fixed && !builtin)
                return not_found(bare, err);
        if (!fixed && builtin && search->system_dir)
                r = try_folder(search->system_dir, bare, sources, ret, err);
        for (size_t i = 0; r == 0 && !builtin; i++) {
                const char *where = search_folder(search, i, folder, sizeof folder);

                if (!where)
                        return not_found(bare, err);
                r = try_folder(where, bare, sources, ret, err);
        }
        if (r == 0)
                return read_builtin(builtin, sources, ret, err);
        return r < 0 ? r : 0;
}
