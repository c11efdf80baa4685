/* From notes about what was refused to a profile that a person reads; see lesson.h.
 *
 * Lists replace those of a parent, so the parent's entries are repeated before the new ones. Every addition is tried on
 * the policy as it is added: what policy_check does not take, what is sensitive, and what no profile can say, stays in
 * comments. */
#include "cli/lesson.h"

#include "base/text.h"
#include "policy/value.h"
#include "wire/wire.h"

#define LINES_MAX (112 * 1024) /* of what is allowed, and then of what is not: a profile has at most 256 KiB */

/* One note may be two wishes: a program has to be seen and to be executed. */
static int take_note(struct lesson *l, struct wire *w) {
        enum learn_kind kind = wire_u16(w);
        unsigned flags = wire_u16(w);
        uint64_t count = wire_u64(w);
        const char *path = wire_str(w), *real = wire_str(w);
        const char *name = strrchr(path, '/');

        if (!wire_ok(w) || path[0] != '/' || kind == 0 || kind >= LEARN_KIND_COUNT)
                return -EBADMSG;
        bool library = kind == LEARN_READ && name && strstr(name, ".so");
        bool nothing = (flags & LEARN_DEVICE) || kind == LEARN_CHANGE || kind == LEARN_CONNECT;
        enum wish_key keys[2];
        size_t n = 0;
        if (nothing)
                keys[n++] = WISH_NOTHING;
        else if (kind == LEARN_MAKE)
                keys[n++] = WISH_WRITE;
        else if (kind == LEARN_READ || !(flags & LEARN_INSIDE))
                keys[n++] = WISH_READ;
        if (!nothing && (kind == LEARN_EXEC || library) && l->before.tools.exec_set)
                keys[n++] = WISH_EXEC;
        for (size_t i = 0; i < n; i++) {
                struct wish *wish = wish_add(&l->wishes, keys[i]);
                if (!wish)
                        return -ENOMEM;
                wish->kind = kind;
                wish->flags = flags;
                wish->count = count;
                wish->path = path;
                wish->real = real;
        }
        return 0;
}

int lesson_read(struct lesson *l, const void *bytes, size_t size) {
        struct wire w = {.start = bytes, .size = size};
        const void *magic = wire_bytes(&w, strlen(LEARN_MAGIC));
        int r = 0;

        if (!magic || memcmp(magic, LEARN_MAGIC, strlen(LEARN_MAGIC)) != 0)
                return -EBADMSG;
        uint32_t count = wire_u32(&w);
        if (count > LEARN_ENTRIES_MAX)
                return -EBADMSG;
        l->wishes.room = (size_t)count * 4 + 2 * LEARN_HOSTS_MAX + 16;
        l->wishes.items = calloc(l->wishes.room, sizeof *l->wishes.items);
        if (!l->wishes.items)
                return -ENOMEM;
        for (uint32_t i = 0; r == 0 && i < count; i++)
                r = take_note(l, &w);
        count = r == 0 ? wire_u32(&w) : 0;
        if (r < 0 || count > LEARN_HOSTS_MAX)
                return r < 0 ? r : -EBADMSG;
        for (; l->host_count < count; l->host_count++) {
                struct learn_host *h = &l->hosts[l->host_count];

                h->reason = wire_u16(&w);
                h->port = wire_u16(&w);
                h->count = wire_u64(&w);
                (void)snprintf(h->host, sizeof h->host, "%s", wire_str(&w));
                (void)snprintf(h->method, sizeof h->method, "%s", wire_str(&w));
                (void)snprintf(h->path, sizeof h->path, "%s", wire_str(&w));
        }
        l->more = wire_u64(&w);
        l->unread = wire_u64(&w);
        l->more_hosts = wire_u64(&w);
        for (uint32_t words = wire_u32(&w); words > 0 && wire_ok(&w); words--) {
                buf_str(&l->command, l->command.size > 0 ? " " : "");
                wish_comment(&l->command, wire_str(&w));
        }
        return wire_end(&w) && wire_ok(&w) ? wish_hosts(&l->wishes, l->hosts, l->host_count) : -EBADMSG;
}

