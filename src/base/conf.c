/* stockade.conf. One table says for every key where it is kept, what its value looks like, its default and its sentence
 * for people; parsing, printing and the manual page walk it. Nothing here decides what a key does. */
#include "base/conf.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/fd.h"
#include "base/text.h"

enum kind { PATHS, ADDRESSES, WORDS, DRIVERS, PATH, WORD, YES_NO, COUNT, BYTES, CPUS, TIME, NAME, GROUP, LEVEL, MODE };

static const struct {
        const char *form, *right;
} forms[] = {
        [PATHS] = {"paths", "absolute paths with spaces between them, or nothing"},
        [ADDRESSES] = {"addresses | none", "addresses with ports such as 127.0.0.1:7070 or [::1]:7070, or none"},
        [WORDS] = {"words", "words with spaces between them, or nothing"},
        [DRIVERS] = {"drivers", "some of native, docker, gvisor, microvm and firecracker, each once"},
        [PATH] = {"path", "an absolute path, or nothing"},
        [WORD] = {"word", "one word, or nothing"},
        [YES_NO] = {"yes | no", "yes or no"},
        [COUNT] = {"number", "a whole number such as 128 or 200k"},
        [BYTES] = {"size", "a size such as 64KiB, 500MB or 1GiB"},
        [CPUS] = {"processors", "a number of processors such as 0.5 or 2"},
        [TIME] = {"time", "a time such as 30s, 10m, 24h or 7d"},
        [NAME] = {"name", "a name of letters, digits, '_', '-' and '.'"},
        [GROUP] = {"name | *", "a name of letters, digits, '_', '-' and '.', or * for everybody"},
        [LEVEL] = {"error | warning | info | debug", "error, warning, info or debug"},
        [MODE] = {"cloud | instance", "cloud or instance"},
};
static_assert(ELEMENTSOF(forms) == MODE + 1, "every kind has a row");

static const char ceiling[] = "Ceiling: no sandbox gets more, whatever is asked for";
static const char admission[] = "Admission: when a sandbox more is refused";
static const char sandboxes[] = "Sandboxes: what holds where a request does not say";
static const char api[] = "API: the door for programs elsewhere";
static const char daemons[] = "Daemons";

/* What programs need of the host and the built-in profiles bind. */
#define READABLE                                                                                                       \
        "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc/alternatives /etc/bash.bashrc /etc/chromium.d /etc/fonts "    \
        "/etc/java-11-openjdk /etc/java-17-openjdk /etc/java-21-openjdk /etc/ld.so.cache /etc/localtime "              \
        "/etc/mime.types /etc/os-release /etc/pki/ca-trust/extracted /etc/protocols /etc/services /etc/ssl/certs "     \
        "/etc/ssl/openssl.cnf"

#define AT(field) #field, offsetof(struct conf, field)
#define CEILING   .section = ceiling, .infinite = "unlimited"
#define ADMIT     .section = admission, .zero = "host", .standard = "host"
#define OWNER     .section = admission, .infinite = "unlimited"
#define SANDBOX   .section = sandboxes
#define API       .section = api
#define RATE      .section = api, .infinite = "unlimited"
#define DAEMON    .section = daemons

