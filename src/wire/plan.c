/* The plan's table, reader and writer. Reading never allocates; what plan_check accepted, plan_next can walk. */
#include "wire/plan.h"

#include <stdarg.h>

#include "base/text.h"

static const uint8_t magic[8] = {'S', 'T', 'O', 'C', 'K', 'P', '0', '1'};
#define HEADER_SIZE (sizeof magic + 4 + HASH_SIZE)

/* fields: 't' text, 'p' canonical absolute path, 'n' number, 'b' blob. */
struct op {
        const char *name;
        const char *fields;
        enum plan_phase phase;
        uint16_t flags; /* those it may have */
        bool once;      /* at most one */
        bool needed;    /* at least one */
};

static const struct op ops[] = {
        [OP_PROFILE] = {"profile", "t", PHASE_OUTSIDE, 0, true, true},
        [OP_LIMIT] = {"limit", "tn", PHASE_OUTSIDE, 0, false, false},
        [OP_ACCEPT] = {"accept-missing", "t", PHASE_OUTSIDE, 0, false, false},
        [OP_ENV] = {"env", "t", PHASE_OUTSIDE, 0, false, false},
        [OP_CWD] = {"cwd", "p", PHASE_OUTSIDE, 0, true, true},
        [OP_USER] = {"user", "nn", PHASE_OUTSIDE, 0, true, true},
        [OP_REACH] = {"reach", "b", PHASE_OUTSIDE, 0, true, false},
        [OP_SECRET] = {"secret", "t", PHASE_OUTSIDE, 0, false, false},

        [OP_HOSTNAME] = {"hostname", "t", PHASE_MOUNT, 0, true, true},
        [OP_ROOT_TMPFS] = {"root-tmpfs", "nn", PHASE_MOUNT, 0, true, false},
        [OP_ROOT_BIND] = {"root-bind", "p", PHASE_MOUNT, 0, true, false},
        [OP_ROOT_OVERLAY] = {"root-overlay", "pnn", PHASE_MOUNT, STEP_WATCH | STEP_EXACT, true, false},
        [OP_ROOT_DISK] = {"root-disk", "nn", PHASE_MOUNT, STEP_WATCH, true, false},
        [OP_DIR] = {"dir", "pn", PHASE_MOUNT, STEP_OPTIONAL | STEP_OWNED, false, false},
        [OP_LINK] = {"link", "pt", PHASE_MOUNT, STEP_OPTIONAL, false, false},
        [OP_FILE] = {"file", "pb", PHASE_MOUNT, STEP_OPTIONAL | STEP_REPLACE, false, false},
        [OP_COPY] = {"copy", "p", PHASE_MOUNT, 0, false, false},
        [OP_LIKE_HOST] = {"like-host", "p", PHASE_MOUNT, STEP_NOEXEC, false, false},
        [OP_BIND] = {"bind", "pp", PHASE_MOUNT,
                     STEP_OPTIONAL | STEP_WRITE | STEP_NOEXEC | STEP_DEVICE | STEP_OWNED | STEP_EXACT, false, false},
        [OP_TMPFS] = {"tmpfs", "pnnn", PHASE_MOUNT, STEP_NOEXEC | STEP_WATCH, false, false},
        [OP_DISK] = {"disk", "pnn", PHASE_MOUNT, STEP_NOEXEC | STEP_WATCH, true, false},
        [OP_OVERLAY] = {"overlay", "ppnn", PHASE_MOUNT, STEP_NOEXEC | STEP_OWNED | STEP_WATCH | STEP_EXACT, true,
                        false},
        [OP_PROC] = {"proc", "p", PHASE_MOUNT, 0, true, true},
        [OP_LOOPBACK] = {"loopback", "", PHASE_MOUNT, 0, true, false},
        [OP_NETWORK] = {"network", "p", PHASE_MOUNT, STEP_TRUST, true, false},
        [OP_DEVPTS] = {"devpts", "p", PHASE_MOUNT, 0, true, true},
        [OP_PROGRAM] = {"program", "p", PHASE_MOUNT, 0, false, false},
        [OP_MASK] = {"mask", "p", PHASE_MOUNT, 0, false, false},
        [OP_HIDE] = {"hide", "p", PHASE_MOUNT, 0, false, false},

        [OP_PIVOT] = {"pivot", "", PHASE_ENTER, 0, true, true},
        [OP_READONLY] = {"readonly", "p", PHASE_ENTER, 0, false, false},
        [OP_SESSION] = {"session", "", PHASE_ENTER, 0, true, true},
        [OP_RLIMIT] = {"rlimit", "nn", PHASE_CONFINE, 0, false, false},
        [OP_NO_NESTING] = {"no-nesting", "", PHASE_ENTER, 0, true, false},
        [OP_IDS] = {"ids", "nn", PHASE_ENTER, 0, true, true},
        [OP_CAPS] = {"caps", "", PHASE_ENTER, 0, true, true},

        [OP_NO_NEW_PRIVS] = {"no-new-privs", "", PHASE_CONFINE, 0, true, true},
        [OP_LANDLOCK] = {"landlock", "nn", PHASE_CONFINE, 0, true, false},
        [OP_LANDLOCK_RULE] = {"landlock-rule", "pn", PHASE_CONFINE, STEP_OPTIONAL | STEP_UNLINKED, false, false},
        [OP_LANDLOCK_END] = {"landlock-end", "", PHASE_CONFINE, 0, true, false},
        [OP_SECCOMP] = {"seccomp", "b", PHASE_CONFINE, 0, true, true},

        [OP_EXEC] = {"exec", "", PHASE_EXEC, 0, true, true},
};
static_assert(ELEMENTSOF(ops) == OP_COUNT, "every operation has a row");

