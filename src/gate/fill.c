/* Placeholders become values: in the value of a header as it stands, and inside Basic credentials, which are decoded
 * for it and encoded again. A placeholder that may not be replaced here goes out as it is. */
#include "gate/fill.h"

#include "gate/forms.h"

#define BASIC_MAX (REDACT_MAX / 4 * 3) /* credentials with the value in, decoded: their encoded form is searched */

void fill_add(struct fill_out *o, const void *bytes, size_t size) {
        if (o->full || size > o->room - o->size) {
                o->full = true;
                return;
        }
        if (size > 0)
                memcpy(o->bytes + o->size, bytes, size);
        o->size += size;
}

void fill_text(struct fill_out *o, const char *text) {
        fill_add(o, text, strlen(text));
}

bool fill_watch(const struct exchange_setup *s, struct redact *r) {
        for (size_t i = 0; s->secrets && s->name && i < secrets_count(s->secrets); i++) {
                const char *name = secrets_name(s->secrets, i);
                bool meant = false;
                size_t size;

                for (size_t j = 0; name[0] && !meant && j < s->rules->count; j++)
                        meant = str_eq(s->rules->items[j].secret, name) &&
                                hostname_matches(s->rules->items[j].host, s->name);
                if (!meant)
                        continue;
                const void *value = secrets_value(s->secrets, i, &size);
                if (!forms_add(r, value, size))
                        return false;
        }
        return true;
}

/* On plain HTTP the very rule that permits it has to say private, and the address has to be near: the rule says only
 * that it may be, and who answers for the name says what it is. */
static bool may_go_in_the_clear(const struct fill *f, const char *secret) {
        static struct rules one; /* one rule at a time, asked alone */
        const struct exchange_setup *s = f->setup;

        if (!s->near)
                return false;
        one.count = 1;
        for (size_t i = 0; i < s->rules->count; i++) {
                one.items[0] = s->rules->items[i];
                if ((one.items[0].flags & RULE_PRIVATE) &&
                    decide_secret(&one, s->name, s->port, f->method, f->path.data, f->path.size, secret))
                        return true;
        }
        return false;
}

bool fill_permitted(const struct fill *f, size_t which) {
        const struct exchange_setup *s = f->setup;
        const char *secret = secrets_name(s->secrets, which);

        if (!s->name)
                return false;
        return s->tls ? decide_secret(s->rules, s->name, s->port, f->method, f->path.data, f->path.size, secret)
                      : may_go_in_the_clear(f, secret);
}

/* Copies text to o with what may be replaced replaced. Returns how many were. */
static unsigned replace(struct fill *f, const char *text, size_t size, struct fill_out *o) {
        const struct secrets *secrets = f->setup->secrets;
        size_t at = 0, which = 0, length = 0, value_size;
        unsigned count = 0;
        ssize_t found;

        while (secrets && (found = secrets_find(secrets, text, size, at, &which, &length)) >= 0) {
                fill_add(o, text + at, (size_t)found - at);
                at = (size_t)found + length;
                if (!fill_permitted(f, which)) {
                        fill_add(o, text + found, length);
                        continue;
                }
                const void *value = secrets_value(secrets, which, &value_size);
                f->refused |= !forms_add(f->redact, value, value_size);
                f->used |= 1U << which;
                fill_add(o, value, value_size);
                count++;
        }
        fill_add(o, text + at, size - at);
        return count;
}

static int digit(char c) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *p = c ? strchr(digits, c) : NULL;

        return p ? (int)(p - digits) : -1;
}

/* Returns the size, or -1: not base64, or too long. Padding may be missing. */
static ssize_t decode(const struct http_span *in, char *ret, size_t room) {
        uint32_t bits = 0;
        unsigned have = 0;
        size_t size = 0, length = in->size;

        for (unsigned i = 0; i < 2 && length > 0 && in->data[length - 1] == '='; i++)
                length--;
        for (size_t i = 0; i < length; i++) {
                int d = digit(in->data[i]);

                if (d < 0)
                        return -1;
                bits = bits << 6 | (uint32_t)d;
                have += 6;
                if (have < 8)
                        continue;
                if (size == room)
                        return -1;
                have -= 8;
                ret[size++] = (char)(bits >> have & 0xff);
        }
        return (ssize_t)size;
}

/* "Basic ", and what follows. */
static bool basic(const struct http_header *header, struct http_span *ret) {
        struct http_span scheme = {header->value.data, 5};

        if (!http_name_is(&header->name, "Authorization") || header->value.size < 7 ||
            !http_name_is(&scheme, "Basic") || header->value.data[5] != ' ')
                return false;
        *ret = (struct http_span){header->value.data + 6, header->value.size - 6};
        while (ret->size > 0 && ret->data[0] == ' ') {
                ret->data++;
                ret->size--;
        }
        return true;
}

/* False: there is nothing to replace inside; o is as it was. */
static bool fill_basic(struct fill *f, const struct http_span *credentials, struct fill_out *o) {
        static char plain[HTTP_HEAD_MAX], encoded[FORMS_BASE64(BASIC_MAX)];
        static uint8_t filled[BASIC_MAX];
        struct fill_out inner = {.bytes = filled, .room = sizeof filled};
        ssize_t size = decode(credentials, plain, sizeof plain);
        unsigned count = size > 0 ? replace(f, plain, (size_t)size, &inner) : 0;

        if (count > 0) {
                f->refused |= inner.full;
                size_t made = forms_base64(filled, inner.size, encoded);
                f->refused |= !redact_add(f->redact, encoded, made);
                fill_text(o, "Basic ");
                fill_add(o, encoded, made);
                fill_text(o, &"=="[made % 4 == 2 ? 0 : made % 4 == 3 ? 1 : 2]);
                explicit_bzero(encoded, made);
        }
        explicit_bzero(filled, inner.size);
        return count > 0;
}

static bool is_web_sockets(const struct http_span *name) {
        static const size_t length = sizeof "Sec-WebSocket-" - 1;

        return name->size > length && http_name_is(&(struct http_span){name->data, length}, "Sec-WebSocket-");
}

void fill_value(struct fill *f, const struct http_header *header, struct fill_out *o) {
        struct http_span credentials;

        if (is_web_sockets(&header->name)) {
                fill_add(o, header->value.data, header->value.size);
                return;
        }
        if (f->setup->secrets && basic(header, &credentials) && fill_basic(f, &credentials, o))
                return;
        (void)replace(f, header->value.data, header->value.size, o);
}
