/* Reading manifests: JSON from outside, looked at by path. Only what names the layers is looked at. */
#include <stdio.h>

#include "base/json-read.h"
#include "base/pax.h"
#include "pack/layers.h"

#if defined(__x86_64__)
#define MACHINE "amd64"
#else
#define MACHINE "arm64"
#endif

static int keep(const char *name, char ret[LAYERS_NAME_SIZE], struct err *err) {
        char plain[PAX_NAME_SIZE];

        if (strlen(name) >= LAYERS_NAME_SIZE || pax_plain(name, plain) < 0 || !plain[0])
                return err_set(err, ERR_INPUT, "the image names a layer that cannot be in it");
        memcpy(ret, plain, strlen(plain) + 1);
        return 0;
}

/* "sha256:0123…" as the file that holds it. */
static int blob(const char *text, const char *path, char ret[LAYERS_NAME_SIZE], struct err *err) {
        char digest[160];

        if (!json_find_str(text, path, digest, sizeof digest))
                return err_set(err, ERR_INPUT, "the image has a manifest without a digest");
        char *colon = strchr(digest, ':');
        size_t algorithm = strspn(digest, "abcdefghijklmnopqrstuvwxyz0123456789");
        if (!colon || digest + algorithm != colon || algorithm == 0 || !colon[1] ||
            strspn(colon + 1, "0123456789abcdef") != strlen(colon + 1))
                return err_set(err, ERR_INPUT, "the image has a manifest with a digest that is none");
        *colon = '\0';
        if (!str_eq(digest, "sha256") || strlen(colon + 1) != 64) /* the others could not be compared */
                return err_set(err, ERR_INPUT, "the image has a digest that is not of SHA-256");
        (void)snprintf(ret, LAYERS_NAME_SIZE, "blobs/%.20s/%.140s", digest, colon + 1);
        return 0;
}

static int count_layers(const char *text, const char *path, size_t *ret, struct err *err) {
        if (!json_find_count(text, path, ret) || *ret == 0)
                return err_set(err, ERR_INPUT, "the image has no layers");
        if (*ret > LAYERS_MAX)
                return err_set(err, ERR_LIMIT, "the image has more than %d layers", LAYERS_MAX);
        return 0;
}

int layers_from_docker(const char *text, struct layers *ret, struct err *err) {
        size_t images = 0, count = 0;
        char path[48], name[LAYERS_NAME_SIZE];

        if (json_find_kind(text, "") != '[' || !json_find_count(text, "", &images) || images == 0)
                return err_set(err, ERR_INPUT, "the archive's manifest.json lists no image");
        if (images > 1) {
                (void)err_set(err, ERR_INPUT, "the archive holds %zu images: save one alone", images);
                return ERR_INPUT;
        }
        int r = count_layers(text, "0.Layers", &count, err);
        if (r < 0)
                return r;
        *ret = (struct layers){0};
        for (size_t i = 0; r == 0 && i < count; i++) {
                (void)snprintf(path, sizeof path, "0.Layers.%zu", i);
                if (!json_find_str(text, path, name, sizeof name))
                        return err_set(err, ERR_INPUT, "the image names a layer that cannot be in it");
                r = keep(name, ret->name[ret->count++], err);
        }
        if (r == 0 && json_find_str(text, "0.Config", name, sizeof name))
                r = keep(name, ret->config, err);
        if (!json_find_str(text, "0.RepoTags.0", ret->tag, sizeof ret->tag))
                ret->tag[0] = '\0';
        return r;
}

/* The manifest for this machine, or the first. */
static size_t choose(const char *text, size_t count) {
        for (size_t i = 0; i < MIN(count, (size_t)LAYERS_MAX); i++) {
                char path[64], os[32] = "", machine[32] = "";

                (void)snprintf(path, sizeof path, "manifests.%zu.platform.os", i);
                (void)json_find_str(text, path, os, sizeof os);
                (void)snprintf(path, sizeof path, "manifests.%zu.platform.architecture", i);
                (void)json_find_str(text, path, machine, sizeof machine);
                if (str_eq(os, "linux") && str_eq(machine, MACHINE))
                        return i;
        }
        return 0;
}

int layers_next_paper(const char *text, char ret[LAYERS_NAME_SIZE], bool *ret_index, struct err *err) {
        size_t count = 0;
        char path[64], type[128] = "";

        if (!json_find_count(text, "manifests", &count) || count == 0)
                return err_set(err, ERR_INPUT, "the archive's index.json lists no image");
        size_t i = choose(text, count);
        (void)snprintf(path, sizeof path, "manifests.%zu.mediaType", i);
        (void)json_find_str(text, path, type, sizeof type);
        *ret_index = strstr(type, "image.index") || strstr(type, "manifest.list");
        (void)snprintf(path, sizeof path, "manifests.%zu.digest", i);
        return blob(text, path, ret, err);
}

int layers_from_oci(const char *text, struct layers *ret, struct err *err) {
        size_t count = 0;
        char path[48];

        int r = count_layers(text, "layers", &count, err);
        if (r < 0)
                return r;
        *ret = (struct layers){0};
        for (size_t i = 0; r == 0 && i < count; i++) {
                (void)snprintf(path, sizeof path, "layers.%zu.digest", i);
                r = blob(text, path, ret->name[ret->count++], err);
        }
        return r;
}