static const struct row {
        const char *name;
        size_t offset;
        enum kind kind;
        uint64_t least, most; /* of a number; most 0: no cap */
        const char *standard; /* the default; NULL for "" */
        const char *about;    /* its sentences */
        const char *section;  /* its heading */
        const char *zero;     /* of a number: the word that stands for 0 */
        const char *infinite; /* and the one that stands for CONF_UNLIMITED */
} rows[] = {
        {AT(ceiling_read), PATHS, .standard = READABLE, CEILING,
         .about = "Host paths that may be shown to a sandbox, read-only, with everything below them."},
        {AT(ceiling_write), PATHS, CEILING, .about = "Host paths that may be shared with a sandbox as writable."},
        {AT(ceiling_devices), PATHS, CEILING,
         .about = "Device nodes that may be given to a sandbox besides null, zero, full, urandom and tty."},
        {AT(ceiling_whole_tree), YES_NO, .standard = "no", CEILING,
         .about = "Whether a sandbox may see the host's whole tree, copy-on-write, as the profile 'high' does. It then "
                  "reads what the host's permissions let everybody read."},
        {AT(ceiling_network), YES_NO, .standard = "yes", CEILING,
         .about = "Whether a sandbox may have a network, through the gate."},
        {AT(docker_socket), PATH, .standard = "/run/docker.sock", CEILING,
         .about = "Where the Docker engine of the driver docker answers. It has to run on the same kernel."},
        {AT(docker_runtime), WORD, CEILING,
         .about = "The runtime that the engine is asked for: one of those that 'docker info' lists, and one whose "
                  "containers are processes of this kernel, as runc's are. Nothing: the engine's own choice."},
        {AT(ceiling_memory), BYTES, 1 << 20, .standard = "16GiB", CEILING, .about = "Memory of one sandbox."},
        {AT(ceiling_cpus), CPUS, 1, .standard = "16", CEILING, .about = "Processors of one sandbox."},
        {AT(ceiling_processes), COUNT, 1, .standard = "16k", CEILING, .about = "Processes and threads of one sandbox."},
        {AT(ceiling_disk), BYTES, 1 << 20, .standard = "64GiB", CEILING, .about = "Size of one disk."},
        {AT(ceiling_inodes), COUNT, 64, .standard = "8M", CEILING, .about = "Files and folders on one disk."},

        {AT(max_sandboxes), COUNT, 1, ADMIT, .about = "Sandboxes on this host that are not stopped. host: 1,024."},
        {AT(max_memory), BYTES, 1 << 20, ADMIT,
         .about = "Memory of all running sandboxes together, counted by what each may use. host: 64 times what the "
                  "host has, since sandboxes seldom use what they may."},
        {AT(max_cpus), CPUS, 1, ADMIT,
         .about = "Processors of all running sandboxes together, counted in the same way. host: 1,024 times what the "
                  "host has."},
        {AT(max_disk), BYTES, 1 << 20, ADMIT,
         .about = "Space of all disks, snapshots, images and kept output together. host: as much as fits; "
                  "disk_reserve guards the rest."},
        {AT(owner_sandboxes), COUNT, 1, ADMIT,
         .about = "max_sandboxes for each owner by itself. host: no less than for all."},
        {AT(owner_memory), BYTES, 1 << 20, ADMIT,
         .about = "max_memory for each owner by itself. host: no less than for all."},
        {AT(owner_cpus), CPUS, 1, ADMIT, .about = "max_cpus for each owner by itself. host: no less than for all."},
        {AT(owner_disk), BYTES, 1 << 20, ADMIT,
         .about = "max_disk for each owner by itself. host: no less than for all."},
        {AT(owner_logs), BYTES, 1 << 20, OWNER, .standard = "1GiB",
         .about = "Output of runs that is kept of each owner. When there is more, the oldest goes first."},
        {AT(owner_snapshots), COUNT, 1, OWNER, .standard = "1k", .about = "Snapshots of each owner."},
        {AT(owner_images), COUNT, 1, OWNER, .standard = "100", .about = "Images of each owner."},
        {AT(owner_keys), COUNT, 1, OWNER, .standard = "5k",
         .about = "Requests with an idempotency key whose answers are kept, of each owner. They go after a day."},
        {AT(owner_clients), COUNT, 1, 60000, .section = admission, .standard = "256",
         .about = "Connections to the local socket that each user may have open. root and the operator's own user may "
                  "have as many as there are."},
        {AT(owner_watchers), COUNT, 1, OWNER, .standard = "128",
         .about = "Readers of events and watchers of files that each owner may have at the same time."},
        {AT(disk_reserve), BYTES, .standard = "1GiB", .section = admission,
         .about = "Free space of the state folder's file system below which sandboxes that write are paused and new "
                  "disks are refused."},

        {AT(drivers), DRIVERS, .standard = "native", SANDBOX,
         .about = "Ways of isolation that are offered: native, docker, gvisor, microvm, firecracker. The first that a "
                  "sandbox's policy can have is taken where nobody asks for another; 'stockade doctor' says which of "
                  "them work on this host."},
        {AT(profile), NAME, 1, .standard = "low", SANDBOX, .about = "The profile of a sandbox that names none."},
        {AT(idle), TIME, 1000, .standard = "never", .infinite = "never", SANDBOX,
         .about = "A sandbox without a run for so long is stopped, unless its profile says otherwise."},
        {AT(lifetime), TIME, 1000, .standard = "never", .infinite = "never", SANDBOX,
         .about = "A sandbox is stopped when it has existed for so long, unless its profile says otherwise."},
        {AT(pool), COUNT, 0, 256, "2", SANDBOX,
         .about = "Sandboxes that are kept ready for each profile in use, so that the next one starts at once. 0: "
                  "none."},
        {AT(pool_drivers), DRIVERS, .standard = "native", SANDBOX,
         .about = "Drivers whose sandboxes are kept ready so, among those of 'drivers'. A sandbox that waits has its "
                  "memory: in a machine at least 100 MB."},
        {AT(snapshot_pause), TIME, 100, 24ULL * 3600 * 1000, "30s", SANDBOX,
         .about = "A running sandbox stands still while its disk is copied for a snapshot; if that takes longer than "
                  "this, it goes on and the snapshot is refused."},
        {AT(require_recording), YES_NO, .standard = "yes", SANDBOX,
         .about = "Whether sandboxes are refused, and running ones paused, while the ledger cannot be written."},

        {AT(listen), ADDRESSES, .standard = "none", API,
         .about = "Where HTTP is spoken, at most four. Port 0: the kernel chooses, and 'stockade health' says which."},
        {AT(hosts), WORDS, API,
         .about = "Names, with their port unless it is 80 or 443, that clients may call us by besides the addresses: "
                  "api.example.org. Requests that name another host are refused."},
        {AT(origins), WORDS, API, .about = "Origins of web pages that may use the API: https://app.example.org."},
        {AT(frames), WORDS, API, .about = "Origins of web pages that may show our pages in a frame."},
        {AT(proxies), WORDS, API,
         .about = "Addresses of proxies that are believed about the address of whoever they ask for "
                  "(X-Forwarded-For)."},
        {AT(operators), WORDS, API, .about = "Wallets (0x…) that act for all owners."},
        {AT(wallets), WORDS, API,
         .about = "Wallets (0x…) that may sign in besides the operators, at most 32. *: every wallet, and so everybody "
                  "who can connect, also users of this host who are not in local_group."},
        {AT(url), WORD, API,
         .about = "The address that people know us by, which stands in the texts that they sign: "
                  "https://api.example.org. Empty: the first of listen."},
        {AT(ports_domain), WORD, API,
         .about =
                 "The domain of host names for ports of sandboxes, for browser tabs: {port}-{id}.ports.example.org. It "
                 "must be a domain of its own, with a wildcard entry that points here."},
        {AT(chain), COUNT, 1, .standard = "1", API, .about = "The chain that stands in the texts that are signed."},
        {AT(plain_sign_in), YES_NO, .standard = "no", API,
         .about = "Whether the older text is offered, which names no domain and can be relayed by others."},
        {AT(session), TIME, 1000, 7ULL * 86400 * 1000, "1h", API, .about = "How long a session lasts."},
        {AT(session_secret_file), PATH, API,
         .about =
                 "A file with at least 32 bytes that the keys for sessions, capabilities and stored secrets of "
                 "sandboxes are made from. Empty: SESSION_AUTH_SECRET of the daemon's environment; without that, where "
                 "only this host can connect, session.secret in the state folder, which is made at the first start."},
        {AT(session_secret_previous), PATHS, API,
         .about = "Files with the session secrets that were before it, at most six. Sessions and capabilities that "
                  "they made stay good until they expire, and stored secrets of sandboxes are wrapped by the current "
                  "one as soon as the daemon, or its operator, starts with it; 'stockade health' says when that is "
                  "done. A file may be dropped then, when what it made has expired."},
        {AT(certificate), PATH, API,
         .about = "A file with the certificate of the API in PEM, and those between it and the root behind it: every "
                  "address of listen then speaks TLS 1.2 or 1.3 and nothing else. A new one is taken up within ten "
                  "seconds. Empty: no TLS."},
        {AT(certificate_key), PATH, API,
         .about = "The file with its private key in PEM, without a passphrase. It belongs to root or to whoever runs "
                  "the daemon, with mode 0600 or 0400."},
        {AT(rate_auth), COUNT, 1, .standard = "10", RATE,
         .about = "Requests to sign in that one address may make in a minute."},
        {AT(rate_write), COUNT, 1, .standard = "30", RATE, .about = "Other requests that change something."},
        {AT(rate_sandbox), COUNT, 1, .standard = "300", RATE, .about = "Requests that do something in a sandbox."},
        {AT(rate_read), COUNT, 1, .standard = "120", RATE, .about = "Requests that only read."},
        {AT(rate_owner), COUNT, 1, .standard = "1200", RATE,
         .about = "Requests of one owner in a minute, from wherever they come."},
        {AT(connections), COUNT, 8, 60000, "4k", API, .about = "Connections at the same time."},
        {AT(connections_address), COUNT, 1, 60000, "512", API,
         .about = "Connections of one address; addresses of proxies have no such limit. Of the requests that are open "
                  "at the same time one owner has at most half as many, and his machines a quarter."},
        {AT(mode), MODE, .standard = "cloud", API,
         .about = "cloud: whoever may sign in makes sandboxes on demand. instance: there is one sandbox, which is made "
                  "at the start, made again if it is gone, and reached at /api/sandbox; nobody makes another one "
                  "through the API."},
        {AT(instance_name), NAME, 1, .standard = "instance", API, .about = "The name of the one sandbox."},
        {AT(instance_owner), WORD, API,
         .about = "Who owns it: the address of a wallet, or uid:1000. Empty: the user who runs the daemon, whom "
                  "'stockade sign-in' lets in."},
        {AT(instance_profile), NAME, API, .about = "Its profile. Empty: as 'profile' says."},
        {AT(instance_image), NAME, API, .about = "The image below it. Empty: what its profile says."},
        {AT(network_name), WORD, API, .about = "The network that this operator belongs to, as the API shows it."},
        {AT(service_id), COUNT, API, .about = "The service that it belongs to, as the API shows it.", .standard = "0"},
        {AT(blueprint_id), COUNT, API, .about = "The blueprint of that service, likewise.", .standard = "0"},
        {AT(managing_operator), WORD, API, .about = "The address of the operator on that network, likewise."},
        {AT(ssh_listen), ADDRESSES, .standard = "none", API,
         .about = "Where SSH is spoken, at most four: 'ssh -p PORT SANDBOX@HOST', with keys that 'stockade ssh-key' "
                  "lets in. none: nowhere."},

        {AT(operator_user), NAME, DAEMON,
         .about = "The user that the operator runs as. Empty: a number of our own; without root, the user who started "
                  "it."},
        {AT(gate_user), NAME, DAEMON, .about = "The user that the gates run as. Empty: as for operator_user."},
        {AT(local_group), GROUP, .standard = "stockade", DAEMON,
         .about = "The group whose members may use the local socket of a daemon that root runs, besides root. A group "
                  "that does not exist has no members. *: every user of the host."},
        {AT(log_level), LEVEL, .standard = "info", DAEMON, .about = "What is worth a line in the log."},
};

