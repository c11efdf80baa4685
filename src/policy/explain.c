/* `stockade profile explain`: what a sandbox with this policy may do, in sentences.
 *
 * Written for a reader who has never seen a profile. Every sentence follows from the policy; nothing is said about what
 * the host happens to have. */
#include <inttypes.h>

#include "policy/field.h"
#include "policy/profile.h"

/* "512 MiB", "10 minutes", "64": a number as one says it. */
static const char *spoken(char *buf, size_t size, enum text_unit unit, uint64_t value) {
        static const struct {
                const char *name, *word;
        } times[] = {{"d", "day"}, {"h", "hour"}, {"ms", "millisecond"}, {"m", "minute"}, {"s", "second"}};
        char text[40];

        (void)text_format(text, sizeof text, unit, value);
        size_t digits = strspn(text, "0123456789.");
        if (unit == TEXT_TIME) {
                for (size_t i = 0; i < ELEMENTSOF(times); i++)
                        if (str_eq(text + digits, times[i].name)) {
                                bool one = digits == 1 && text[0] == '1';

                                (void)snprintf(buf, size, "%.*s %s%s", (int)digits, text, times[i].word,
                                               one ? "" : "s");
                                return buf;
                        }
        }
        if (unit == TEXT_COUNT)
                (void)snprintf(buf, size, "%" PRIu64, value);
        else if (unit == TEXT_RATE && strlen(text) > 2)
                (void)snprintf(buf, size, "%.*s %.*s", (int)digits, text, (int)(strlen(text + digits) - 2),
                               text + digits);
        else
                (void)snprintf(buf, size, "%.*s%s%s", (int)digits, text, text[digits] ? " " : "", text + digits);
        return buf;
}

/* A full line for a number that is set; the format's one %s is the number. */
static void say_number(struct buf *out, enum text_unit unit, uint64_t value, const char *before, const char *after) {
        char text[48];

        if (value != POLICY_UNSET)
                buf_printf(out, "  %s%s%s\n", before, spoken(text, sizeof text, unit, value), after);
}

/* "/usr", "/usr and /etc", "/usr, /etc and /opt" */
static void say_strings(struct buf *out, const struct policy_strings *s) {
        for (size_t i = 0; i < s->count; i++)
                buf_printf(out, "%s%s", i == 0 ? "" : i + 1 < s->count ? ", " : " and ", s->items[i]);
}

static void explain_place(struct buf *out, const struct policy *p, const struct policy_place *place) {
        bool workspace = p->files.workspace.path && str_eq(p->files.workspace.path, place->path);
        char text[48];

        if (str_eq(place->path, "/") && p->image)
                buf_str(out, "  It may change the image's files for itself: the changes are on its own disk.\n");
        else if (str_eq(place->path, "/"))
                buf_str(out, "  It sees the host's files and may change them for itself: the changes are kept apart, "
                             "and the "
                             "host's files stay as they are.\n");
        else
                buf_printf(out, "  It may write in %s, which is its own and empty at first%s.\n", place->path,
                           workspace ? "; it starts there" : "");
        if (place->size != POLICY_UNSET)
                buf_printf(out, "    It can put %s there; a write beyond that fails with \"no space left\".\n",
                           spoken(text, sizeof text, TEXT_BYTES, place->size));
        if (place->inodes != POLICY_UNSET)
                buf_printf(out, "    It can have %s files and folders there.\n",
                           spoken(text, sizeof text, TEXT_COUNT, place->inodes));
}

static void explain_files(struct buf *out, const struct policy *p) {
        struct policy_place places[POLICY_PLACES_MAX];
        size_t count = policy_places(p, places);

        buf_str(out, "Files\n");
        if (p->image)
                buf_printf(out,
                           "  Its system comes from the image %s, which it may change for itself; it sees none of the "
                           "host's files.\n",
                           p->image);
        else if (p->files.read.count == 1 && str_eq(p->files.read.items[0], "/"))
                buf_str(out, "  It may read the host's files, as far as their permissions let it.\n");
        else if (p->files.read.count > 0) {
                buf_str(out, "  It may read the host's ");
                say_strings(out, &p->files.read);
                buf_str(out,
                        " and change nothing there. Besides a few public files of /etc (certificates, fonts, the time "
                        "zone), nothing else of the host exists inside.\n");
        } else
                buf_str(out, "  It sees none of the host's files.\n");
        for (size_t i = 0; i < count; i++)
                explain_place(out, p, &places[i]);
        if (count == 0)
                buf_str(out, "  It may write nowhere.\n");
        if (p->files.hide.count > 0) {
                buf_str(out, "  Hidden, as if empty: ");
                say_strings(out, &p->files.hide);
                buf_str(out, ".\n");
        }
        say_number(out, TEXT_BYTES, p->shm, "Its programs may share ", " of memory through /dev/shm.");
        if (p->devices.count > 0) {
                buf_str(out, "  It may use these devices of the host: ");
                say_strings(out, &p->devices);
                buf_str(out, ".\n");
        }
}

