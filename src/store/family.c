/* Rows to parameters, results to rows: by the columns' table, the same for every family. */
#include "store/family.h"

static const void *at(const void *row, size_t offset) {
        return (const char *)row + offset;
}

static const void *blob_of(const struct family_column *c, const void *row) {
        return *(const void *const *)at(row, c->offset);
}

static size_t blob_size(const struct family_column *c, const void *row) {
        return *(const size_t *)at(row, c->size_offset);
}

static int bind_one(const struct family_column *c, sqlite3_stmt *s, int place, const void *row) {
        const void *p = at(row, c->offset);

        switch (c->kind) {
        case FAMILY_TEXT:
                return sqlite3_bind_text(s, place, p, (int)strnlen(p, c->size - 1), SQLITE_STATIC);
        case FAMILY_NUMBER:
                return sqlite3_bind_int64(s, place, *(const int64_t *)p);
        case FAMILY_BOOL:
                return sqlite3_bind_int64(s, place, *(const bool *)p);
        case FAMILY_BYTES:
                return sqlite3_bind_blob(s, place, p, (int)c->size, SQLITE_STATIC);
        case FAMILY_BLOB:
                if (!blob_of(c, row))
                        return sqlite3_bind_null(s, place);
                return sqlite3_bind_blob64(s, place, blob_of(c, row), blob_size(c, row), SQLITE_STATIC);
        default:
                return SQLITE_MISUSE;
        }
}

int family_bind(const struct family *f, sqlite3_stmt *s, const void *row) {
        int used = sqlite3_bind_parameter_count(s); /* a query need not have the last ones */

        for (int i = 0; i < (int)f->column_count && i < used; i++) {
                int r = bind_one(&f->columns[i], s, i + 1, row);
                if (r != SQLITE_OK)
                        return r;
        }
        return SQLITE_OK;
}

static int read_one(const struct family_column *c, sqlite3_stmt *s, int place, void *row) {
        char *to = (char *)row + c->offset;
        size_t size = (size_t)sqlite3_column_bytes(s, place);
        int type = sqlite3_column_type(s, place);

        switch (c->kind) {
        case FAMILY_TEXT:
                if (type != SQLITE_TEXT || size >= c->size || memchr(sqlite3_column_text(s, place), '\0', size))
                        return ERR_CORRUPT;
                memcpy(to, sqlite3_column_text(s, place), size);
                return 0;
        case FAMILY_NUMBER:
                if (type != SQLITE_INTEGER)
                        return ERR_CORRUPT;
                *(int64_t *)(void *)to = sqlite3_column_int64(s, place);
                return 0;
        case FAMILY_BOOL:
                if (type != SQLITE_INTEGER)
                        return ERR_CORRUPT;
                *(bool *)to = sqlite3_column_int64(s, place) != 0;
                return 0;
        case FAMILY_BYTES:
                if (type != SQLITE_BLOB || size != c->size)
                        return ERR_CORRUPT;
                memcpy(to, sqlite3_column_blob(s, place), size);
                return 0;
        case FAMILY_BLOB:
                if (type == SQLITE_NULL)
                        return 0;
                if (type != SQLITE_BLOB)
                        return ERR_CORRUPT;
                /* SQLite has no address for an empty blob; we tell it from none */
                *(const void **)(void *)to = size > 0 ? sqlite3_column_blob(s, place) : "";
                *(size_t *)(void *)((char *)row + c->size_offset) = size;
                return 0;
        default:
                return ERR_CORRUPT;
        }
}

int family_read(const struct family *f, sqlite3_stmt *s, void *row) {
        memset(row, 0, f->row_size);
        if (sqlite3_column_count(s) != (int)f->column_count)
                return ERR_CORRUPT;
        for (int i = 0; i < (int)f->column_count; i++) {
                int r = read_one(&f->columns[i], s, i, row);
                if (r < 0)
                        return r;
        }
        return 0;
}

size_t family_blobs(const struct family *f, const void *row) {
        size_t sum = 0;

        for (size_t i = 0; i < f->column_count; i++)
                if (f->columns[i].kind == FAMILY_BLOB && blob_of(&f->columns[i], row))
                        sum += blob_size(&f->columns[i], row);
        return sum;
}

void family_copy(const struct family *f, void *to, const void *row, void *blobs) {
        char *p = blobs;

        memcpy(to, row, f->row_size);
        for (size_t i = 0; i < f->column_count; i++) {
                const struct family_column *c = &f->columns[i];

                if (c->kind != FAMILY_BLOB || !blob_of(c, row))
                        continue;
                size_t n = blob_size(c, row);
                if (n > 0)
                        memcpy(p, blob_of(c, row), n);
                *(const void **)(void *)((char *)to + c->offset) = p;
                p += n;
        }
}
