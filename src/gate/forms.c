/* Writing a value in the forms that are searched for.
 *
 * In base64 three bytes become four letters, so a value within something longer has one of three looks, by how many
 * bytes stand before it. Only letters that are made of the value's bits alone are searched for: of the letter before
 * and the one behind, which hold bits of the neighbours too, up to four bits of the value each stay readable. */
#include "gate/forms.h"

#include "wire/gate.h"

#define FORM_BYTE 6 /* \u0041: no byte becomes longer */

size_t forms_base64(const uint8_t *bytes, size_t size, char *ret) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint32_t bits = 0;
        unsigned have = 0;
        size_t made = 0;

        for (size_t i = 0; i < size; i++) {
                bits = bits << 8 | bytes[i];
                have += 8;
                while (have >= 6) {
                        have -= 6;
                        ret[made++] = letters[bits >> have & 63];
                }
        }
        if (have > 0)
                ret[made++] = letters[bits << (6 - have) & 63];
        return made;
}

/* The letters that a value has behind `before` other bytes. */
static bool add_base64(struct redact *r, const uint8_t *value, size_t size, unsigned before) {
        static uint8_t padded[2 + GATE_SECRET_MAX];
        static char text[FORMS_BASE64(sizeof padded)];
        size_t first = (before * 8 + 5) / 6, last = (before + size) * 8 / 6;

        memcpy(padded + before, value, size);
        size_t made = forms_base64(padded, before + size, text);
        bool ok = redact_add(r, text + first, last - first);
        explicit_bzero(padded, before + size);
        explicit_bzero(text, made);
        return ok;
}

/* How a byte is written that cannot stand for itself, and which ones those are. */
static const struct writing {
        const char *before; /* it */
        bool digits;        /* it is two hexadecimal digits; otherwise the byte itself */
        const char *kept;   /* besides letters and digits; NULL: see changed */
        const char *changed;
} writings[] = {
        {"", true, NULL, NULL},           /* plain hexadecimal: every byte */
        {"%", true, "-._~", NULL},        /* addresses */
        {"%", true, "-._~!*'()", NULL},   /* as scripts do it */
        {"\\", false, NULL, "\"\\"},      /* JSON */
        {"\\", false, NULL, "\"\\/"},     /* the same, for pages */
        {"\\u00", true, NULL, "\"&'+<>`"} /* the same, more careful */
};

static bool is_changed(const struct writing *w, uint8_t c) {
        if (w->changed)
                return strchr(w->changed, c) != NULL;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !w->kept || !(plain || strchr(w->kept, c));
}

static size_t write_byte(char *ret, const struct writing *w, uint8_t c) {
        static const char digits[] = "0123456789abcdef";
        size_t made = 0;

        if (!is_changed(w, c)) {
                ret[0] = (char)c;
                return 1;
        }
        for (const char *p = w->before; *p; p++)
                ret[made++] = *p;
        if (w->digits) {
                ret[made++] = digits[c >> 4];
                ret[made++] = digits[c & 15];
        } else {
                ret[made++] = (char)c;
        }
        return made;
}

static bool add_written(struct redact *r, const uint8_t *value, size_t size, const struct writing *w) {
        static char text[REDACT_MAX + FORM_BYTE];
        size_t made = 0, i;

        for (i = 0; i < size && made + FORM_BYTE <= sizeof text; i++)
                made += write_byte(text + made, w, value[i]);
        bool ok = i == size && redact_add(r, text, made);
        explicit_bzero(text, made);
        return ok;
}

bool forms_add(struct redact *r, const uint8_t *value, size_t size) {
        if (redact_knows(r, value, size))
                return true;
        if (size > GATE_SECRET_MAX || !redact_add(r, value, size))
                return false;
        for (unsigned before = 0; before < 3; before++)
                if (!add_base64(r, value, size, before))
                        return false;
        for (size_t i = 0; i < ELEMENTSOF(writings); i++)
                if (!add_written(r, value, size, &writings[i]))
                        return false;
        redact_know(r, value, size);
        return true;
}