/* ---- what speaks against a wish ---- */

static void against(struct wish *w, bool warn, const char *why) {
        (void)snprintf(w->clause, sizeof w->clause, "%.300s", why);
        w->why = w->clause;
        w->warn = warn;
}

/* A folder that was only looked for on the way to something in it is not wanted itself. */
static bool on_the_way(const struct lesson *l, const struct wish *w) {
        if (w->key != WISH_READ || !(w->flags & LEARN_FOLDER) || (w->flags & LEARN_USED))
                return false;
        for (size_t i = 0; i < l->wishes.count; i++) {
                const struct wish *other = &l->wishes.items[i];

                if (other != w && other->key != WISH_ALLOW && wish_below(other->path, w->path) &&
                    (!str_eq(other->path, w->path) || other->key == WISH_WRITE))
                        return true;
        }
        return false;
}

static void weigh(const struct lesson *l, struct wish *w) {
        const char *secret = wish_sensitive(w->path);

        if (!secret && w->real[0])
                secret = wish_sensitive(w->real);
        if (w->flags & LEARN_STOCKADE)
                secret = "Stockade's own files, which decide what later sandboxes may do";
        if (on_the_way(l, w))
                w->dropped = true;
        else if (w->key == WISH_NOTHING) {
                if (w->flags & LEARN_DEVICE)
                        against(w, true, "a device of the host: 'devices' in a profile shows it");
                else if (w->kind == LEARN_CONNECT)
                        against(w, true,
                                secret ? secret : "--ro shares a socket: a way out, as wide as what its listener does");
                else
                        against(w, secret != NULL,
                                secret ? secret
                                       : "no profile lets the host's own files be changed: --rw or --workspace do");
        } else if (!wish_plain(w->path))
                against(w, false, "a profile cannot name it: it has bytes that do not show");
        else if (w->key == WISH_WRITE) { /* private and empty: it shows nothing of the host */
                if (w->flags & LEARN_FULL)
                        against(w, false, "a private place would cover what is there; --rw shares the host's own");
        } else if (secret)
                against(w, true, secret);
        else if (w->flags & LEARN_OWN)
                against(w, true,
                        "it was made inside, or comes from a share: the profile does not let that be executed");
        else if ((w->flags & LEARN_FOLDER) && wish_broad(w->path, l->home))
                against(w, true, "a whole part of the host, or a home");
        else if (w->flags & LEARN_UNUSABLE)
                against(w, false, "its permissions would refuse it inside, whatever a profile says");
}

/* ---- trying it on the policy ---- */

static bool covered(const struct policy_strings *list, const char *path) {
        for (size_t i = 0; i < list->count; i++)
                if (wish_below(path, list->items[i]))
                        return true;
        return false;
}

static int try_path(struct policy *p, struct policy_strings *list, const char *path, struct err *err) {
        int r = policy_strings_add(list, path);

        if (r < 0)
                return err_set(err, r, "the list is full");
        r = policy_check(p, err);
        if (r < 0)
                free(list->items[--list->count]);
        return r;
}

static bool placed(const struct policy *p, const char *path) {
        for (size_t i = 0; i < p->files.write_count; i++)
                if (str_eq(p->files.write[i].path, path))
                        return true;
        return false;
}

/* A place covers what is read below it: then neither would be what it says. */
static int try_place(struct policy *p, const char *path, struct err *err) {
        for (size_t i = 0; i < p->files.read.count; i++)
                if (wish_below(p->files.read.items[i], path))
                        return err_set(err, ERR_INPUT,
                                       "a private place would cover '%.100s'; --rw shares the host's own",
                                       p->files.read.items[i]);
        if (p->files.write_count >= POLICY_LIST_MAX)
                return err_set(err, ERR_LIMIT, "the list is full");
        struct policy_place *places = realloc(p->files.write, (p->files.write_count + 1) * sizeof *places);
        if (!places)
                return err_set(err, -ENOMEM, "no memory");
        p->files.write = places;
        places[p->files.write_count] = (struct policy_place){
                .path = strdup(path), .size = POLICY_UNSET, .inodes = POLICY_UNSET};
        if (!places[p->files.write_count].path)
                return err_set(err, -ENOMEM, "no memory");
        p->files.write_count++;
        int r = policy_check(p, err);
        if (r < 0)
                free(places[--p->files.write_count].path);
        return r;
}