static enum text_unit unit_of(enum kind k) {
        switch (k) {
        case BYTES:
                return TEXT_BYTES;
        case CPUS:
                return TEXT_CPUS;
        case TIME:
                return TEXT_TIME;
        case PATHS:
        case ADDRESSES:
        case WORDS:
        case DRIVERS:
        case PATH:
        case WORD:
        case YES_NO:
        case COUNT:
        case NAME:
        case GROUP:
        case LEVEL:
        case MODE:
        default:
                return TEXT_COUNT;
        }
}

static bool is_number(enum kind k) {
        return k == COUNT || k == BYTES || k == CPUS || k == TIME;
}

/* The word that may stand instead of the number; NULL if there is none. */
static const char *word_of(const struct row *r) {
        return !is_number(r->kind) ? NULL : r->zero ? r->zero : r->infinite;
}

static void *field(struct conf *c, const struct row *r) {
        return (char *)c + r->offset;
}

/* --- one value ------------------------------------------------------------------------------------------------ */

static bool is_driver(const char *item) {
        static const char *const names[] = {"native", "docker", "gvisor", "microvm", "firecracker"};

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (str_eq(item, names[i]))
                        return true;
        return false;
}

static bool is_repeated(const struct conf_list *l) {
        for (size_t i = 0; i + 1 < l->count; i++)
                if (str_eq(l->items[i], l->items[l->count - 1]))
                        return true;
        return false;
}

