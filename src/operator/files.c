/* What clients do to files inside. Each is one request to the guest, with the client's stream tied to the request's:
 * whichever is slow holds up the other. What the guest says is hostile: lists are counted, and texts are only shown. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/text.h"
#include "operator/admission.h"
#include "operator/files.h"
#include "operator/life.h"

#define ITEMS_MAX   100000
#define ANSWER_ROOM (12U << 20)
#define LIST_FREE   (64U << 10) /* not counted */
#define LISTS_OWNER (24U << 20) /* of one owner's lists while they are made */
#define LISTS_ALL   (96U << 20)

struct file {
        struct guest_request request;
        struct op op;
        struct call *call;
        struct sandbox *sandbox;
        struct owner *watcher; /* watches, and is counted as one that does */
        enum guest_kind kind;
        struct guest_message m; /* until it was asked */
        char *path, *target;
        struct buf list; /* entries, processes */
        struct json json;
        unsigned items;
        bool too_many;
        bool crowded;        /* too much of other lists is in memory */
        size_t counted;      /* of the list's bytes */
        struct owner *owner; /* for whom they were counted */
        uint8_t *rest;       /* from the client, for the guest */
        size_t rest_size, rest_at;
        bool finish, opened;
        bool conditional; /* the file has to be what it was when it was read */
        uint64_t written[GUEST_NUMBERS];
        bool glance;      /* we look, and nobody reads a file: it is not recorded, and is no use of the sandbox */
        bool lost;        /* changes, for want of room: said before the next one */
        uint64_t out, in; /* bytes */
};

static void list_drop(struct file *f) {
        if (f->owner) {
                f->owner->list_bytes -= f->counted;
                f->sandbox->o->registry->list_bytes -= f->counted;
        }
        f->counted = 0;
        buf_free(&f->list);
}

static void file_free(struct file *f) {
        if (f->watcher)
                f->watcher->tally[TALLY_WATCHERS]--;
        list_drop(f);
        free(f->path);
        free(f->target);
        free(f->rest);
        free(f);
}

/* --- from the guest -------------------------------------------------------------------------------------------------
 */

/* What a file was when somebody read it: whoever writes it can say that this is what he means to replace. */
static void etag_json(struct json *j, uint64_t size, uint64_t time_ms, uint64_t inode) {
        char text[64];

        (void)snprintf(text, sizeof text, "%llx-%llx-%llx", (unsigned long long)size, (unsigned long long)time_ms,
                       (unsigned long long)inode);
        json_str(j, "etag", text);
}

/* False: it is none of ours, so no file has it. */
static bool etag_read(const char *text, struct guest_message *m) {
        unsigned long long size, time_ms, inode;
        char again[64];

        if (sscanf(text, "%16llx-%16llx-%16llx", &size, &time_ms, &inode) != 3)
                return false;
        (void)snprintf(again, sizeof again, "%llx-%llx-%llx", size, time_ms, inode);
        m->size = size;
        m->time_ms = time_ms;
        m->inode = inode;
        return str_eq(text, again);
}

static void entry_json(struct json *j, const char *key, const struct guest_message *m, bool etag) {
        static const struct {
                mode_t type;
                const char *name;
        } kinds[] = {{S_IFREG, "file"},    {S_IFDIR, "folder"}, {S_IFLNK, "link"},  {S_IFIFO, "pipe"},
                     {S_IFSOCK, "socket"}, {S_IFCHR, "device"}, {S_IFBLK, "device"}};
        const char *kind = "other";

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if ((m->mode & S_IFMT) == kinds[i].type)
                        kind = kinds[i].name;
        json_open(j, key, '{');
        json_str(j, "name", m->path);
        json_str(j, "kind", kind);
        json_u64(j, "size", m->size);
        json_u64(j, "mode", m->mode & 07777);
        json_u64(j, "mtime_ms", m->time_ms);
        json_u64(j, "uid", m->uid);
        json_u64(j, "gid", m->gid);
        if (m->target && m->target[0])
                json_str(j, "target", m->target);
        if (etag && S_ISREG(m->mode))
                etag_json(j, m->size, m->time_ms, m->inode);
        json_close(j, '}');
}

static void process_json(struct json *j, const struct guest_message *m) {
        char state[2] = {m->mode >= 'A' && m->mode <= 'z' ? (char)m->mode : '?', '\0'};

        json_open(j, NULL, '{');
        json_i64(j, "pid", m->number);
        json_i64(j, "parent", m->parent);
        json_u64(j, "uid", m->uid);
        json_str(j, "state", state);
        json_u64(j, "memory", m->size);
        json_u64(j, "started_ms", m->time_ms);
        json_u64(j, "cpu_us", m->rusage.user_us + m->rusage.system_us);
        json_str(j, "command", m->text);
        json_close(j, '}');
}