static void explain_programs(struct buf *out, const struct policy *p) {
        buf_str(out, "\nPrograms\n");
        if (!p->tools.exec_set)
                buf_str(out, "  It may run any program that it can see, and programs that it made itself.\n");
        else if (p->tools.exec.count == 0)
                buf_str(out, "  It may run no program at all.\n");
        else {
                buf_str(out, "  It may run these programs, or programs in these folders, and no others: ");
                say_strings(out, &p->tools.exec);
                buf_str(out, ".\n");
        }
        if (p->tools.call.count > 0) {
                buf_str(out, "  It may call these tools: ");
                say_strings(out, &p->tools.call);
                buf_str(out, ".\n");
        }
        if (p->tools.ask.count > 0) {
                buf_str(out, "  It may call these tools after a person says yes: ");
                say_strings(out, &p->tools.ask);
                buf_str(out, ".\n");
        }
        buf_printf(out, "  It runs as the user %s, %s.\n", p->user.name ? p->user.name : "agent",
                   p->user.root == ROOT_NONE ? "and nobody inside is root"
                                             : "with a root of its own over its own files");
        for (size_t i = 0; i < p->env_count; i++)
                buf_printf(out, "%s%s%s", i == 0 ? "  Set in its environment: " : ", ", p->env[i].name,
                           i + 1 == p->env_count ? ".\n" : "");
        static const char *const levels[] = {"a container", "gVisor", "a virtual machine", "confidential hardware"};
        static_assert(ELEMENTSOF(levels) == ISOLATION_TEE + 1, "every level has words");
        buf_printf(out, "  The wall around it is at least %s.\n", levels[p->at_least]);
}

static void explain_reach(struct buf *out, const struct policy_reach *r) {
        if (r->cidr)
                buf_printf(out, "  It may reach addresses in %s", r->cidr);
        else if (str_eq(r->host, "*"))
                buf_str(out, "  It may reach any host by name");
        else if (str_starts(r->host, "*."))
                buf_printf(out, "  It may reach every host below %s", r->host + 2);
        else
                buf_printf(out, "  It may reach %s", r->host);
        if (r->port_count == 0)
                buf_str(out, " on ports 80 and 443");
        else if (r->ports[0] == 0)
                buf_str(out, " on any port");
        for (size_t i = 0; i < r->port_count && r->ports[0] != 0; i++)
                buf_printf(out, "%s%u", i > 0 ? ", " : r->port_count > 1 ? " on ports " : " on port ", r->ports[i]);
        if (r->private)
                buf_str(out, ", also if it is a private address");
        if (r->methods.count > 0) {
                buf_str(out, ", with the requests ");
                say_strings(out, &r->methods);
        }
        if (r->paths.count > 0) {
                buf_str(out, ", for the paths ");
                say_strings(out, &r->paths);
        }
        if (r->secret)
                buf_printf(out, ", using the secret %s without seeing it", r->secret);
        if (r->inspect)
                buf_str(out, ", with every request checked");
        buf_str(out, ".\n");
}

static void explain_network(struct buf *out, const struct policy *p) {
        buf_str(out, "\nNetwork\n");
        if (p->network.allow_count == 0)
                buf_str(out, "  It reaches nothing: no host, no address, not even names.\n");
        for (size_t i = 0; i < p->network.allow_count; i++)
                explain_reach(out, &p->network.allow[i]);
        if (p->network.allow_count > 0)
                buf_str(out, "  Nothing else can be reached; an attempt is refused and recorded.\n");
        if (p->secrets.count > 0) {
                buf_str(out, "  It may use these secrets: ");
                say_strings(out, &p->secrets);
                buf_str(out, ".\n");
        }
}