static int take_item(enum kind kind, const char *item, struct err *err) {
        union endpoint e;

        switch ((int)kind) {
        case PATHS:
                return text_check_path(item, err);
        case ADDRESSES:
                return endpoint_parse(item, &e, err);
        case DRIVERS:
                return is_driver(item) ? 0 : err_set(err, ERR_INPUT, "there is no driver '%.40s'", item);
        default:
                for (const char *p = item; *p; p++)
                        if (*p < '!' || *p > '~' || strchr("\"'\\;,", *p))
                                return err_set(err, ERR_INPUT, "'%.40s' has characters that do not belong here", item);
                return 0;
        }
}

static int take_list(enum kind kind, const char *value, struct conf_list *ret, struct err *err) {
        memset(ret, 0, sizeof *ret); /* so that two that mean the same are the same bytes */
        if (kind == ADDRESSES && str_eq(value, "none"))
                return 0;
        for (const char *p = value + strspn(value, " \t"); *p; p += strspn(p, " \t")) {
                size_t n = strcspn(p, " \t");

                if (ret->count == (kind == ADDRESSES ? 4 : CONF_LIST_MAX))
                        return err_set(err, ERR_LIMIT, "more than %zu of them", ret->count);
                if (n >= CONF_TEXT)
                        return err_set(err, ERR_LIMIT, "a %s of more than %d bytes", kind == PATHS ? "path" : "word",
                                       CONF_TEXT - 1);
                char *item = ret->items[ret->count++];
                memcpy(item, p, n);
                item[n] = '\0';
                int r = take_item(kind, item, err);
                if (r == 0 && kind == DRIVERS && is_repeated(ret))
                        r = err_set(err, ERR_INPUT, "'%.40s' is there twice", item);
                if (r < 0)
                        return r;
                p += n;
        }
        if (kind == DRIVERS && ret->count == 0)
                return err_set(err, ERR_INPUT, "there is no driver");
        if (kind == ADDRESSES && ret->count == 0)
                return err_set(err, ERR_INPUT, "there is no address");
        return 0;
}

