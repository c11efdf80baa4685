/* The table itself, and finding a row. What each column means is said in schema.h. */
#include "policy/schema.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define TIB (1ULL << 40)
#define DAY 86400000ULL

static const char *const isolation_names[] = {"container", "gvisor", "microvm", "tee", NULL};
static const char *const driver_names[] = {"native", "docker", "gvisor", "microvm", "firecracker", NULL};
static const char *const root_names[] = {"none", "namespaced", NULL};
static const char *const snapshot_names[] = {"stop", "task", NULL};

static_assert(ELEMENTSOF(isolation_names) == ISOLATION_TEE + 2, "every isolation level has a name");
static_assert(ELEMENTSOF(root_names) == ROOT_NAMESPACED + 2, "every kind of root has a name");
static_assert(sizeof(enum policy_isolation) == sizeof(unsigned) && sizeof(enum policy_root) == sizeof(unsigned),
              "choices are stored as unsigned");

#define AT(field)       .scope = SCOPE_POLICY, .offset = offsetof(struct policy, field)
#define IN_PLACE(field) .scope = SCOPE_PLACE, .offset = offsetof(struct policy_place, field)
#define IN_REACH(field) .scope = SCOPE_REACH, .offset = offsetof(struct policy_reach, field)

#define NUMBER(u, low, high) .kind = KIND_NUMBER, .unit = (u), .min = (low), .max = (high), .merge = MERGE_REPLACE
#define BOOL                 .kind = KIND_BOOL, .merge = MERGE_REPLACE
#define CHOICE(names)        .kind = KIND_CHOICE, .choices = (names), .merge = MERGE_REPLACE
#define TEXT(fn)             .kind = KIND_TEXT, .check = (fn), .merge = MERGE_REPLACE
#define STRINGS(fn)          .kind = KIND_STRINGS, .check = (fn), .merge = MERGE_REPLACE
#define STRINGS_ADDED(fn)    .kind = KIND_STRINGS, .check = (fn), .merge = MERGE_UNION
#define CHOICES(names)       .kind = KIND_STRINGS, .choices = (names), .merge = MERGE_REPLACE
#define ENTRIES(scope, field)                                                                                          \
        .kind = KIND_ENTRIES, .element = (scope), .merge = MERGE_REPLACE, .count = offsetof(struct policy, field)
#define LATER  .enforce = ENFORCE_LATER
#define DAEMON .enforce = ENFORCE_DAEMON