static void say_lost(struct file *f) {
        static const char text[] = "{\"change\":\"lost\",\"path\":\"\"}";

        if (f->lost)
                (void)client_send(f->call->client, LOCAL_EVENT, text, sizeof text - 1);
        f->lost = false;
}

static void change_event(struct file *f, const struct guest_message *m) {
        static const char *const names[GUEST_CHANGES] = {[GUEST_MADE] = "made",       [GUEST_REMOVED] = "removed",
                                                         [GUEST_CHANGED] = "changed", [GUEST_ATTRIBUTES] = "attributes",
                                                         [GUEST_MOVED] = "moved",     [GUEST_LOST] = "lost"};
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        if (m->number < GUEST_MADE || m->number >= GUEST_CHANGES)
                return;
        if (!client_has_room(f->call->client)) { /* who does not read loses changes, and is told so */
                f->lost = true;
                return;
        }
        say_lost(f);
        json_open(&j, NULL, '{');
        json_str(&j, "change", names[m->number]);
        json_str(&j, "path", m->path);
        if (m->number == GUEST_MOVED)
                json_str(&j, "to", m->target);
        json_close(&j, '}');
        call_event(f->call, &b);
}

/* Many that are made at the same time, by a guest that takes its time, may not add up. */
static bool list_count(struct file *f) {
        struct registry *all = f->call->o->registry;
        size_t more = f->list.room - f->counted;

        if (more == 0 || f->list.room <= LIST_FREE)
                return true;
        if (!f->owner)
                f->owner = f->sandbox->owner;
        if (f->owner->list_bytes + more > LISTS_OWNER || all->list_bytes + more > LISTS_ALL) {
                f->crowded = true;
                list_drop(f);
                return false;
        }
        f->owner->list_bytes += more;
        all->list_bytes += more;
        f->counted += more;
        return true;
}

static void push(struct file *f);

static void on_item(struct guest_request *r, const struct guest_message *m) {
        struct file *f = LOOP_OWNER(r, struct file, request);
        static const char opened[] = "{\"opened\":true}";

        if (m->kind == GUEST_ENTRY || m->kind == GUEST_PROCESS) {
                if (f->crowded || !list_count(f))
                        return;
                if (f->too_many || ++f->items > ITEMS_MAX || !buf_ok(&f->list)) {
                        f->too_many = true;
                        return;
                }
                if (m->kind == GUEST_ENTRY)
                        entry_json(&f->json, NULL, m, f->kind == GUEST_STAT);
                else
                        process_json(&f->json, m);
        } else if (m->kind == GUEST_CHANGE)
                change_event(f, m);
        else if (m->kind == GUEST_OPENED && !f->opened) {
                f->opened = true;
                (void)client_send(f->call->client, LOCAL_EVENT, opened, sizeof opened - 1);
                if (f->kind == GUEST_CONNECT)
                        push(f); /* what came before, if anything did; then the rest is let in */
        } else if (m->kind == GUEST_FINISH)
                (void)client_send(f->call->client, LOCAL_FINISH, NULL, 0);
}

static bool on_data(struct guest_request *r, const uint8_t *bytes, size_t size) {
        struct file *f = LOOP_OWNER(r, struct file, request);

        f->out += size;
        (void)client_send(f->call->client, LOCAL_OUTPUT, bytes, size);
        return client_has_room(f->call->client);
}

static void on_writable(struct client *client) {
        struct call *c = client->data;
        struct file *f = c->data;

        if (client_has_room(client))
                say_lost(f);
        if (f->request.channel)
                guest_link_more(&f->request);
}

/* --- to the guest ---------------------------------------------------------------------------------------------------
 */

static void push(struct file *f) {
        while (f->rest_at < f->rest_size) {
                ssize_t n = guest_link_data(&f->request, f->rest + f->rest_at, f->rest_size - f->rest_at);

                if (n < 0) /* it takes no more: its END says why */
                        n = (ssize_t)(f->rest_size - f->rest_at);
                if (n == 0)
                        return;
                f->rest_at += (size_t)n;
                f->in += (size_t)n;
        }
        f->rest_size = f->rest_at = 0;
        if (f->finish)
                (void)guest_link_finish(&f->request);
        f->finish = false;
        client_hold_input(f->call->client, false);
}

static void on_room(struct guest_request *r) {
        push(LOOP_OWNER(r, struct file, request));
}

static void on_input(struct client *client, enum local_kind kind, const uint8_t *data, size_t size) {
        struct call *c = client->data;
        struct file *f = c->data;

        if (!f->request.channel)
                return;
        if (kind == LOCAL_FINISH)
                f->finish = true;
        else if (kind == LOCAL_INPUT && size <= LOCAL_FRAME_MAX) {
                memcpy(f->rest, data, size);
                f->rest_size = size;
                f->rest_at = 0;
                client_hold_input(client, true);
        } else
                return;
        push(f);
}