/* One, or none. */
static int take_one(enum kind kind, const char *value, char *ret, struct err *err) {
        if (strlen(value) >= CONF_TEXT || strpbrk(value, " \t"))
                return err_set(err, ERR_INPUT, "'%.40s' is not %s", value, forms[kind].right);
        int r = value[0] ? take_item(kind == PATH ? PATHS : WORDS, value, err) : 0;
        if (r == 0) {
                memset(ret, 0, CONF_TEXT);
                memcpy(ret, value, strlen(value));
        }
        return r;
}

static int take_number(const struct row *r, const char *value, uint64_t *ret, struct err *err) {
        char least[32];

        if (r->zero && str_eq(value, r->zero)) {
                *ret = 0;
                return 0;
        }
        if (r->infinite && str_eq(value, r->infinite)) {
                *ret = CONF_UNLIMITED;
                return 0;
        }
        int e = text_parse(value, unit_of(r->kind), ret, err);
        if (e < 0)
                return e;
        if (*ret < r->least)
                return err_set(err, ERR_INPUT, "'%.40s' is too small: %s is the least", value,
                               text_format(least, sizeof least, unit_of(r->kind), r->least));
        if (r->most > 0 && *ret > r->most)
                return err_set(err, ERR_INPUT, "'%.40s' is too large: %llu is the most", value,
                               (unsigned long long)r->most);
        return 0;
}

