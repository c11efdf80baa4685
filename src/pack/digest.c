/* Comparing. What was changed on its way, by accident or not, is not unpacked. (Whoever makes an image can put anything
 * into it: a digest says that it is whole, not that it is good.) */
#include "pack/digest.h"

#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>
#include <stdio.h>

#include "base/json-read.h"
#include "base/pax.h"
#include "pack/unpack.h"

#define BLOBS "blobs/sha256/"

static bool is_blob(const char *name) {
        const char *hex = name + sizeof BLOBS - 1;

        return str_starts(name, BLOBS) && strlen(hex) == DIGEST_TEXT - 1 &&
               strspn(hex, "0123456789abcdef") == DIGEST_TEXT - 1;
}

static bool ends_with(const char *text, const char *end) {
        size_t n = strlen(text), m = strlen(end);

        return n >= m && str_eq(text + n - m, end);
}

/* Of what follows in the reader. */
static int sum(struct archive *a, char ret[DIGEST_TEXT], struct err *err) {
        static uint8_t chunk[1 << 16];
        uint8_t raw[crypto_hash_sha256_BYTES];
        crypto_hash_sha256_state state;
        la_ssize_t n;

        (void)crypto_hash_sha256_init(&state);
        while ((n = archive_read_data(a, chunk, sizeof chunk)) > 0)
                (void)crypto_hash_sha256_update(&state, chunk, (unsigned long long)n);
        if (n < 0)
                return unpack_trouble(a, "cannot read the archive", err);
        (void)crypto_hash_sha256_final(&state, raw);
        (void)sodium_bin2hex(ret, DIGEST_TEXT, raw, sizeof raw);
        return 0;
}

static int take_blob(struct digests *d, struct archive *a, const char *name, struct err *err) {
        char digest[DIGEST_TEXT];

        int r = sum(a, digest, err);
        if (r == 0 && !str_eq(digest, name + sizeof BLOBS - 1) && !d->wrong[0])
                (void)snprintf(d->wrong, sizeof d->wrong, "%s", name);
        return r;
}

static int take_layer(struct digests *d, struct archive *a, struct archive_entry *e, const char *name,
                      struct err *err) {
        struct digest_layer *l = &d->layer[d->count];
        const char *to = archive_entry_symlink(e);

        if (d->count == LAYERS_MAX || strlen(name) >= sizeof l->name)
                return 0; /* more than an image may have: refused by its papers, or nobody's */
        *l = (struct digest_layer){0};
        (void)snprintf(l->name, sizeof l->name, "%s", name);
        int r = 0;
        if (!to)
                r = sum(a, l->digest, err);
        else if (str_starts(to, "../") && strlen(to) < sizeof l->link)
                (void)snprintf(l->link, sizeof l->link, "%s", to + 3);
        d->count += r == 0;
        return r;
}

int digest_take(struct digests *d, struct archive *a, struct archive_entry *e, const char *name, struct err *err) {
        bool file = archive_entry_filetype(e) == AE_IFREG, link = archive_entry_filetype(e) == AE_IFLNK;

        if ((file || link) && is_blob(name)) /* of a link nothing is read, and that is no blob */
                return take_blob(d, a, name, err);
        if ((file || link) && ends_with(name, ".tar"))
                return take_layer(d, a, e, name, err);
        return 0;
}

static int refuse(const char *name, struct err *err) {
        (void)err_set(err, ERR_INPUT, "the image is damaged: '%.200s' is not what its digest says", name);
        return err_hint(err, "make or fetch the archive again");
}

int digest_check_blobs(const struct digests *d, struct err *err) {
        return d->wrong[0] ? refuse(d->wrong, err) : 0;
}

/* A link leads to one that came before or comes after it, not on to another. */
static const char *find(const struct digests *d, const char *name) {
        for (unsigned links = 0; links < 2; links++) {
                const struct digest_layer *found = NULL;

                for (size_t i = 0; i < d->count && !found; i++)
                        if (str_eq(d->layer[i].name, name))
                                found = &d->layer[i];
                if (!found || found->digest[0])
                        return found ? found->digest : NULL;
                name = found->link;
        }
        return NULL;
}

int digest_check_layers(const struct digests *d, const struct layers *l, const char *config, struct err *err) {
        size_t count = 0;

        if (!json_find_count(config, "rootfs.diff_ids", &count) || count != l->count)
                return err_set(err, ERR_INPUT, "the image's configuration does not fit its %zu layers", l->count);
        for (size_t i = 0; i < l->count; i++) {
                char path[48], want[80];
                const char *is = find(d, l->name[i]);

                (void)snprintf(path, sizeof path, "rootfs.diff_ids.%zu", i);
                if (!json_find_str(config, path, want, sizeof want) || !str_starts(want, "sha256:"))
                        return err_set(err, ERR_INPUT, "the image's configuration has a digest that is none");
                if (is ? !str_eq(want + 7, is) : !is_blob(l->name[i]))
                        return refuse(l->name[i], err);
        }
        return 0;
}