/* --- the end --------------------------------------------------------------------------------------------------------
 */

static void answer(struct file *f) {
        _cleanup_buf_ struct buf b = {.max = ANSWER_ROOM + 1024};
        struct json j = {.out = &b};
        struct call *c = f->call;

        switch ((int)f->kind) {
        case GUEST_LIST:
        case GUEST_PROCESSES:
                buf_str(&b, f->kind == GUEST_LIST ? "{\"entries\":" : "{\"processes\":");
                json_close(&f->json, ']');
                if (buf_ok(&f->list))
                        buf_add(&b, f->list.data, f->list.size);
                buf_str(&b, "}");
                break;
        case GUEST_STAT:
                json_close(&f->json, ']');
                if (buf_ok(&f->list) && f->list.size > 2) /* without the brackets */
                        buf_add(&b, f->list.data + 1, f->list.size - 2);
                else
                        buf_str(&b, "{}");
                break;
        case GUEST_READ:
        case GUEST_WRITE:
        case GUEST_TAR_IN:
        case GUEST_TAR_OUT:
        case GUEST_CONNECT:
                json_open(&j, NULL, '{');
                json_u64(&j, "bytes", f->kind == GUEST_WRITE || f->kind == GUEST_TAR_IN ? f->in : f->out);
                if (f->kind == GUEST_WRITE && f->written[GUEST_WRITE_INODE] != 0)
                        etag_json(&j, f->in, f->written[GUEST_WRITE_TIME], f->written[GUEST_WRITE_INODE]);
                json_close(&j, '}');
                break;
        default:
                buf_str(&b, "{}");
        }
        file_free(f);
        call_answer(c, &b);
}

static void refuse_changed(struct file *f) {
        struct call *c = f->call;
        char path[128];

        text_escape(path, sizeof path, f->path);
        file_free(f);
        call_refuse_text(c, "changed", "read it again; or write it without saying what it was, to replace it",
                         "%s is not what it was when it was read", path);
}

static void refuse(struct file *f, const struct guest_message *m) {
        struct call *c = f->call;
        struct err err = {.code = m->error};
        char path[128];

        text_escape(path, sizeof path, f->path ? f->path : "");
        if (m->error == -ECONNRESET)
                (void)snprintf(err.text, sizeof err.text, "the sandbox was stopped, or its guest does not answer");
        else if (m->text && m->text[0])
                text_escape(err.text, MIN(sizeof err.text, 400U), m->text);
        else
                (void)snprintf(err.text, sizeof err.text, "%s: %s", path, err_name(m->error));
        file_free(f);
        call_refuse(c, &err);
}

static void on_end(struct guest_request *r, const struct guest_message *m) {
        struct file *f = LOOP_OWNER(r, struct file, request);

        memcpy(f->written, m->numbers, sizeof f->written);
        if (m->error == -ESTALE && f->conditional)
                refuse_changed(f);
        else if (m->error < 0)
                refuse(f, m);
        else if (f->crowded) {
                struct call *c = f->call;

                file_free(f);
                call_refuse_text(c, "busy", "try again when others are through",
                                 "too many long lists are being made at the same time");
        } else if (f->too_many || !buf_ok(&f->list)) {
                struct call *c = f->call;

                file_free(f);
                call_refuse_text(c, "too_large", "use tar-out, or look at a smaller folder",
                                 "there are more than %d entries", ITEMS_MAX);
        } else
                answer(f);
}

static void on_gone(struct call *c) {
        struct file *f = c->data;

        if (!f->op.begun)
                return; /* noticed when its turn comes */
        if (f->request.channel)
                guest_link_cancel(&f->request);
        file_free(f);
        call_drop(c);
}

/* --- the beginning --------------------------------------------------------------------------------------------------
 */

static int tell_ledger(const struct file *f, struct err *err) {
        uint64_t seq;
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};
        enum ledger_kind kind;

        if (f->glance)
                return 0;
        switch ((int)f->kind) {
        case GUEST_READ:
                kind = LEDGER_FILE_READ;
                break;
        case GUEST_WRITE:
        case GUEST_MKDIR:
        case GUEST_MOVE:
                kind = LEDGER_FILE_WRITE;
                break;
        case GUEST_REMOVE:
                kind = LEDGER_FILE_REMOVE;
                break;
        case GUEST_TAR_IN:
        case GUEST_TAR_OUT:
                kind = LEDGER_FILE_ARCHIVE;
                break;
        default:
                return 0;
        }
        json_open(&j, NULL, '{');
        json_str(&j, "verb", guest_kind_name(f->kind));
        json_str(&j, "path", f->path);
        if (f->target)
                json_str(&j, "to", f->target);
        json_close(&j, '}');
        return buf_ok(&b) ? record_needed(f->call->o, kind, f->sandbox->id, f->call->actor, b.data, &seq, err)
                          : call_err(err, -ENOMEM, "out of memory");
}