static int take_name(const struct row *r, const char *value, char *ret, struct err *err) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
        size_t n = strlen(value);

        bool all = r->kind == GROUP && str_eq(value, "*");
        if (!all &&
            (n < r->least || n >= CONF_TEXT || value[strspn(value, letters)] || value[0] == '-' || value[0] == '.'))
                return err_set(err, ERR_INPUT, "'%.40s' is not %s", value, forms[r->kind].right);
        memset(ret, 0, CONF_TEXT);
        memcpy(ret, value, n);
        return 0;
}

/* One of a few words. */
static int take_choice(enum kind kind, const char *value, char *ret, struct err *err) {
        static const struct {
                enum kind kind;
                const char *word;
        } words[] = {{LEVEL, "error"}, {LEVEL, "warning"}, {LEVEL, "info"},
                     {LEVEL, "debug"}, {MODE, "cloud"},    {MODE, "instance"}};

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (words[i].kind == kind && str_eq(words[i].word, value)) {
                        memset(ret, 0, CONF_TEXT);
                        memcpy(ret, value, strlen(value));
                        return 0;
                }
        return err_set(err, ERR_INPUT, "'%.40s' is not %s", value, forms[kind].right);
}

static int take(const struct row *r, const char *value, struct conf *c, struct err *err) {
        switch (r->kind) {
        case PATHS:
        case ADDRESSES:
        case WORDS:
        case DRIVERS:
                return take_list(r->kind, value, field(c, r), err);
        case PATH:
        case WORD:
                return take_one(r->kind, value, field(c, r), err);
        case YES_NO:
                if (!str_eq(value, "yes") && !str_eq(value, "no"))
                        return err_set(err, ERR_INPUT, "'%.40s' is not %s", value, forms[YES_NO].right);
                *(bool *)field(c, r) = value[0] == 'y';
                return 0;
        case COUNT:
        case BYTES:
        case CPUS:
        case TIME:
                return take_number(r, value, field(c, r), err);
        case NAME:
        case GROUP:
                return take_name(r, value, field(c, r), err);
        case LEVEL:
        case MODE:
                return take_choice(r->kind, value, field(c, r), err);
        default:
                return err_set(err, ERR_INPUT, "nothing is accepted here");
        }
}

/* --- a file --------------------------------------------------------------------------------------------------- */

static const struct row *find(const char *name, const char **ret_nearest) {
        unsigned best = 4; /* farther than three edits is another word */

        *ret_nearest = NULL;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (str_eq(rows[i].name, name))
                        return &rows[i];
                unsigned distance = text_distance(rows[i].name, name);
                if (distance < best && distance < strlen(name)) {
                        best = distance;
                        *ret_nearest = rows[i].name;
                }
        }
        return NULL;
}

static int unknown_key(const char *name, const char *nearest, struct err *err) {
        (void)err_set(err, ERR_INPUT, "unknown key '%.60s'", name);
        return nearest ? err_hint(err, "did you mean '%s'?", nearest)
                       : err_hint(err, "stockade.conf(5) lists the keys; so does 'stockade up --print-config'");
}

