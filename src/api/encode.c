/* Bytes as text. */
#include "api/encode.h"

#include <stdio.h>

#include "base/text.h"

void encode_base64(struct buf *b, const void *data, size_t size) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const uint8_t *p = data;

        for (size_t i = 0; i < size; i += 3) {
                uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < size ? (uint32_t)p[i + 1] << 8 : 0) |
                             (i + 2 < size ? (uint32_t)p[i + 2] : 0);
                char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < size ? digits[v >> 6 & 63] : '=',
                                i + 2 < size ? digits[v & 63] : '='};

                buf_add(b, four, sizeof four);
        }
}

size_t encode_whole(const uint8_t *data, size_t size) {
        for (size_t back = 1; back <= 3 && back <= size; back++) {
                uint8_t c = data[size - back];

                if ((c & 0xc0) == 0x80)
                        continue; /* in the middle of one */
                size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
                return need > back ? size - back : size;
        }
        return size;
}

void encode_member(struct json *j, const char *key, const uint8_t *data, size_t size) {
        char *text = malloc(size + 1);
        char name[64];

        if (!text) {
                j->out->failed = true;
                return;
        }
        if (size > 0)
                memcpy(text, data, size);
        text[size] = '\0';
        if (strlen(text) == size && text_is_utf8(text))
                json_str(j, key, text);
        else {
                (void)snprintf(name, sizeof name, "%s_base64", key);
                json_str(j, name, "");
                j->out->size--; /* the quote: what follows stands inside */
                encode_base64(j->out, data, size);
                buf_str(j->out, "\"");
        }
        free(text);
}

void encode_event(struct buf *b, const char *id, const char *name, const char *json) {
        if (id)
                buf_printf(b, "id: %s\n", id);
        if (name)
                buf_printf(b, "event: %s\n", name);
        buf_str(b, "data: ");
        buf_str(b, json);
        buf_str(b, "\n\n");
}