static int try_host(const struct lesson *l, const struct wish *w, size_t before, struct err *err) {
        if (l->before.network.allow_count + before >= POLICY_LIST_MAX)
                return err_set(err, ERR_LIMIT, "the list is full");
        if (str_starts(w->text, "{cidr:"))
                return 0;
        return value_check_host(w->path, err);
}

/* Bytes that a line may take: a profile that is too large is none. */
static size_t line_size(const struct wish *w) {
        return (w->why ? 450U : 160U) + (w->merged > 0 ? 600U : 0U) + (w->why ? 4U : 2U) * strlen(w->path) +
               4 * strlen(w->real);
}

static void try_all(struct lesson *l, enum wish_key key) {
        struct policy *p = &l->after;
        size_t hosts = 0;

        for (size_t i = 0; i < l->wishes.count; i++) {
                struct wish *w = &l->wishes.items[i];
                struct err err = {0};
                int r = 0;

                if (w->key != key || w->why || w->dropped)
                        continue;
                if (l->used + line_size(w) > LINES_MAX)
                        r = err_set(&err, ERR_LIMIT, "the profile would be too large");
                else if (key == WISH_READ && covered(&p->files.read, w->path) && !covered(&p->files.hide, w->path))
                        w->dropped = true;
                else if (key == WISH_READ)
                        r = try_path(p, &p->files.read, w->path, &err);
                else if (key == WISH_EXEC && covered(&p->tools.exec, w->path))
                        w->dropped = true;
                else if (key == WISH_EXEC)
                        r = try_path(p, &p->tools.exec, w->path, &err);
                else if (key == WISH_WRITE && placed(p, w->path))
                        w->dropped = true;
                else if (key == WISH_WRITE)
                        r = try_place(p, w->path, &err);
                else if (key == WISH_ALLOW)
                        r = try_host(l, w, hosts++, &err);
                if (r < 0)
                        against(w, false, err.text);
                else if (!w->dropped)
                        l->used += line_size(w);
        }
}

/* ---- printing ---- */

static size_t additions(const struct lesson *l, enum wish_key key) {
        size_t n = 0;

        for (size_t i = 0; i < l->wishes.count; i++)
                n += l->wishes.items[i].key == key && !l->wishes.items[i].why && !l->wishes.items[i].dropped;
        return n;
}

/* The files that a folder stands for, a few of them by name. */
static void print_members(const struct lesson *l, const struct wish *whole, struct buf *out) {
        size_t shown = 0;

        buf_printf(out, "; for %zu: ", whole->merged);
        for (size_t i = 0; i < l->wishes.count && shown < 6; i++)
                if (l->wishes.items[i].into == whole) {
                        const char *name = l->wishes.items[i].path + strlen(whole->path) + 1;
                        char part[84];

                        (void)snprintf(part, sizeof part, "%.80s", name);
                        buf_str(out, shown++ > 0 ? ", " : "");
                        wish_comment(out, part);
                }
        buf_str(out, whole->merged > shown ? ", …" : "");
}

/* The parent's entries of a list, as policy_print has them: lines that begin with "    - " after the key's own. */
static void print_parent(const struct lesson *l, const char *section, const char *key, struct buf *out) {
        char heading[40];
        const char *at = strstr(l->whole.data, section);

        (void)snprintf(heading, sizeof heading, "\n  %s:\n", key);
        at = at ? strstr(at, heading) : NULL;
        for (at = at ? at + strlen(heading) : ""; str_starts(at, "    - "); at += strcspn(at, "\n") + 1)
                buf_printf(out, "%.*s # as before\n", (int)strcspn(at, "\n"), at);
}

