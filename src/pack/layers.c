/* Images: an archive of `docker save`, one in OCI's layout, or a plain tar of a root.
 *
 * The papers come first: the archive is gone through once for their names, which are looked at by papers.c. Then each
 * layer is found in it again, in order, and unpacked twice: what it takes away from the layers below, then what it
 * adds. An archive that comes through a pipe is kept in a nameless file of the target first. */
#include "pack/layers.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json-read.h"
#include "base/pax.h"
#include "pack/digest.h"
#include "pack/unpack.h"

enum { CHUNK = 1 << 16, INDEXES_MAX = 3, LINKS_MAX = 2 };

static int open_archive(int fd, struct archive **ret, struct err *err) {
        _cleanup_reader_ struct archive *a = NULL;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return err_set(err, -errno, "cannot read the archive again");
        int r = unpack_reader(&a, err);
        if (r < 0)
                return r;
        if (archive_read_open_fd(a, fd, CHUNK) != ARCHIVE_OK)
                return unpack_trouble(a, "cannot read the archive", err);
        *ret = TAKE_PTR(a);
        return 0;
}

static int keep_bytes(int in, int target, const struct caps *caps, struct err *err) {
        static char chunk[CHUNK];
        /* what layers cover of each other, and headers, take room in it and not in the tree */
        uint64_t total = 0, most = caps->bytes > UINT64_MAX / 4 ? UINT64_MAX : 2 * caps->bytes + (64 << 20);
        _cleanup_fd_ int fd = openat(target, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

        if (fd < 0)
                return err_set(err, -errno, "cannot keep the archive");
        for (;;) {
                ssize_t n = read(in, chunk, sizeof chunk);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(err, -errno, "cannot read the archive");
                if (n == 0)
                        return TAKE_FD(fd);
                total += (uint64_t)n;
                if (total > most)
                        return err_set(err, ERR_LIMIT, "the archive is larger than %llu bytes",
                                       (unsigned long long)most);
                int r = fd_write_full(fd, chunk, (size_t)n);
                if (r < 0)
                        return err_set(err, r, "cannot keep the archive");
        }
}

/* --- papers --- */

/* The content of an entry that is a paper, as checked JSON; the caller frees it. */
static int read_paper(struct archive *a, struct archive_entry *e, char **ret, struct err *err) {
        int64_t size = archive_entry_size(e);
        struct err why = {0};

        if (archive_entry_filetype(e) != AE_IFREG || size <= 0 || size > LAYERS_PAPER_MAX)
                return err_set(err, ERR_INPUT, "the image's papers are of no size that they can have");
        _cleanup_free_ char *text = malloc((size_t)size + 1);
        if (!text)
                return err_set(err, -ENOMEM, "cannot read the image's papers");
        la_ssize_t n = archive_read_data(a, text, (size_t)size);
        if (n != size)
                return unpack_trouble(a, "cannot read the image's papers", err);
        text[size] = '\0';
        int r = json_check(text, (size_t)size, &why);
        if (r < 0)
                return err_set(err, r, "the image's papers are not JSON: %.300s", why.text);
        *ret = TAKE_PTR(text);
        return 0;
}

/* Looks for an entry by its plain name; a link to another entry is followed a few times. On success the reader stands
 * before its content. 1, 0 when it is not there, or an error. */
static int find(struct unpack *u, int fd, const char *wanted, struct archive **ret, struct archive_entry **ret_entry,
                struct err *err) {
        char name[PAX_NAME_SIZE], plain[PAX_NAME_SIZE];

        (void)snprintf(name, sizeof name, "%s", wanted);
        for (unsigned links = 0; links <= LINKS_MAX; links++) {
                _cleanup_reader_ struct archive *a = NULL;
                struct archive_entry *e;
                bool again = false;

                int r = open_archive(fd, &a, err);
                while (r >= 0 && !again && (r = unpack_next(u, a, &e, err)) > 0) {
                        const char *path = archive_entry_pathname(e), *to = archive_entry_symlink(e);
                        u->tally->entries--; /* counted once, when the archive was first gone through */
                        if (!path || strlen(path) >= PAX_NAME_SIZE || pax_plain(path, plain) < 0 ||
                            !str_eq(plain, name))
                                continue;
                        if (!to) {
                                *ret = TAKE_PTR(a);
                                *ret_entry = e;
                                return 1;
                        }
                        /* as older versions of docker save do for equal layers: ../ID/layer.tar */
                        if (!str_starts(to, "../") || strlen(to) >= PAX_NAME_SIZE || pax_plain(to + 3, name) < 0)
                                return err_set(err, ERR_INPUT, "the image has a layer that leads out of it");
                        again = true;
                }
                if (r <= 0)
                        return r;
        }
        return err_set(err, ERR_INPUT, "the image has a layer that leads in circles");
}

static int find_paper(struct unpack *u, int fd, const char *name, char **ret, struct err *err) {
        _cleanup_reader_ struct archive *a = NULL;
        struct archive_entry *e;

        int r = find(u, fd, name, &a, &e, err);
        if (r == 0)
                return err_set(err, ERR_INPUT, "the image lacks '%.200s'", name);
        return r < 0 ? r : read_paper(a, e, ret, err);
}

static int follow_index(struct unpack *u, int fd, const char *index, struct layers *ret, struct err *err) {
        char name[LAYERS_NAME_SIZE];
        bool is_index = true;
        _cleanup_free_ char *text = NULL;

        int r = layers_next_paper(index, name, &is_index, err);
        for (unsigned i = 0; r == 0 && is_index; i++) {
                if (i >= INDEXES_MAX)
                        return err_set(err, ERR_INPUT, "the image's indexes lead in circles");
                free(TAKE_PTR(text));
                r = find_paper(u, fd, name, &text, err);
                if (r == 0)
                        r = layers_next_paper(text, name, &is_index, err);
        }
        free(TAKE_PTR(text));
        if (r == 0)
                r = find_paper(u, fd, name, &text, err);
        return r < 0 ? r : layers_from_oci(text, ret, err);
}

/* The layers of `docker save` before there were blobs have their digests in the configuration, if that is there. */
static int check_config(struct unpack *u, int fd, const struct digests *d, const struct layers *l, struct err *err) {
        _cleanup_reader_ struct archive *a = NULL;
        _cleanup_free_ char *config = NULL;
        struct archive_entry *e;

        if (!l->config[0])
                return 0;
        int r = find(u, fd, l->config, &a, &e, err);
        if (r <= 0)
                return r;
        r = read_paper(a, e, &config, err);
        return r < 0 ? r : digest_check_layers(d, l, config, err);
}

/* What kind of archive it is: 1 with its layers, 0 for a plain tar. Every entry is counted here, once, and what has a
 * digest is compared with it. */
static int identify(struct unpack *u, int fd, struct layers *ret, struct err *err) {
        static struct digests digests;
        _cleanup_free_ char *docker = NULL, *index = NULL;
        _cleanup_reader_ struct archive *a = NULL;
        struct archive_entry *e;
        bool layout = false, root = false;
        char plain[PAX_NAME_SIZE];

        int r = open_archive(fd, &a, err);
        while (r >= 0 && (r = unpack_next(u, a, &e, err)) > 0) {
                const char *path = archive_entry_pathname(e);

                if (!path || strlen(path) >= PAX_NAME_SIZE || pax_plain(path, plain) < 0)
                        continue; /* refused when it is unpacked */
                root |= str_starts(plain, "usr/") || str_starts(plain, "bin/") || str_starts(plain, "etc/");
                layout |= str_eq(plain, "oci-layout");
                if (str_eq(plain, "manifest.json") && !docker && !root)
                        r = read_paper(a, e, &docker, NULL);
                else if (str_eq(plain, "index.json") && !index && !root)
                        r = read_paper(a, e, &index, NULL);
                if (r == -ENOMEM)
                        return err_set(err, r, "cannot read the image's papers");
                r = root ? 0 : digest_take(&digests, a, e, plain, err);
                if (r == 0)
                        r = 1;
        }
        unpack_reader_end(&a);
        if (r < 0)
                return r;
        if (root || (!docker && !(layout && index)))
                return 0;
        r = docker ? layers_from_docker(docker, ret, err) : follow_index(u, fd, index, ret, err);
        if (r == 0)
                r = digest_check_blobs(&digests, err);
        if (r == 0)
                r = check_config(u, fd, &digests, ret, err);
        return r < 0 ? r : 1;
}

/* --- layers --- */

struct nested {
        struct archive *outer;
        char chunk[CHUNK];
};

static la_ssize_t nested_read(struct archive *a, void *data, const void **ret) {
        struct nested *n = data;
        la_ssize_t size = archive_read_data(n->outer, n->chunk, sizeof n->chunk);

        if (size < 0)
                archive_set_error(a, EINVAL, "%s", "a layer is cut");
        *ret = n->chunk;
        return size;
}

static int unpack_layer(struct unpack *u, int fd, const char *name, enum unpack_pass pass, struct err *err) {
        _cleanup_reader_ struct archive *outer = NULL, *a = NULL;
        _cleanup_free_ struct nested *n = malloc(sizeof *n);
        struct archive_entry *e;

        if (!n)
                return err_set(err, -ENOMEM, "cannot read a layer");
        int r = find(u, fd, name, &outer, &e, err);
        if (r == 0)
                return err_set(err, ERR_INPUT, "the image lacks its layer '%.200s'", name);
        if (r > 0 && (archive_entry_filetype(e) != AE_IFREG || archive_entry_hardlink(e)))
                return err_set(err, ERR_INPUT, "the image's layer '%.200s' is not a file", name);
        if (r > 0)
                r = unpack_reader(&a, err);
        if (r < 0)
                return r;
        n->outer = outer;
        if (archive_read_open(a, n, NULL, nested_read, NULL) != ARCHIVE_OK)
                return unpack_trouble(a, "cannot read a layer", err);
        r = unpack_entries(u, a, pass, err);
        return r;
}

static int unpack_layers(struct unpack *u, int fd, const struct layers *l, struct err *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->count; i++) {
                uint64_t entries = u->tally->entries;
                if (i > 0)
                        r = unpack_layer(u, fd, l->name[i], UNPACK_WHITEOUTS, err);
                u->tally->entries = entries; /* the same ones come once more */
                if (r == 0)
                        r = unpack_layer(u, fd, l->name[i], UNPACK_LAYER, err);
        }
        return r;
}

int layers_unpack(int archive, int target, const struct caps *caps, struct tally *t, struct err *err) {
        static struct layers l;
        struct unpack u = {.caps = caps, .tally = t};
        _cleanup_fd_ int kept = -EBADF;

        if (lseek(archive, 0, SEEK_SET) < 0) {
                kept = keep_bytes(archive, target, caps, err);
                if (kept < 0)
                        return kept;
                archive = kept;
        }
        int r = target_open(&u.target, target, err);
        if (r == 0)
                r = identify(&u, archive, &l, err);
        if (r == 0) {
                target_free(u.target);
                *t = (struct tally){0};
                return lseek(archive, 0, SEEK_SET) < 0 ? err_set(err, -errno, "cannot read the archive again")
                                                       : unpack_tree(archive, target, caps, t, err);
        }
        if (r > 0) {
                *t = (struct tally){0};
                r = unpack_layers(&u, archive, &l, err);
                (void)snprintf(t->text, sizeof t->text, "an image of %zu layer%s%s%s", l.count, l.count == 1 ? "" : "s",
                               l.tag[0] ? ", " : "", l.tag);
        }
        if (r == 0)
                r = target_close(u.target, err);
        target_free(u.target);
        return r;
}