/* Cuts blanks at both ends, in place. */
static char *trim(char *s) {
        s += strspn(s, " \t\r");
        for (size_t n = strlen(s); n > 0 && strchr(" \t\r", s[n - 1]); n--)
                s[n - 1] = '\0';
        return s;
}

static int parse_line(char *line, struct conf *c, bool *seen, struct err *err) {
        const char *nearest;

        /* a comment begins the line or follows a blank: a path may have the sign inside */
        for (char *p = line; (p = strchr(p, '#')); p++)
                if (p == line || p[-1] == ' ' || p[-1] == '\t') {
                        *p = '\0';
                        break;
                }
        line = trim(line);
        if (*line == '\0')
                return 0;
        char *equals = strchr(line, '=');
        if (!equals) {
                (void)err_set(err, ERR_INPUT, "'%.60s' is not 'key = value'", line);
                return err_hint(err, "write for example: profile = low");
        }
        *equals = '\0';
        const char *name = trim(line), *value = trim(equals + 1);
        const struct row *r = find(name, &nearest);
        if (!r)
                return unknown_key(name, nearest, err);
        if (seen[r - rows]) {
                (void)err_set(err, ERR_INPUT, "'%s' is set a second time", name);
                return err_hint(err, "keep one of the two lines");
        }
        seen[r - rows] = true;
        int e = take(r, value, c, err);
        if (e < 0) {
                const char *word = word_of(r);

                (void)err_prefix(err, e, "%s", name);
                (void)err_hint(err, "right would be %s%s%s", forms[r->kind].right, word ? ", or " : "",
                               word ? word : "");
        }
        return e;
}

int conf_parse(const char *label, const char *text, struct conf *c, struct err *err) {
        _cleanup_free_ struct conf *trial = malloc(sizeof *trial);
        bool seen[ELEMENTSOF(rows)] = {false};
        size_t number = 1;

        if (!trial)
                return err_set(err, -ENOMEM, "cannot read '%s'", label);
        *trial = *c;
        for (const char *p = text; *p; number++) {
                size_t n = strcspn(p, "\n");
                _cleanup_free_ char *line = strndup(p, n);

                if (!line)
                        return err_set(err, -ENOMEM, "cannot read '%s'", label);
                int r = parse_line(line, trial, seen, err);
                if (r < 0)
                        return err_prefix(err, r, "%s:%zu", label, number);
                p += n + (p[n] == '\n');
        }
        *c = *trial;
        return 0;
}

void conf_defaults(struct conf *c) {
        memset(c, 0, sizeof *c);
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                int r = take(&rows[i], rows[i].standard ? rows[i].standard : "", c, NULL);

                assert(r == 0);
                (void)r;
        }
}

int conf_load_fd(int fd, const char *label, struct conf *ret, struct err *err) {
        _cleanup_free_ char *text = malloc(CONF_SIZE_MAX + 1);
        size_t size = 0;

        if (!text)
                return err_set(err, -ENOMEM, "cannot read '%s'", label);
        for (;;) {
                ssize_t n = pread(fd, text + size, CONF_SIZE_MAX + 1 - size, (off_t)size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(err, -errno, "cannot read '%s'", label);
                size += (size_t)n;
                if (size > CONF_SIZE_MAX)
                        return err_set(err, ERR_LIMIT, "'%s' is larger than %u bytes", label, CONF_SIZE_MAX);
                if (n == 0)
                        break;
        }
        text[size] = '\0';
        if (strlen(text) != size)
                return err_set(err, ERR_INPUT, "'%s' has a zero byte at position %zu", label, strlen(text));

        _cleanup_free_ struct conf *c = malloc(sizeof *c);
        if (!c)
                return err_set(err, -ENOMEM, "cannot read '%s'", label);
        conf_defaults(c);
        int r = conf_parse(label, text, c, err);
        if (r == 0)
                *ret = *c;
        return r;
}

int conf_load(const char *path, struct conf *ret, struct err *err) {
        struct stat st;

        if (!path) {
                conf_defaults(ret);
                return 0;
        }
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return err_set(err, -errno, "cannot open '%s'", path);
        if (fstat(fd, &st) < 0)
                return err_set(err, -errno, "cannot look at '%s'", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, ERR_INPUT, "'%s' is not a regular file", path);
        if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022)) {
                (void)err_set(err, ERR_REFUSED, "'%s' is refused: somebody else could have written it", path);
                return err_hint(err, "it decides what sandboxes may do: chown it to %s and chmod go-w",
                                geteuid() == 0 ? "root" : "yourself or root");
        }
        return conf_load_fd(fd, path, ret, err);
}