static void explain_limits(struct buf *out, const struct policy *p) {
        size_t before;

        buf_str(out, "\nLimits\n");
        before = out->size;
        say_number(out, TEXT_CPUS, p->limits.cpus, "It gets the time of at most ",
                   p->limits.cpus == 1000 ? " processor; when it wants more it is slowed down."
                                          : " processors; when it wants more it is slowed down.");
        say_number(out, TEXT_BYTES, p->limits.memory, "When it uses more than ",
                   " of memory the kernel ends the process that asked for it; if that is the command, the record says "
                   "oom.");
        say_number(out, TEXT_COUNT, p->limits.processes, "It may have ",
                   " processes and threads at a time; starting another fails.");
        say_number(out, TEXT_COUNT, p->limits.files, "Each process may have ", " files open; opening another fails.");
        say_number(out, TEXT_RATE, p->limits.disk_read, "It reads at most ",
                   " a second from disk; beyond that it waits.");
        say_number(out, TEXT_RATE, p->limits.disk_write, "It writes at most ",
                   " a second to disk; beyond that it waits.");
        say_number(out, TEXT_BYTES, p->limits.output, "When it prints more than ",
                   " it is ended; the record says output_limit.");
        if (out->size == before)
                buf_str(out, "  None.\n");
}

static void explain_time(struct buf *out, const struct policy *p) {
        size_t before;

        buf_str(out, "\nTime\n");
        before = out->size;
        say_number(out, TEXT_TIME, p->time.run, "A command that takes longer than ",
                   " is ended; the record says timeout.");
        say_number(out, TEXT_TIME, p->time.idle, "After ", " without work the sandbox is stopped.");
        say_number(out, TEXT_TIME, p->time.lifetime, "The sandbox exists for at most ", ".");
        if (out->size == before)
                buf_str(out, "  It may take as long as it likes.\n");

        buf_str(out, "\nBudget\n");
        before = out->size;
        say_number(out, TEXT_TIME, p->budget.cpu, "When it has used ",
                   " of processor time, over all processes, it is ended.");
        say_number(out, TEXT_COUNT, p->budget.tokens, "It may use up ", " model tokens.");
        say_number(out, TEXT_BYTES, p->budget.egress, "It may send ", " over the network.");
        say_number(out, TEXT_MONEY, p->budget.cost_usd, "It may spend ", " US dollars.");
        if (out->size == before)
                buf_str(out, "  None is set.\n");
}

static void explain_rest(struct buf *out, const struct policy *p) {
        if (p->record.exec || p->record.snapshot.count > 0)
                buf_str(out, "\nRecord\n");
        if (p->record.exec)
                buf_str(out, "  Every program that it starts is recorded.\n");
        if (p->record.snapshot.count > 0) {
                buf_str(out, "  A snapshot is taken at each: ");
                say_strings(out, &p->record.snapshot);
                buf_str(out, ".\n");
        }
        if (p->sealed)
                buf_str(out,
                        "\nSealed\n  Profiles that extend this one and options on the command line may take away from "
                        "it and add nothing.\n");
}

static int explain_missing(struct buf *out, const struct policy *p) {
        _cleanup_(policy_strings_free) struct policy_strings missing = {0}, kept = {0};

        int r = policy_missing(p, &missing);
        if (r == 0)
                r = policy_only_daemon(p, &kept);
        if (r < 0)
                return r;
        if (kept.count > 0) {
                buf_str(out, "\nOnly in sandboxes that the daemon keeps\n  ");
                say_strings(out, &kept);
                buf_str(out, ". 'stockade run' refuses a profile that asks for this.\n");
        }
        buf_str(out, "\nNot enforceable yet by this build\n");
        if (missing.count == 0)
                buf_str(out, "  Nothing: all of the above is enforced, or the sandbox does not start.\n");
        else {
                buf_str(out, "  ");
                say_strings(out, &missing);
                buf_str(out, ". Until then a sandbox that asks for this does not start.\n");
        }
        return 0;
}

int policy_explain(const struct policy *p, struct buf *out) {
        buf_printf(out, "A sandbox with the profile %s:\n\n", p->name ? p->name : "(no name)");
        explain_files(out, p);
        explain_programs(out, p);
        explain_network(out, p);
        explain_limits(out, p);
        explain_time(out, p);
        explain_rest(out, p);
        int r = explain_missing(out, p);
        return r < 0 ? r : buf_ok(out) ? 0 : -ENOMEM;
}