const char *plan_op_name(enum plan_op op) {
        return (unsigned)op < OP_COUNT ? ops[op].name : "?";
}

enum plan_phase plan_op_phase(enum plan_op op) {
        return (unsigned)op < OP_COUNT ? ops[op].phase : PHASE_EXEC;
}

void plan_begin(struct buf *b, const uint8_t policy_hash[HASH_SIZE]) {
        buf_add(b, magic, sizeof magic);
        wire_put_u32(b, 0); /* the size, when it is known */
        buf_add(b, policy_hash, HASH_SIZE);
}

void plan_add(struct buf *b, enum plan_op op, unsigned flags, ...) {
        va_list args;

        wire_put_u16(b, (uint16_t)op);
        wire_put_u16(b, (uint16_t)flags);
        va_start(args, flags);
        for (const char *f = ops[op].fields; *f; f++) {
                switch (*f) {
                case 't':
                case 'p':
                        wire_put_str(b, va_arg(args, const char *));
                        break;
                case 'n':
                        wire_put_u64(b, va_arg(args, uint64_t));
                        break;
                default: {
                        const void *data = va_arg(args, const void *);
                        wire_put_blob(b, data, va_arg(args, size_t));
                }
                }
        }
        va_end(args);
}

void plan_add_step(struct buf *b, const struct plan_step *s) {
        size_t text = 0, number = 0;

        wire_put_u16(b, (uint16_t)s->op);
        wire_put_u16(b, s->flags);
        for (const char *f = ops[s->op].fields; *f; f++)
                if (*f == 'n')
                        wire_put_u64(b, s->number[number++]);
                else if (*f == 'b')
                        wire_put_blob(b, s->blob, s->blob_size);
                else
                        wire_put_str(b, s->text[text++]);
}

int plan_end(struct buf *b, struct err *err) {
        struct plan p;

        if (!buf_ok(b) || b->size > PLAN_MAX_SIZE)
                return err_set(err, ERR_LIMIT, "the plan is larger than %d bytes", PLAN_MAX_SIZE);
        for (unsigned i = 0; i < 4; i++)
                b->data[sizeof magic + i] = (char)(b->size >> (8 * i));
        return plan_check(b->data, b->size, &p, err);
}

/* Reads one step. The same code serves the check and the walk. */
static bool read_step(struct wire *w, struct plan_step *s) {
        unsigned text = 0, number = 0;

        *s = (struct plan_step){.op = wire_u16(w), .flags = wire_u16(w)};
        if (!wire_ok(w) || (unsigned)s->op >= OP_COUNT)
                return false;
        for (const char *f = ops[s->op].fields; *f; f++) {
                if (*f == 't' || *f == 'p')
                        s->text[text++] = wire_str(w);
                else if (*f == 'n')
                        s->number[number++] = wire_u64(w);
                else
                        s->blob = wire_blob(w, &s->blob_size);
        }
        return wire_ok(w);
}

static int check_step(const struct plan_step *s, struct err *err) {
        unsigned text = 0;

        if (s->flags & ~ops[s->op].flags)
                return err_set(err, ERR_CORRUPT, "plan step %u (%s) has flags 0x%x that it cannot have", s->index,
                               ops[s->op].name, s->flags);
        for (const char *f = ops[s->op].fields; *f; f++) {
                if (*f == 'p' && text_check_path(s->text[text], err) < 0)
                        return err_prefix(err, ERR_CORRUPT, "plan step %u (%s)", s->index, ops[s->op].name);
                text += *f == 'p' || *f == 't';
        }
        return 0;
}

