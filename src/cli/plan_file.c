/* The frame around a compiled plan; see plan_file.h. No I/O. A file has one form only. */
#include "cli/plan_file.h"

static bool read_source(struct wire *w, struct plan_source *ret) {
        const char *path = wire_str(w);
        uint16_t absent = wire_u16(w);
        const uint8_t *hash = wire_bytes(w, HASH_SIZE);

        if (!wire_ok(w) || path[0] == '\0' || absent > 1)
                return false;
        *ret = (struct plan_source){.path = path, .absent = absent, .hash = hash};
        return true;
}

int plan_file_open(struct plan_file *ret, const void *bytes, size_t size, struct err *err) {
        struct wire w = {.start = bytes, .size = size};
        const void *magic = wire_bytes(&w, strlen(PLAN_FILE_MAGIC));
        struct plan_source ignored;
        struct plan_file f = {0};

        if (!magic || memcmp(magic, PLAN_FILE_MAGIC, strlen(PLAN_FILE_MAGIC)) != 0)
                return err_set(err, ERR_CORRUPT, "not a plan file");
        f.left = wire_u32(&w);
        if (f.left > PLAN_FILE_SOURCES_MAX)
                return err_set(err, ERR_CORRUPT, "too many sources");
        f.rest = w;
        for (uint32_t i = 0; i < f.left; i++)
                if (!read_source(&w, &ignored))
                        return err_set(err, ERR_CORRUPT, "malformed source");
        f.plan = wire_blob(&w, &f.plan_size);
        if (!f.plan || !wire_end(&w))
                return err_set(err, ERR_CORRUPT, "malformed plan file");
        *ret = f;
        return 0;
}

bool plan_file_next(struct plan_file *f, struct plan_source *ret) {
        if (f->left == 0 || !read_source(&f->rest, ret))
                return false;
        f->left--;
        return true;
}

void plan_file_begin(struct buf *out, size_t sources) {
        buf_str(out, PLAN_FILE_MAGIC);
        wire_put_u32(out, (uint32_t)sources);
}

void plan_file_add(struct buf *out, const struct plan_source *source) {
        wire_put_str(out, source->path);
        wire_put_u16(out, source->absent);
        buf_add(out, source->hash, HASH_SIZE);
}

void plan_file_end(struct buf *out, const void *plan, size_t size) {
        wire_put_blob(out, plan, size);
}
