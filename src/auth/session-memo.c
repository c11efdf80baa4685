/* A table with one place for each hash; the hash has a key, so that nobody chooses whom to push out. */
#include "auth/session-memo.h"

#include <sodium.h>

enum { PLACES_MAX = 65536 };

struct place {
        size_t size; /* 0: free */
        uint64_t hash;
        char token[SESSION_MEMO_TOKEN];
        struct session session;
};

struct session_memo {
        size_t count;
        uint8_t key[crypto_shorthash_KEYBYTES];
        struct place *places;
};

int session_memo_open(struct session_memo **ret, size_t places, struct err *err) {
        _cleanup_session_memo_ struct session_memo *m = NULL;

        if (places == 0 || places > PLACES_MAX || (places & (places - 1)) != 0)
                return err_set(err, -EINVAL, "cannot keep %zu sessions in memory", places);
        if (sodium_init() < 0)
                return err_set(err, -EIO, "cannot start the cryptographic library");
        m = calloc(1, sizeof *m);
        if (m)
                m->places = calloc(places, sizeof *m->places);
        if (!m || !m->places)
                return err_set(err, -ENOMEM, "cannot keep sessions in memory");
        m->count = places;
        randombytes_buf(m->key, sizeof m->key);
        *ret = TAKE_PTR(m);
        return 0;
}

void session_memo_forget(struct session_memo *m) {
        for (size_t i = 0; i < m->count; i++)
                if (m->places[i].size > 0)
                        sodium_memzero(&m->places[i], sizeof m->places[i]);
}

void session_memo_close(struct session_memo *m) {
        if (!m)
                return;
        session_memo_forget(m);
        free(m->places);
        free(m);
}

int session_memo_get(struct session_memo *m, const struct keyring *k, enum session_kind kind, const char *audience,
                     const char *token, size_t size, uint64_t now_ms, struct session *ret, struct err *err) {
        uint8_t hash[crypto_shorthash_BYTES];
        struct place *p;
        uint64_t n;
        int r;

        if (size == 0 || size > SESSION_MEMO_TOKEN)
                return session_open(k, kind, audience, token, size, now_ms, ret, err);
        (void)crypto_shorthash(hash, (const uint8_t *)token, size, m->key);
        memcpy(&n, hash, sizeof n);
        p = &m->places[n & (m->count - 1)];
        /* how long memcmp takes is told only to those who have the keyed hash right already */
        if (p->size == size && p->hash == n && memcmp(p->token, token, size) == 0) {
                r = session_check(&p->session, kind, audience, now_ms, err);
                if (r == 0)
                        *ret = p->session;
                return r;
        }
        r = session_open(k, kind, audience, token, size, now_ms, ret, err);
        if (r == 0) {
                memcpy(p->token, token, size);
                p->size = size;
                p->hash = n;
                p->session = *ret;
        }
        return r;
}
