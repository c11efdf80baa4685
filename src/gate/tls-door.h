/* The table that the TLS module exports and tls.c calls through. Its functions mean what their namesakes in tls.h say.
 * One symbol, one table: a module of another build is refused by its version. */
#pragma once

#include "gate/tls.h"

#define TLS_MODULE_FILE   "stockade-gate-tls.so"
#define TLS_MODULE_SYMBOL "stockade_gate_tls"

struct tls_door {
        const char *version; /* STOCKADE_VERSION */
        size_t size;         /* of this table */
        int (*load)(struct err *err);
        struct tls_authority *(*authority_create)(int key, struct err *err);
        int (*authority_files)(struct tls_authority *a, int ret[GATE_CA_COUNT], struct err *err);
        void (*authority_destroy)(struct tls_authority *a);
        struct tls *(*accept)(struct tls_authority *a, int fd, const char *name);
        struct tls *(*connect)(int fd, const char *name, const struct address *literal);
        void (*free)(struct tls *t);
        int (*handshake)(struct tls *t);
        ssize_t (*read)(struct tls *t, void *data, size_t size);
        ssize_t (*write)(struct tls *t, const void *data, size_t size);
        int (*end)(struct tls *t);
        uint32_t (*wants)(const struct tls *t);
        bool (*pending)(const struct tls *t);
        const char *(*problem)(const struct tls *t);
};

extern const struct tls_door stockade_gate_tls;