static void print_strings(const struct policy_strings *list, struct buf *out) {
        for (size_t i = 0; i < list->count; i++) {
                buf_str(out, "    - ");
                wish_quote(out, list->items[i]);
                buf_str(out, " # as before\n");
        }
}

static void print_additions(const struct lesson *l, enum wish_key key, struct buf *out) {
        for (size_t i = 0; i < l->wishes.count; i++) {
                const struct wish *w = &l->wishes.items[i];

                if (w->key != key || w->why || w->dropped)
                        continue;
                buf_str(out, "    - ");
                if (key == WISH_ALLOW)
                        buf_str(out, w->text);
                else
                        wish_quote(out, w->path);
                buf_str(out, "  # ");
                wish_tried(out, w);
                if (w->merged > 0)
                        print_members(l, w, out);
                if (key == WISH_WRITE)
                        buf_str(out, "; private, empty at first, gone at the end: --rw shares the host's own");
                buf_str(out, "\n");
        }
}

/* A list that options made is said again too, so that the profile stands without them. */
static bool is_said(const struct lesson *l, enum wish_key key, const char *name) {
        for (size_t i = 0; i < l->set_count; i++)
                if (str_starts(l->sets[i], name) && l->sets[i][strlen(name)] == '=')
                        return true;
        return additions(l, key) > 0 || (key == WISH_ALLOW && l->allow_count > 0);
}

static void begin_list(const struct lesson *l, enum wish_key key, const char *name, size_t before, struct buf *out) {
        buf_printf(out, "  %s:%s\n", name, before + additions(l, key) == 0 ? " []" : "");
}

static void print_lists(const struct lesson *l, struct buf *out) {
        bool read = is_said(l, WISH_READ, "files.read"), write = is_said(l, WISH_WRITE, "files.write");

        if (read || write)
                buf_str(out, "\nfiles:\n");
        if (read) {
                begin_list(l, WISH_READ, "read", l->before.files.read.count, out);
                print_strings(&l->before.files.read, out);
                print_additions(l, WISH_READ, out);
        }
        if (write) {
                begin_list(l, WISH_WRITE, "write", l->before.files.write_count, out);
                print_parent(l, "files:\n", "write", out);
                print_additions(l, WISH_WRITE, out);
        }
        if (is_said(l, WISH_EXEC, "tools.exec")) {
                buf_str(out, "\ntools:\n");
                begin_list(l, WISH_EXEC, "exec", l->before.tools.exec.count, out);
                print_strings(&l->before.tools.exec, out);
                print_additions(l, WISH_EXEC, out);
        }
        if (is_said(l, WISH_ALLOW, "network.allow")) {
                buf_str(out, "\nnetwork:\n");
                begin_list(l, WISH_ALLOW, "allow", l->before.network.allow_count, out);
                print_parent(l, "network:\n", "allow", out);
                print_additions(l, WISH_ALLOW, out);
        }
}

static void print_left_out(const struct lesson *l, struct buf *out) {
        static const char *const keys[WISH_KEY_COUNT] = {"files.read", "files.write", "tools.exec", "network.allow",
                                                         ""};
        size_t start = out->size, hidden = 0;
        bool first = true;

        for (size_t i = 0; i < l->wishes.count; i++) {
                const struct wish *w = &l->wishes.items[i];

                if (!w->why || w->dropped)
                        continue;
                if (out->size - start + line_size(w) > LINES_MAX) {
                        hidden++;
                        continue;
                }
                if (first)
                        buf_str(out, "\n# Refused as well, and not allowed above:\n");
                first = false;
                buf_printf(out, "#   %s%s", keys[w->key], keys[w->key][0] ? ": " : "");
                if (w->key == WISH_ALLOW && w->text[0])
                        wish_comment(out, w->text);
                else
                        wish_comment(out, w->path);
                buf_str(out, "   (");
                wish_tried(out, w);
                buf_printf(out, ")\n#     %s", w->warn ? "WARNING: " : "");
                wish_comment(out, w->why);
                buf_str(out, "\n");
        }
        if (l->more + l->more_hosts + hidden > 0)
                buf_printf(out, "\n# %llu more refusals are not listed: there were too many different ones.\n",
                           (unsigned long long)(l->more + l->more_hosts + hidden));
        if (l->unread > 0)
                buf_printf(out, "\n# %llu calls could not be looked at.\n", (unsigned long long)l->unread);
}