/* What the table cannot say about single rows. */
static int check_whole(const unsigned seen[OP_COUNT], struct err *err) {
        for (unsigned i = 0; i < OP_COUNT; i++) {
                if (ops[i].needed && !seen[i])
                        return err_set(err, ERR_CORRUPT, "the plan has no '%s' step", ops[i].name);
                if (ops[i].once && seen[i] > 1)
                        return err_set(err, ERR_CORRUPT, "the plan has more than one '%s' step", ops[i].name);
        }
        if (seen[OP_ROOT_TMPFS] + seen[OP_ROOT_BIND] + seen[OP_ROOT_OVERLAY] + seen[OP_ROOT_DISK] != 1)
                return err_set(err, ERR_CORRUPT, "the plan does not have exactly one root");
        if (seen[OP_ROOT_DISK] + seen[OP_DISK] > 1)
                return err_set(err, ERR_CORRUPT, "the plan shows its one disk at two places");
        if (seen[OP_LOOPBACK] + seen[OP_NETWORK] > 1 || seen[OP_NETWORK] != seen[OP_REACH])
                return err_set(err, ERR_CORRUPT, "the plan's network is not either closed or led through the gate");
        if (seen[OP_LANDLOCK] != seen[OP_LANDLOCK_END])
                return err_set(err, ERR_CORRUPT, "the plan begins a Landlock ruleset that it does not end");
        return 0;
}

int plan_check(const void *bytes, size_t size, struct plan *ret, struct err *err) {
        struct wire w = {.start = bytes, .size = size};
        unsigned seen[OP_COUNT] = {0}, index = 0;
        enum plan_op last = 0;

        if (size > PLAN_MAX_SIZE)
                return err_set(err, ERR_LIMIT, "the plan is larger than %d bytes", PLAN_MAX_SIZE);
        const void *start = wire_bytes(&w, sizeof magic);
        uint32_t said = wire_u32(&w);
        const uint8_t *hash = wire_bytes(&w, HASH_SIZE);
        if (!wire_ok(&w) || memcmp(start, magic, sizeof magic) != 0 || said != size)
                return err_set(err, ERR_CORRUPT, "these bytes are not a plan of this version");

        while (!wire_end(&w)) {
                struct plan_step s;

                if (index >= PLAN_MAX_STEPS)
                        return err_set(err, ERR_LIMIT, "the plan has more than %d steps", PLAN_MAX_STEPS);
                if (!read_step(&w, &s))
                        return err_set(err, ERR_CORRUPT, "plan step %u is malformed", index);
                s.index = index++;
                if (ops[s.op].phase < ops[last].phase)
                        return err_set(err, ERR_CORRUPT, "plan step %u (%s) comes after %s", s.index, ops[s.op].name,
                                       ops[last].name);
                if ((s.op == OP_LANDLOCK_RULE || s.op == OP_LANDLOCK_END) &&
                    (!seen[OP_LANDLOCK] || seen[OP_LANDLOCK_END]))
                        return err_set(err, ERR_CORRUPT, "plan step %u (%s) is outside a ruleset", s.index,
                                       ops[s.op].name);
                int r = check_step(&s, err);
                if (r < 0)
                        return r;
                seen[s.op]++;
                last = s.op;
        }
        if (w.failed)
                return err_set(err, ERR_CORRUPT, "the plan is cut off");
        int r = check_whole(seen, err);
        if (r < 0)
                return r;
        *ret = (struct plan){.bytes = bytes, .size = size, .policy_hash = hash};
        return 0;
}

bool plan_next(const struct plan *p, struct plan_walk *walk, struct plan_step *ret) {
        if (walk->wire.start == NULL)
                walk->wire = (struct wire){.start = p->bytes, .size = p->size, .at = HEADER_SIZE};
        if (wire_end(&walk->wire) || !read_step(&walk->wire, ret))
                return false;
        ret->index = walk->index++;
        return true;
}

void plan_print_step(const struct plan_step *s, struct buf *out) {
        static const struct {
                uint16_t flag;
                const char *name;
        } flags[] = {{STEP_WRITE, "writable"},          {STEP_NOEXEC, "noexec"},       {STEP_DEVICE, "device"},
                     {STEP_OWNED, "owner is the user"}, {STEP_OPTIONAL, "if present"}, {STEP_WATCH, "watched"},
                     {STEP_UNLINKED, "unless a link"},  {STEP_EXACT, "no links"},      {STEP_TRUST, "authority"},
                     {STEP_REPLACE, "in place"}};
        unsigned text = 0, number = 0;
        char line[512];

        buf_printf(out, "%4u %-15s", s->index, ops[s->op].name);
        for (const char *f = ops[s->op].fields; *f; f++) {
                switch (*f) {
                case 't':
                case 'p':
                        text_escape(line, sizeof line, s->text[text++]);
                        buf_printf(out, " %s", line);
                        break;
                case 'n':
                        buf_printf(out,
                                   (s->op == OP_DIR || (s->op == OP_TMPFS && number == 2)) ? " 0%llo"
                                   : s->op == OP_LANDLOCK_RULE || s->op == OP_LANDLOCK     ? " 0x%llx"
                                                                                           : " %llu",
                                   (unsigned long long)s->number[number]);
                        number++;
                        break;
                default:
                        buf_printf(out, " (%zu bytes)", s->blob_size);
                }
        }
        for (size_t i = 0; i < ELEMENTSOF(flags); i++)
                if (s->flags & flags[i].flag)
                        buf_printf(out, " [%s]", flags[i].name);
        buf_str(out, "\n");
}
