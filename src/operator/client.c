/* What verbs say to clients, whichever door these came by. */
#include <stdarg.h>

#include "operator/server.h"

bool client_send(struct client *c, enum local_kind kind, const void *data, size_t size) {
        c->door->send(c, kind, data, size);
        return c->door->has_room(c);
}

bool client_has_room(const struct client *c) {
        return c->door->has_room(c);
}

void client_hold_input(struct client *c, bool hold) {
        c->door->hold_input(c, hold);
}

void client_answer(struct client *c, const char *result) {
        c->door->answer(c, result);
}

void client_refuse(struct client *c, const char *code, const struct err *err) {
        c->door->refuse(c, code, err->text, err->hint);
}

void client_refuse_text(struct client *c, const char *code, const char *hint, const char *format, ...) {
        char message[1024];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(message, sizeof message, format, args);
        va_end(args);
        c->door->refuse(c, code, message, hint ? hint : "");
}