static void begin(struct op *op) {
        struct file *f = LOOP_OWNER(op, struct file, op);
        struct sandbox *s = f->sandbox;
        struct call *c = f->call;
        struct err err = {0};
        enum state to;
        int r = 0;

        if (!c->client) {
                file_free(f);
                call_drop(c);
                return;
        }
        if (s->state == STATE_DELETED)
                (void)call_err(&err, -ENOENT, "sandbox %s has been deleted", s->id);
        else if (!state_move(s->state, EVENT_FILES, &to))
                conflict_text(s, EVENT_FILES, &err);
        else if (life_held(s, &err))
                ;
        else if (!s->guest)
                (void)call_err(&err, -EAGAIN, "its guest does not answer now");
        else if (tell_ledger(f, &err) == 0 && (r = guest_link_ask(s->guest, &f->request, &f->m)) == -EOPNOTSUPP) {
                (void)call_err(&err, -EEXIST,
                               "it was started by an older version, which cannot look at what it replaces");
                (void)err_hint(&err, "stop and resume it");
        } else if (err.code == 0 && r < 0)
                (void)call_err(&err, r,
                               r == -EAGAIN ? "it has too many requests at a time" : "it cannot be asked this");
        if (err.code < 0) {
                file_free(f);
                call_refuse(c, &err);
                return;
        }
        if (!f->glance)
                sandbox_touch(s);
        c->client->writable = on_writable;
        if (f->rest) {
                c->client->input = on_input;
                client_hold_input(c->client, f->kind == GUEST_CONNECT);
        }
}

/* False: it was refused, and f is gone. */
static bool may_watch(struct file *f, struct call *c) {
        struct owner *owner = owner_get(c->o, c->owner);
        struct err err = {0};

        if (!owner)
                (void)call_err(&err, -ENOMEM, "out of memory");
        else
                (void)admission_one_more(c->o, owner, TALLY_WATCHERS, &err);
        if (err.code < 0) {
                file_free(f);
                call_refuse(c, &err);
                return false;
        }
        owner->tally[TALLY_WATCHERS]++;
        f->watcher = owner;
        return true;
}

/* glance: the file that we look at for ourselves; NULL: whatever the request names. */
static void start(struct call *c, enum guest_kind kind, const char *glance) {
        struct file *f = calloc(1, sizeof *f);
        char etag[80];
        bool input = kind == GUEST_WRITE || kind == GUEST_TAR_IN || kind == GUEST_CONNECT;

        if (f) {
                f->glance = glance != NULL;
                f->path = glance ? strdup(glance) : call_strdup(c, "path");
                f->target = call_strdup(c, "to");
                f->rest = input ? malloc(LOCAL_FRAME_MAX) : NULL;
        }
        if (!f || (input && !f->rest) || (glance && !f->path)) {
                if (f)
                        file_free(f);
                call_refuse_text(c, "failed", "try again", "out of memory");
                return;
        }
        if (kind == GUEST_WATCH && !may_watch(f, c))
                return;
        f->call = c;
        f->sandbox = c->sandbox;
        f->kind = kind;
        f->list.max = ANSWER_ROOM;
        f->json.out = &f->list;
        json_open(&f->json, NULL, '[');
        f->request = (struct guest_request){.item = on_item, .data = on_data, .room = on_room, .end = on_end};
        f->m = (struct guest_message){
                .kind = kind,
                .path = f->path,
                .target = f->target,
                .offset = call_number(c, "offset", 0),
                .length = call_number(c, "length", UINT64_MAX),
                .mode = (uint32_t)call_number(c, "mode", kind == GUEST_MKDIR ? 0755 : 0),
                .port = (uint16_t)call_number(c, "port", 0),
        };
        if (kind == GUEST_WRITE && call_text(c, "if_match", etag, sizeof etag)[0]) {
                if (!etag_read(etag, &f->m)) {
                        refuse_changed(f);
                        return;
                }
                f->m.kind = GUEST_WRITE_IF;
                f->conditional = true;
        }
        if (call_bool(c, "recursive"))
                f->m.flags |= kind == GUEST_MKDIR ? GUEST_PARENTS : GUEST_RECURSIVE;
        c->data = f;
        c->gone = on_gone;
        f->op = (struct op){.begin = begin, .light = true};
        op_add(&f->sandbox->ops, &f->op);
}

void files_begin(struct call *c, enum guest_kind kind) {
        start(c, kind, NULL);
}

void files_sockets(struct call *c) {
        start(c, GUEST_READ, call_bool(c, "six") ? "/proc/net/tcp6" : "/proc/net/tcp");
}