/* --- for people ----------------------------------------------------------------------------------------------- */

bool conf_key(size_t i, struct conf_key *ret) {
        if (i >= ELEMENTSOF(rows))
                return false;
        const struct row *r = &rows[i];
        const char *word = word_of(r);

        *ret = (struct conf_key){r->section, r->name, "", r->standard ? r->standard : "", r->about};
        (void)snprintf(ret->form, sizeof ret->form, "%s%s%s", forms[r->kind].form, word ? " | " : "", word ? word : "");
        return true;
}

static void print_value(const struct conf *c, const struct row *r, char *buf, size_t size) {
        const void *p = (const char *)c + r->offset;
        const struct conf_list *list = p;
        uint64_t number;
        size_t used = 0;

        buf[0] = '\0';
        switch (r->kind) {
        case PATHS:
        case WORDS:
        case DRIVERS:
        case ADDRESSES:
                if (r->kind == ADDRESSES && list->count == 0)
                        (void)snprintf(buf, size, "none");
                for (size_t i = 0; i < list->count && used < size; i++)
                        used += (size_t)snprintf(buf + used, size - used, "%s%s", i > 0 ? " " : "", list->items[i]);
                break;
        case YES_NO:
                (void)snprintf(buf, size, "%s", *(const bool *)p ? "yes" : "no");
                break;
        case COUNT:
        case BYTES:
        case CPUS:
        case TIME:
                memcpy(&number, p, sizeof number);
                if (number == 0 && r->zero)
                        (void)snprintf(buf, size, "%s", r->zero);
                else if (number == CONF_UNLIMITED && r->infinite)
                        (void)snprintf(buf, size, "%s", r->infinite);
                else
                        (void)text_format(buf, size, unit_of(r->kind), number);
                break;
        case PATH:
        case WORD:
        case NAME:
        case GROUP:
        case LEVEL:
        case MODE:
        default:
                (void)snprintf(buf, size, "%s", (const char *)p);
                break;
        }
}

/* As comment lines of at most 100 columns. */
static void print_comment(const char *text, void (*line)(void *data, const char *text), void *data) {
        char out[128];

        while (*text) {
                size_t n = strlen(text);

                if (n > 98)
                        for (n = 98; text[n] != ' ';)
                                n--;
                (void)snprintf(out, sizeof out, "# %.*s", (int)n, text);
                line(data, out);
                text += n + (text[n] == ' ');
        }
}

void conf_print(const struct conf *c, void (*line)(void *data, const char *text), void *data) {
        static const size_t room = CONF_LIST_MAX * CONF_TEXT;
        _cleanup_free_ char *value = malloc(room), *out = malloc(room + 64);
        const char *section = NULL;
        char heading[128];

        if (!value || !out)
                return;
        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                if (section)
                        line(data, "");
                if (rows[i].section != section) {
                        section = rows[i].section;
                        (void)snprintf(heading, sizeof heading, "### %s", section);
                        line(data, heading);
                        line(data, "");
                }
                print_comment(rows[i].about, line, data);
                print_value(c, &rows[i], value, room);
                (void)snprintf(out, room + 64, "%s =%s%s", rows[i].name, value[0] ? " " : "", value);
                line(data, out);
        }
}