const struct schema_row schema_rows[] = {
        {"profile", .scope = SCOPE_FILE, .kind = KIND_NUMBER, .unit = TEXT_COUNT, .min = 1, .max = 1,
         .doc = "The version of this format: 1. Required."},
        {"name", AT(name), .kind = KIND_TEXT, .check = value_check_name, .merge = MERGE_OWN,
         .doc = "The profile's name. Absent: the file's name without '.yaml'."},
        {"extends", .scope = SCOPE_FILE, .kind = KIND_TEXT, .check = value_check_extends,
         .doc = "The parent: a profile's name, or a path (with '/' or ending in '.yaml', relative to this file)."},
        {"sealed", AT(sealed), BOOL, .narrow = NARROW_RISE,
         .doc = "Whether profiles that extend this one, and options on the command line, may only narrow it."},

        {"isolation.at_least", AT(at_least), CHOICE(isolation_names), .narrow = NARROW_RISE, .enforce = ENFORCE_DRIVER,
         .doc = "The weakest isolation that is acceptable, from a container to confidential hardware."},
        {"isolation.prefer", AT(prefer), CHOICES(driver_names), .narrow = NARROW_FREE, .enforce = ENFORCE_DRIVER,
         .doc = "Drivers in order of preference, among those that give at least that isolation."},

        {"files.workspace.path", AT(files.workspace.path), TEXT(value_check_path), .narrow = NARROW_PLACES,
         .doc = "The folder that the command starts in; it is writable, private and empty at first."},
        {"files.workspace.size", AT(files.workspace.size), NUMBER(TEXT_BYTES, 4 * KIB, 1024 * TIB),
         .narrow = NARROW_PLACES, .doc = "Bytes that the workspace can hold."},
        {"files.workspace.inodes", AT(files.workspace.inodes), NUMBER(TEXT_COUNT, 8, 1000000000),
         .narrow = NARROW_PLACES, .doc = "Files and folders that the workspace can hold."},
        {"files.read", AT(files.read), STRINGS(value_check_path), .narrow = NARROW_PATHS,
         .doc = "Paths of the host that can be read inside, at the same place."},
        {"files.write", AT(files.write), ENTRIES(SCOPE_PLACE, files.write_count), .narrow = NARROW_PLACES,
         .doc = "Places that can be written, private and empty at first. '/', which files.read must list too, is the "
                "host's whole tree, copy-on-write. An entry is a path, or a map with the keys below."},
        {"files.write[].path", IN_PLACE(path), TEXT(value_check_path), .doc = "Where the place is. Required."},
        {"files.write[].size", IN_PLACE(size), NUMBER(TEXT_BYTES, 4 * KIB, 1024 * TIB),
         .doc = "Bytes that it can hold."},
        {"files.write[].inodes", IN_PLACE(inodes), NUMBER(TEXT_COUNT, 8, 1000000000),
         .doc = "Files and folders that it can hold."},
        {"files.hide", AT(files.hide), STRINGS_ADDED(value_check_path), .narrow = NARROW_FREE,
         .doc = "Paths that appear empty and cannot be written, although a path above them is listed."},

        {"network.allow", AT(network.allow), ENTRIES(SCOPE_REACH, network.allow_count), .narrow = NARROW_REACH,
         .doc = "What can be reached over the network; nothing else can. An entry is a map with the keys below."},
        {"network.allow[].host", IN_REACH(host), TEXT(value_check_host), .settle = value_settle_host,
         .doc = "A host name, '*.' and a name for every name below it, or '*' for any name."},
        {"network.allow[].cidr", IN_REACH(cidr), TEXT(value_check_cidr),
         .doc = "A block of addresses, instead of a host."},
        {"network.allow[].ports", IN_REACH(ports), .kind = KIND_PORTS, .merge = MERGE_REPLACE,
         .count = offsetof(struct policy_reach, port_count),
         .doc = "TCP ports, at most 16, or any. Absent: 80 and 443."},
        {"network.allow[].private", IN_REACH(private), BOOL,
         .doc = "Whether addresses that are not public may be reached: private networks, carrier-grade NAT and "
                "link-local "
                "ones. Loopback and the host's own addresses, public ones too, only where host is an exact name, "
                "without "
                "a wildcard; metadata services, multicast and other special addresses never by name, only as a literal "
                "address that a cidr with private: true covers."},
        {"network.allow[].inspect", IN_REACH(inspect), BOOL,
         .doc = "Whether TLS is opened and every request checked; methods, paths and secret imply it."},
        {"network.allow[].methods", IN_REACH(methods), STRINGS(value_check_method),
         .doc = "HTTP methods that may be used. Absent: any."},
        {"network.allow[].paths", IN_REACH(paths), STRINGS(value_check_url),
         .doc = "HTTP paths that may be requested; a '*' at the end stands for anything. Absent: any."},
        {"network.allow[].secret", IN_REACH(secret), TEXT(value_check_variable),
         .doc = "A secret that is put into requests on their way out; its value is never inside."},

        {"tools.exec", AT(tools.exec), STRINGS(value_check_path), .flag = offsetof(struct policy, tools.exec_set),
         .narrow = NARROW_PATHS, .enforce = ENFORCE_EXEC,
         .doc = "Programs that may be executed, or folders whose programs may. Absent: any that is visible."},
        {"tools.call", AT(tools.call), STRINGS(value_check_tool), .narrow = NARROW_SUBSET, LATER,
         .doc = "Brokered tools that may be called."},
        {"tools.ask", AT(tools.ask), STRINGS_ADDED(value_check_tool), .narrow = NARROW_ASK, LATER,
         .doc = "Brokered tools that may be called after a person says yes, each time; also if tools.call has them."},

        {"limits.cpus", AT(limits.cpus), NUMBER(TEXT_CPUS, 10, 4096000), .narrow = NARROW_LIMIT,
         .doc = "Processors' worth of time, together."},
        {"limits.memory", AT(limits.memory), NUMBER(TEXT_BYTES, MIB, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Memory of all processes and of files kept in memory, together; there is no swap."},
        {"limits.processes", AT(limits.processes), NUMBER(TEXT_COUNT, 1, 4000000), .narrow = NARROW_LIMIT,
         .doc = "Processes and threads at one time."},
        {"limits.files", AT(limits.files), NUMBER(TEXT_COUNT, 16, 1000000), .narrow = NARROW_LIMIT,
         .doc = "Open files per process."},
        {"limits.disk_read", AT(limits.disk_read), NUMBER(TEXT_RATE, 4 * KIB, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Bytes read from disk a second."},
        {"limits.disk_write", AT(limits.disk_write), NUMBER(TEXT_RATE, 4 * KIB, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Bytes written to disk a second."},
        {"limits.output", AT(limits.output), NUMBER(TEXT_BYTES, 0, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Bytes of standard output and error, together."},
        {"limits.connections", AT(limits.connections), NUMBER(TEXT_COUNT, 1, 1000000), .narrow = NARROW_LIMIT,
         .doc = "Network connections at one time. Absent: as many as the gate has room for."},
        {"limits.lookups", AT(limits.lookups), NUMBER(TEXT_COUNT, 1, 1000000), .narrow = NARROW_LIMIT,
         .doc = "Names that may be looked up a second. Absent: 500."},
        {"limits.bandwidth", AT(limits.bandwidth), NUMBER(TEXT_RATE, 4 * KIB, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Bytes a second over the network, each way."},

        {"time.run", AT(time.run), NUMBER(TEXT_TIME, 1, 3650 * DAY), .narrow = NARROW_LIMIT,
         .doc = "How long one command may take."},
        {"time.idle", AT(time.idle), NUMBER(TEXT_TIME, 1000, 3650 * DAY), .narrow = NARROW_LIMIT, DAEMON,
         .doc = "How long a sandbox may have nothing to do before it is stopped."},
        {"time.lifetime", AT(time.lifetime), NUMBER(TEXT_TIME, 1000, 3650 * DAY), .narrow = NARROW_LIMIT,
         .doc = "How long a sandbox may exist."},

        {"budget.tokens", AT(budget.tokens), NUMBER(TEXT_COUNT, 0, 1000000000000000), .narrow = NARROW_LIMIT, LATER,
         .doc = "Model tokens that may be used up."},
        {"budget.cpu", AT(budget.cpu), NUMBER(TEXT_TIME, 1, 3650 * DAY), .narrow = NARROW_LIMIT,
         .doc = "Processor time that may be used up, over all processes."},
        {"budget.egress", AT(budget.egress), NUMBER(TEXT_BYTES, 0, 1024 * TIB), .narrow = NARROW_LIMIT,
         .doc = "Bytes that may be sent over the network."},
        {"budget.cost_usd", AT(budget.cost_usd), NUMBER(TEXT_MONEY, 0, 100000000000), .narrow = NARROW_LIMIT, LATER,
         .doc = "US dollars that may be spent."},

        {"record.exec", AT(record.exec), BOOL, .narrow = NARROW_RISE, LATER,
         .doc = "Whether every program that is executed is recorded."},
        {"record.snapshot", AT(record.snapshot), CHOICES(snapshot_names), .narrow = NARROW_GROW, DAEMON,
         .doc = "When a snapshot is taken by itself."},

        {"image", AT(image), TEXT(value_check_image), .narrow = NARROW_KEEP, DAEMON,
         .doc = "The image that the sandbox's tree comes from. Absent: the host's own, as files.read lists it."},
        {"user.name", AT(user.name), TEXT(value_check_user), .narrow = NARROW_KEEP,
         .doc = "The user's name inside. Absent: agent."},
        {"user.root", AT(user.root), CHOICE(root_names), .narrow = NARROW_FALL, LATER,
         .doc = "Whether there is a root inside, over a tree of its own, that may install packages."},
        {"env", AT(env), .kind = KIND_ENV, .count = offsetof(struct policy, env_count), .merge = MERGE_MAP,
         .narrow = NARROW_KEEP, .doc = "Environment variables: a map of names and values."},
        {"secrets", AT(secrets), STRINGS(value_check_variable), .narrow = NARROW_SUBSET, .enforce = ENFORCE_SECRET,
         .doc = "Names of secrets that the sandbox may use, each by a rule of network.allow."},
        {"devices", AT(devices), STRINGS(value_check_device), .narrow = NARROW_SUBSET,
         .doc = "Devices of the host, below /dev, that appear inside."},
        {"shm", AT(shm), NUMBER(TEXT_BYTES, 4 * KIB, 1024 * TIB), .narrow = NARROW_GRANT,
         .doc = "Size of /dev/shm. Absent: a small default."},
};
const size_t schema_row_count = ELEMENTSOF(schema_rows);

/* KIND_ENTRIES and KIND_ENV use one view of pointer and count. */
static_assert(offsetof(struct policy_strings, items) == 0, "a list begins with its items");

const struct schema_row *schema_find(const char *key) {
        for (size_t i = 0; i < schema_row_count; i++)
                if (str_eq(schema_rows[i].key, key))
                        return &schema_rows[i];
        return NULL;
}

static bool below(const char *key, const char *section) {
        size_t length = strlen(section);

        return length == 0 || (strncmp(key, section, length) == 0 && key[length] == '.');
}

bool schema_is_section(const char *key) {
        for (size_t i = 0; i < schema_row_count; i++)
                if (below(schema_rows[i].key, key) && key[0])
                        return true;
        return false;
}

const char *schema_leaf(const struct schema_row *row) {
        const char *dot = strrchr(row->key, '.');

        return dot ? dot + 1 : row->key;
}

const char *schema_suggest(const char *section, const char *wrong, char *buf, size_t size) {
        size_t skip = section[0] ? strlen(section) + 1 : 0;
        unsigned best = MIN(3U, (unsigned)MIN(strlen(wrong), 9) / 2 + 1);
        bool found = false;

        for (size_t i = 0; i < schema_row_count; i++) {
                const char *key = schema_rows[i].key;
                char part[64];

                if (!below(key, section))
                        continue;
                size_t length = strcspn(key + skip, ".[");
                if (length == 0 || length >= sizeof part || length >= size)
                        continue;
                memcpy(part, key + skip, length);
                part[length] = '\0';
                unsigned distance = text_distance(part, wrong);
                if (distance < best) {
                        best = distance;
                        memcpy(buf, part, length + 1);
                        found = true;
                }
        }
        return found ? buf : NULL;
}

size_t schema_element_size(enum schema_scope element) {
        switch (element) {
        case SCOPE_PLACE:
                return sizeof(struct policy_place);
        case SCOPE_REACH:
                return sizeof(struct policy_reach);
        case SCOPE_FILE:
        case SCOPE_POLICY:
        default:
                abort(); /* the table names no other kind of entry */
        }
}
