/* Entries and addresses are in arrays of fixed size, linked by number. All entries are in one list by age, and those of
 * an address in one of its own. */
#include "auth/single-use.h"

#include <sodium.h>

enum { ID = 32, PLACES_MAX = 65536 };
static_assert(SINGLE_USE_ID == 2 * ID + 1, "id");

#define NONE UINT32_MAX

/* A doubly linked list through an array: older and newer of each, ends here. */
struct ends {
        uint32_t oldest, newest;
};

struct link {
        uint32_t older, newer;
};

struct entry {
        uint8_t id[ID];
        uint64_t expires_ms;
        struct link age, same; /* of all; of the same address */
        uint32_t chain;        /* the next in its bucket, or the next free one */
        uint32_t address;
        char note[SINGLE_USE_NOTE];
};

struct address {
        char who[SINGLE_USE_WHO];
        struct ends entries;
        uint32_t chain;
};

struct single_use {
        size_t places, per_address, count;
        uint64_t ttl_ms;
        uint8_t key[crypto_shorthash_KEYBYTES];
        struct entry *entries;
        struct address *addresses;
        uint32_t *counts;                       /* entries of each address */
        uint32_t *id_buckets, *address_buckets; /* as many as there are places */
        uint32_t free_entry, free_address;
        struct ends all;
};

void single_use_close(struct single_use *t) {
        if (!t)
                return;
        free(t->entries);
        free(t->addresses);
        free(t->counts);
        free(t->id_buckets);
        free(t->address_buckets);
        free(t);
}

int single_use_open(struct single_use **ret, size_t places, size_t per_address, uint64_t ttl_ms, struct err *err) {
        _cleanup_single_use_ struct single_use *t = NULL;

        if (places == 0 || places > PLACES_MAX || per_address == 0 || ttl_ms == 0)
                return err_set(err, -EINVAL, "cannot make a table of %zu places, %zu for each", places, per_address);
        if (sodium_init() < 0)
                return err_set(err, -EIO, "cannot start the cryptographic library");
        t = calloc(1, sizeof *t);
        if (!t)
                return err_set(err, -ENOMEM, "cannot make a table of %zu places", places);
        *t = (struct single_use){.places = places, .per_address = per_address, .ttl_ms = ttl_ms, .all = {NONE, NONE}};
        t->entries = calloc(places, sizeof *t->entries);
        t->addresses = calloc(places, sizeof *t->addresses);
        t->counts = calloc(places, sizeof *t->counts);
        t->id_buckets = calloc(places, sizeof *t->id_buckets);
        t->address_buckets = calloc(places, sizeof *t->address_buckets);
        if (!t->entries || !t->addresses || !t->counts || !t->id_buckets || !t->address_buckets)
                return err_set(err, -ENOMEM, "cannot make a table of %zu places", places);
        for (uint32_t i = 0; i < places; i++) {
                t->id_buckets[i] = t->address_buckets[i] = NONE;
                t->entries[i].chain = t->addresses[i].chain = i + 1 < places ? i + 1 : NONE;
        }
        randombytes_buf(t->key, sizeof t->key);
        *ret = TAKE_PTR(t);
        return 0;
}

size_t single_use_count(const struct single_use *t) {
        return t->count;
}

/* --- buckets and lists ------------------------------------------------------------------------------------------ */

static uint32_t *bucket_of(const struct single_use *t, uint32_t *buckets, const void *data, size_t size) {
        uint8_t hash[crypto_shorthash_BYTES];
        uint64_t n;

        (void)crypto_shorthash(hash, data, size, t->key);
        memcpy(&n, hash, sizeof n);
        return &buckets[n % t->places];
}

static struct link *link_of(struct single_use *t, uint32_t i, bool same) {
        return same ? &t->entries[i].same : &t->entries[i].age;
}

static void list_add(struct single_use *t, struct ends *e, uint32_t i, bool same) {
        *link_of(t, i, same) = (struct link){.older = e->newest, .newer = NONE};
        if (e->newest == NONE)
                e->oldest = i;
        else
                link_of(t, e->newest, same)->newer = i;
        e->newest = i;
}

static void list_remove(struct single_use *t, struct ends *e, uint32_t i, bool same) {
        struct link l = *link_of(t, i, same);

        if (l.older == NONE)
                e->oldest = l.newer;
        else
                link_of(t, l.older, same)->newer = l.newer;
        if (l.newer == NONE)
                e->newest = l.older;
        else
                link_of(t, l.newer, same)->older = l.older;
}

/* --- addresses -------------------------------------------------------------------------------------------------- */

static uint32_t address_find(const struct single_use *t, const char *who) {
        uint32_t i = *bucket_of(t, t->address_buckets, who, strlen(who));

        while (i != NONE && !str_eq(t->addresses[i].who, who))
                i = t->addresses[i].chain;
        return i;
}

/* There is a free one whenever there is a free entry: each address in use has an entry. */
static uint32_t address_add(struct single_use *t, const char *who) {
        uint32_t i = t->free_address, *bucket = bucket_of(t, t->address_buckets, who, strlen(who));
        struct address *a = &t->addresses[i];

        t->free_address = a->chain;
        (void)snprintf(a->who, sizeof a->who, "%s", who);
        a->entries = (struct ends){NONE, NONE};
        a->chain = *bucket;
        *bucket = i;
        t->counts[i] = 0;
        return i;
}

