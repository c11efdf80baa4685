/* A zstd stream of one frame. */
#include "pack/squeeze.h"

#include <zstd.h>

#include "base/fd.h"

enum { LEVEL = 3 };

struct squeeze {
        ZSTD_CCtx *z;
        int out;
        size_t room;
        char *buf;
};

int squeeze_open(struct squeeze **ret, int out) {
        struct squeeze *s = malloc(sizeof *s);

        if (!s)
                return -ENOMEM;
        *s = (struct squeeze){.z = ZSTD_createCCtx(), .out = out, .room = ZSTD_CStreamOutSize()};
        s->buf = malloc(s->room);
        if (!s->z || !s->buf || ZSTD_isError(ZSTD_CCtx_setParameter(s->z, ZSTD_c_compressionLevel, LEVEL)) ||
            ZSTD_isError(ZSTD_CCtx_setParameter(s->z, ZSTD_c_checksumFlag, 1))) {
                squeeze_free(s);
                return -ENOMEM;
        }
        *ret = s;
        return 0;
}

void squeeze_free(struct squeeze *s) {
        if (!s)
                return;
        (void)ZSTD_freeCCtx(s->z);
        free(s->buf);
        free(s);
}

static int run(struct squeeze *s, const void *data, size_t size, ZSTD_EndDirective how) {
        ZSTD_inBuffer in = {data, size, 0};
        size_t left;

        do {
                ZSTD_outBuffer out = {s->buf, s->room, 0};
                left = ZSTD_compressStream2(s->z, &out, &in, how);
                if (ZSTD_isError(left))
                        return -ENOMEM;
                int r = fd_write_full(s->out, s->buf, out.pos);
                if (r < 0)
                        return r;
        } while (how == ZSTD_e_end ? left > 0 : in.pos < in.size);
        return 0;
}

int squeeze_put(struct squeeze *s, const void *data, size_t size) {
        return run(s, data, size, ZSTD_e_continue);
}

int squeeze_end(struct squeeze *s) {
        return run(s, NULL, 0, ZSTD_e_end);
}
