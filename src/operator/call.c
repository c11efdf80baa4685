/* Calls: answers, refusals, and what error numbers are called outside. */
#include "operator/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "operator/sandbox.h"

static void client_gone(struct client *client) {
        struct call *c = client->data;

        c->client = NULL;
        c->text = NULL;
        if (c->gone)
                c->gone(c);
}

struct call *call_new(struct client *client) {
        struct call *c = calloc(1, sizeof *c);

        if (!c)
                return NULL;
        c->o = client->o;
        c->client = client;
        c->text = client->request;
        c->admin = client->admin;
        copy_text(c->actor, sizeof c->actor, client->owner);
        copy_text(c->owner, sizeof c->owner, client->owner);
        client->data = c;
        client->gone = client_gone;
        return c;
}

static void call_free(struct call *c) {
        free(c->answer);
        free(c);
}

/* The client is not ours any more: it gets one last frame, or is gone already. */
static struct client *let_go(struct call *c) {
        struct client *client = TAKE_PTR(c->client);

        if (client) {
                client->data = NULL;
                client->gone = NULL;
                client->input = NULL;
                client->writable = NULL;
        }
        return client;
}

void call_drop(struct call *c) {
        static const struct err gone = {.code = -ECANCELED, .text = "whoever asked first went away"};

        (void)let_go(c);
        if (c->keyed)
                keyed_drop(TAKE_PTR(c->keyed), "busy", &gone);
        call_free(c);
}

uint64_t call_settle(struct call *c, struct buf *result) {
        free(c->answer);
        c->answer = buf_ok(result) ? strdup(result->data ? result->data : "{}") : NULL;
        return c->keyed && c->answer ? keyed_settle(c->keyed, c->answer) : 0;
}

void call_done(struct call *c) {
        struct client *client = let_go(c);

        if (c->keyed)
                keyed_answered(TAKE_PTR(c->keyed));
        if (client && c->answer)
                client_answer(client, c->answer);
        else if (client)
                client_refuse_text(client, "failed", "ask for less at a time", "the answer does not fit in memory");
        call_free(c);
}

void call_answer(struct call *c, struct buf *result) {
        (void)call_settle(c, result);
        call_done(c);
}

void call_refuse_as(struct call *c, const char *code, const struct err *err) {
        struct client *client = let_go(c);

        if (c->keyed)
                keyed_drop(TAKE_PTR(c->keyed), code, err);
        if (client)
                client_refuse(client, code, err);
        call_free(c);
}

void call_refuse(struct call *c, const struct err *err) {
        call_refuse_as(c, call_code(err->code), err);
}

void call_refuse_text(struct call *c, const char *code, const char *hint, const char *format, ...) {
        struct err err = {.code = -EINVAL};
        va_list args;

        va_start(args, format);
        (void)vsnprintf(err.text, sizeof err.text, format, args);
        va_end(args);
        copy_text(err.hint, sizeof err.hint, hint);
        call_refuse_as(c, code, &err);
}

int call_err(struct err *err, int code, const char *format, ...) {
        va_list args;

        *err = (struct err){.code = code};
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        return code;
}

const char *call_code(int error) {
        static const struct {
                int error;
                const char *code;
        } codes[] = {
                {ERR_INPUT, "bad_request"},
                {ERR_UNENFORCED, "unenforced"},
                {ERR_REFUSED, "refused"},
                {ERR_LIMIT, "limit"},
                {-ENOENT, "not_found"},
                {-ESRCH, "not_found"},
                {-EEXIST, "conflict"},
                {-ENOTEMPTY, "conflict"},
                {-ENOTDIR, "conflict"},
                {-EISDIR, "conflict"},
                {-EXDEV, "conflict"},
                {-EACCES, "refused"},
                {-EPERM, "refused"},
                {-EROFS, "refused"},
                {-ELOOP, "refused"},
                {-ENOSPC, "full"},
                {-EDQUOT, "full"},
                {-EAGAIN, "busy"},
                {-EBUSY, "busy"},
                {-EMFILE, "busy"},
                {-ENFILE, "busy"},
                {-ECONNRESET, "busy"},
                {-EPIPE, "busy"},
                {-EFBIG, "too_large"},
                {-EMSGSIZE, "too_large"},
                {-ENAMETOOLONG, "bad_request"},
                {-EINVAL, "bad_request"},
                {-EBADMSG, "bad_request"},
                {-ECONNREFUSED, "not_found"},
                {-ECANCELED, "busy"},
        };

        for (size_t i = 0; i < ELEMENTSOF(codes); i++)
                if (codes[i].error == error)
                        return codes[i].code;
        return "failed";
}

void call_event(struct call *c, struct buf *json) {
        if (c->client && buf_ok(json))
                (void)client_send(c->client, LOCAL_EVENT, json->data, json->size);
}

bool call_has(const struct call *c, const char *field) {
        return json_find_kind(c->text, field) != '\0';
}

const char *call_text(const struct call *c, const char *field, char *buf, size_t size) {
        if (!json_find_str(c->text, field, buf, size))
                buf[0] = '\0';
        return buf;
}

char *call_strdup(const struct call *c, const char *field) {
        size_t size = 0;

        if (!json_at(c->text, field, &size))
                return NULL;
        char *text = malloc(size + 1); /* decoded is never longer than encoded */
        if (text && !json_find_str(c->text, field, text, size + 1))
                free(TAKE_PTR(text));
        return text;
}

uint64_t call_number(const struct call *c, const char *field, uint64_t otherwise) {
        uint64_t value = otherwise;

        (void)json_find_u64(c->text, field, &value);
        return value;
}

bool call_bool(const struct call *c, const char *field) {
        bool value = false;

        (void)json_find_bool(c->text, field, &value);
        return value;
}