static void print_head(const struct lesson *l, struct buf *out) {
        buf_str(out,
                "# What 'stockade run --learn' saw being refused, as a profile that allows it. Nobody has judged yet\n"
                "# whether it should be allowed: read every line, take out what you do not want, then use it with\n"
                "# --profile in the place of the one that it extends, with the other options as before.\n"
                "#\n# Command: ");
        size_t shown = MIN(l->command.size, (size_t)300);
        while (shown > 0 && shown < l->command.size && (l->command.data[shown] & 0xc0) == 0x80)
                shown--; /* not within a character */
        buf_printf(out, "%.*s%s\n", (int)shown, l->command.data ? l->command.data : "",
                   shown < l->command.size ? " …" : "");
        for (size_t i = 0; i < l->set_count; i++)
                if (str_starts(l->sets[i], "files.read=") || str_starts(l->sets[i], "files.write=") ||
                    str_starts(l->sets[i], "tools.exec=") || str_starts(l->sets[i], "network.allow=")) {
                        buf_str(out, "# Leave out --set ");
                        wish_comment(out, l->sets[i]);
                        buf_str(out, " then: that list is in the one below, and the option would replace it.\n");
                }
        buf_str(out, "profile: 1\nname: learned\nextends: ");
        wish_quote(out, l->profile);
        buf_str(out, "\n");
}

/* ---- all of it ---- */

int lesson_resolve(struct lesson *l, struct err *err) {
        int r = profile_load(l->profile, &l->before, NULL, err);

        for (size_t i = 0; r == 0 && i < l->set_count; i++) {
                _cleanup_free_ char *key = strdup(l->sets[i]);
                char *equals = key ? strchr(key, '=') : NULL;

                if (!equals)
                        return err_set(err, ERR_INPUT, "--set '%s' is not KEY=VALUE", l->sets[i]);
                *equals = '\0';
                r = policy_set(&l->before, key, equals + 1, err);
        }
        for (size_t i = 0; r == 0 && i < l->allow_count; i++)
                r = policy_allow(&l->before, l->allows[i], err);
        if (r < 0)
                return r;
        if (policy_copy(&l->before, &l->after) < 0 || policy_print(&l->before, &l->whole) < 0)
                return err_set(err, -ENOMEM, "no memory");
        return 0;
}

int lesson_write(struct lesson *l, struct buf *out, struct err *err) {
        for (size_t i = 0; i < l->wishes.count; i++) {
                struct wish *w = &l->wishes.items[i];

                if (w->key != WISH_ALLOW)
                        weigh(l, w);
                if (!w->why && l->before.sealed)
                        against(w, false, "the profile is sealed: what extends it can only narrow it");
        }
        if (wish_merge(&l->wishes, l->home) < 0)
                return err_set(err, -ENOMEM, "no memory");
        /* programs after the files that have to be seen first */
        for (enum wish_key key = WISH_READ; key < WISH_NOTHING; key++)
                try_all(l, key);
        print_head(l, out);
        print_lists(l, out);
        print_left_out(l, out);
        if (!buf_ok(out) || out->size > PROFILE_FILE_MAX)
                return err_set(err, ERR_LIMIT, "too much was refused to be written down");
        return 0;
}

void lesson_free(struct lesson *l) {
        policy_free(&l->before);
        policy_free(&l->after);
        buf_free(&l->whole);
        buf_free(&l->command);
        wish_free(&l->wishes);
}