static void address_remove(struct single_use *t, uint32_t i) {
        struct address *a = &t->addresses[i];
        uint32_t *at = bucket_of(t, t->address_buckets, a->who, strlen(a->who));

        while (*at != i)
                at = &t->addresses[*at].chain;
        *at = a->chain;
        a->chain = t->free_address;
        t->free_address = i;
}

/* The address with most entries. */
static uint32_t address_greediest(const struct single_use *t) {
        uint32_t most = 0;

        for (uint32_t i = 1; i < t->places; i++)
                if (t->counts[i] > t->counts[most])
                        most = i;
        return most;
}

/* --- entries ---------------------------------------------------------------------------------------------------- */

static void entry_remove(struct single_use *t, uint32_t i) {
        struct entry *e = &t->entries[i];
        uint32_t *at = bucket_of(t, t->id_buckets, e->id, sizeof e->id), address = e->address;

        while (*at != i)
                at = &t->entries[*at].chain;
        *at = e->chain;
        list_remove(t, &t->all, i, false);
        list_remove(t, &t->addresses[address].entries, i, true);
        if (--t->counts[address] == 0)
                address_remove(t, address);
        sodium_memzero(e->id, sizeof e->id);
        sodium_memzero(e->note, sizeof e->note);
        e->chain = t->free_entry;
        t->free_entry = i;
        t->count--;
}

size_t single_use_sweep(struct single_use *t, uint64_t now_ms) {
        size_t n = 0;

        for (; t->all.oldest != NONE && t->entries[t->all.oldest].expires_ms <= now_ms; n++)
                entry_remove(t, t->all.oldest);
        return n;
}

/* Makes sure that this address may have one more. */
static int make_room(struct single_use *t, const char *who) {
        uint32_t address = address_find(t, who);

        if (address != NONE && (t->counts[address] >= t->per_address || t->count == t->places)) {
                entry_remove(t, t->addresses[address].entries.oldest);
        } else if (t->count == t->places) {
                address = address_greediest(t);
                if (t->counts[address] < 2)
                        return -ENOSPC;
                entry_remove(t, t->addresses[address].entries.oldest);
        }
        return 0;
}

int single_use_add(struct single_use *t, const char *who, const char *note, uint64_t now_ms, char ret_id[SINGLE_USE_ID],
                   struct err *err) {
        uint32_t i, address, *bucket;
        struct entry *e;

        if (strlen(who) >= SINGLE_USE_WHO || strlen(note) >= SINGLE_USE_NOTE)
                return err_set(err, ERR_LIMIT, "the address or the note of a single-use entry is too long");
        (void)single_use_sweep(t, now_ms);
        if (make_room(t, who) < 0) {
                (void)err_set(err, -ENOSPC, "could not keep one more");
                (void)err_hint(err, "%zu are pending, each of another address: try again in a moment", t->places);
                return -ENOSPC;
        }
        address = address_find(t, who);
        if (address == NONE)
                address = address_add(t, who);
        i = t->free_entry;
        e = &t->entries[i];
        t->free_entry = e->chain;
        randombytes_buf(e->id, sizeof e->id);
        bucket = bucket_of(t, t->id_buckets, e->id, sizeof e->id);
        e->chain = *bucket;
        *bucket = i;
        e->address = address;
        if (__builtin_add_overflow(now_ms, t->ttl_ms, &e->expires_ms))
                e->expires_ms = UINT64_MAX;
        (void)snprintf(e->note, sizeof e->note, "%s", note);
        list_add(t, &t->all, i, false);
        list_add(t, &t->addresses[address].entries, i, true);
        t->counts[address]++;
        t->count++;
        (void)sodium_bin2hex(ret_id, SINGLE_USE_ID, e->id, sizeof e->id);
        return 0;
}

static bool parse_id(const char *id, size_t size, uint8_t ret[ID]) {
        if (size != 2 * ID)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!((id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f')))
                        return false;
        return sodium_hex2bin(ret, ID, id, size, NULL, NULL, NULL) == 0;
}

int single_use_take(struct single_use *t, const char *id, size_t id_size, uint64_t now_ms,
                    char ret_note[SINGLE_USE_NOTE], uint64_t *ret_left_ms) {
        uint8_t bytes[ID];
        uint32_t i;

        if (!parse_id(id, id_size, bytes))
                return -ENOENT;
        i = *bucket_of(t, t->id_buckets, bytes, sizeof bytes);
        while (i != NONE && sodium_memcmp(t->entries[i].id, bytes, sizeof bytes) != 0)
                i = t->entries[i].chain;
        if (i == NONE)
                return -ENOENT;
        uint64_t expires_ms = t->entries[i].expires_ms;
        if (now_ms < expires_ms) {
                memcpy(ret_note, t->entries[i].note, SINGLE_USE_NOTE);
                if (ret_left_ms)
                        *ret_left_ms = expires_ms - now_ms;
        }
        entry_remove(t, i);
        return now_ms < expires_ms ? 0 : -ENOENT;
}
