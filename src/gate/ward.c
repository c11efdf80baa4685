/* The table of wards, and what can be done to one. */
#include "gate/ward.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/knockout.h"
#include "gate/control.h"
#include "gate/flow.h"
#include "gate/names.h"

#define RESUME_MS   100
#define BURST_SHARE 10 /* of a second's bandwidth that may be saved up */
#define BURST_MIN   (64 * 1024)
#define WAIT_SHARE  20 /* of a second's bandwidth that is worth waking up for */
#define WAIT_MIN    512

static struct ward *wards[GATE_WARDS_MAX];
static uint32_t generations[GATE_WARDS_MAX];
static size_t count;

/* Which descriptors are watched, and as what. */
static const int watched[GATE_FD_COUNT] = {
        [GATE_TCP] = LOOP_TCP,     [GATE_DNS] = LOOP_DNS, [GATE_DNS_TCP] = LOOP_DNS_TCP,
        [GATE_PROXY] = LOOP_PROXY, [GATE_TAP] = LOOP_TAP, [GATE_DENIALS] = -1,
        [GATE_MEMORY] = -1,        [GATE_KEY] = -1,
};

struct ward *ward_by_place(uint32_t place) {
        return place < GATE_WARDS_MAX ? wards[place] : NULL;
}

struct ward *ward_find(uint32_t id) {
        return ward_by_place(id); /* ids are below GATE_WARDS_MAX */
}

struct ward *ward_at(uint32_t place, uint32_t generation) {
        struct ward *w = ward_by_place(place);

        return w && w->generation == generation ? w : NULL;
}

size_t ward_count(void) {
        return count;
}

bool ward_shares(uint64_t used, uint64_t left) {
        return left > 0 && (count == 1 || used < 8 * left);
}

int32_t ward_rule_index(const struct ward *w, int rule) {
        return rule >= 0 && (size_t)rule < w->rules.count ? (int32_t)w->rules.items[rule].index : -1;
}

/* --- making and removing --- */

static void resume(struct loop_timer *t) {
        struct ward *w = LOOP_OWNER(t, struct ward, resume);

        for (size_t i = 0; i < GATE_FD_COUNT; i++)
                if (w->paused[i]) {
                        w->paused[i] = false;
                        (void)loop_rewatch(w->fds[i], EPOLLIN, (enum loop_kind)watched[i], w->place, w->generation);
                }
}

void ward_pause(struct ward *w, enum gate_fd which) {
        w->paused[which] = true;
        (void)loop_rewatch(w->fds[which], 0, (enum loop_kind)watched[which], w->place, w->generation);
        if (!loop_timer_is_set(&w->resume))
                loop_timer_set(&w->resume, loop_now() + RESUME_MS);
}

static struct ward *create(uint32_t id, struct err *err) {
        /* large, and mostly never touched */
        void *p = mmap(NULL, sizeof(struct ward), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                       -1, 0);
        if (p == MAP_FAILED) {
                (void)err_set(err, -errno, "cannot make room for ward %u", id);
                return NULL;
        }
        struct ward *w = p;
        w->id = w->place = id;
        w->sums = &w->first_sums;
        w->generation = generations[id] = (generations[id] + 1) & LOOP_GENERATION_MASK;
        for (size_t i = 0; i < GATE_FD_COUNT; i++)
                w->fds[i] = -EBADF;
        w->resume.fire = resume;
        turns_init(w->turns);
        event_init(w);
        wards[id] = w;
        count++;
        return w;
}

void ward_remove(struct ward *w) {
        flow_end_all(w);
        names_end_all(w);
        for (size_t i = 0; i < GATE_FD_COUNT; i++) {
                if (w->fds[i] >= 0 && watched[i] >= 0)
                        loop_forget(w->fds[i]); /* others may hold it too */
                fd_close(&w->fds[i]);
        }
        resolve_forget(&w->resolving);
        event_finish(w);
        loop_timer_clear(&w->resume);
        turns_finish(w->turns);
        rules_unload(&w->rules);
        if (w->secrets)
                secrets_destroy(w->secrets);
        if (w->authority)
                tls_authority_destroy(w->authority);
        if (w->synth_memory)
                (void)munmap(w->synth_memory, WARD_MEMORY);
        wards[w->place] = NULL;
        count--;
        (void)munmap(w, sizeof *w);
}

/* --- descriptors --- */

/* Sockets must be what they are said to be, and must never make us wait. */
static int check_socket(int fd, enum gate_fd which) {
        static const int types[GATE_FD_COUNT] = {[GATE_TCP] = SOCK_STREAM,
                                                 [GATE_DNS] = SOCK_DGRAM,
                                                 [GATE_DNS_TCP] = SOCK_STREAM,
                                                 [GATE_PROXY] = SOCK_STREAM};
        int type = 0;
        socklen_t size = sizeof type;

        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
                return -errno;
        if (types[which] && types[which] != type)
                return -EPROTOTYPE;
        int flags = fcntl(fd, F_GETFL);
        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int attach_memory(struct ward *w, int fd) {
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) < 0)
                return -errno;
        if (fd >= 0 && st.st_size < WARD_MEMORY)
                return -EINVAL;
        void *p = mmap(NULL, WARD_MEMORY, PROT_READ | PROT_WRITE,
                       fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        struct synth *s = synth_attach(p, SYNTH_MEMORY);
        if (!s) {
                (void)munmap(p, WARD_MEMORY);
                return -EBADMSG;
        }
        w->synth_memory = p;
        w->sums = (void *)((char *)p + SYNTH_MEMORY);
        w->synth = s;
        return 0;
}

static int attach(struct ward *w, enum gate_fd which, int *fd, struct err *err) {
        int r = 0;

        if (which == GATE_MEMORY && w->synth)
                return 0; /* addresses that were given out stay what they are */
        if (w->fds[which] >= 0)
                return err_set(err, -EEXIST, "ward %u has descriptor %d already", w->id, which);
        if (watched[which] >= 0) {
                r = check_socket(*fd, which);
                if (r == 0 && which == GATE_DNS)
                        names_prepare(*fd);
                if (r == 0)
                        r = loop_watch(*fd, EPOLLIN, (enum loop_kind)watched[which], w->place, w->generation);
        } else if (which == GATE_MEMORY)
                r = attach_memory(w, *fd);
        if (r < 0)
                return err_set(err, r, "ward %u: descriptor %d cannot be used", w->id, which);
        w->fds[which] = TAKE_FD(*fd);
        return 0;
}

int ward_add(const struct gate_message *m, int fds[GATE_FD_COUNT], struct err *err) {
        struct ward *w = ward_find(m->ward);
        bool new = !w;

        if (new && !(w = create(m->ward, err)))
                return -ENOMEM;
        w->flags = m->flags;
        w->sums->exhausted = w->sums->exhausted &&
                             m->limits.egress <= w->limits.egress; /* a larger budget opens it again */
        w->limits = m->limits;
        uint64_t rate = m->limits.bandwidth;
        uint64_t lookups = m->limits.lookups == UINT64_MAX ? WARD_LOOKUPS : m->limits.lookups;
        uint64_t burst = rate == UINT64_MAX ? 0 : MAX(rate / BURST_SHARE, (uint64_t)BURST_MIN);
        if (new || w->bandwidth[0].rate != rate) {
                meter_bucket_init(&w->bandwidth[WARD_SENT], rate, burst, loop_now());
                meter_bucket_init(&w->bandwidth[WARD_RECEIVED], rate, burst, loop_now());
        }
        if (new || w->lookups.rate != lookups)
                meter_bucket_init(&w->lookups, lookups,
                                  MAX(MIN(2 * lookups, (uint64_t)WARD_LOOKUPS_BURST), lookups / 100), loop_now());
        /* what the sockets need comes before them */
        int r = 0;
        for (int i = GATE_FD_COUNT - 1; i >= 0 && r == 0; i--)
                if (fds[i] >= 0)
                        r = attach(w, (enum gate_fd)i, &fds[i], err);
        if (r == 0 && !w->synth && w->fds[GATE_DNS] >= 0) {
                r = attach_memory(w, -EBADF);
                if (r < 0)
                        (void)err_set(err, r, "ward %u: no room for addresses", w->id);
        }
        if (r < 0)
                ward_remove(w); /* fails closed: a ward is whole or not there */
        return r;
}

/* --- rules and secrets --- */

static bool wants_inspection(const struct rules *r) {
        for (size_t i = 0; i < r->count; i++)
                if (r->items[i].flags & RULE_INSPECT)
                        return true;
        return false;
}

static int make_authority(struct ward *w, struct err *err) {
        int files[GATE_CA_COUNT];

        if (w->authority_sent || !tls_loaded() || !wants_inspection(&w->rules))
                return 0;
        if (!w->authority)
                w->authority = tls_authority_create(w->fds[GATE_KEY], err);
        if (!w->authority)
                return -EIO;
        int r = tls_authority_files(w->authority, files, err);
        if (r < 0)
                return r;
        struct gate_message m = {.kind = GATE_AUTHORITY, .ward = w->id};
        r = control_send_with(&m, files, GATE_CA_COUNT);
        for (size_t i = 0; i < GATE_CA_COUNT; i++)
                fd_close(&files[i]);
        if (r < 0)
                return err_set(err, r, "could not hand over the authority of ward %u", w->id);
        w->authority_sent = true;
        return 0;
}

int ward_rules(struct ward *w, const struct gate_message *m, uint32_t *ret_closed, struct err *err) {
        int r = rules_load(&w->rules, m->rules, m->rules_size);

        if (r < 0)
                return err_set(err, r, "the rules for ward %u could not be loaded", w->id);
        w->rules_generation = m->token;
        *ret_closed = flow_review(w);
        return make_authority(w, err);
}

int ward_secret(struct ward *w, const struct gate_message *m, struct err *err) {
        bool first = !w->secrets;

        if (first && !(w->secrets = secrets_create()))
                return err_set(err, -ENOMEM, "no room for secrets");
        int r = m->value_size > 0 ? secrets_put(w->secrets, m->name, m->holder, m->value, m->value_size)
                                  : secrets_wipe(w->secrets, m->name);
        const char *problem = r == -EINVAL ? secrets_problem(m->value, m->value_size) : NULL;
        if (r < 0)
                return err_set(err, r, "secret '%s' could not be kept%s%s", m->name, problem ? ": " : "",
                               problem ? problem : "");
        if (first || m->value_size == 0)
                (void)flow_review(w); /* conversations that began before it came, or with it */
        return 0;
}

/* --- budgets --- */

uint64_t ward_left(const struct ward *w) {
        if (w->limits.egress == UINT64_MAX || knockout_off(KNOCKOUT_GATE))
                return UINT64_MAX;
        return w->sums->egress < w->limits.egress && !w->sums->exhausted ? w->limits.egress - w->sums->egress : 0;
}

bool ward_spent(const struct ward *w, enum ward_way way) {
        return way == WARD_SENT && ward_left(w) == 0;
}

size_t ward_allowance(struct ward *w, enum ward_way way, size_t want) {
        uint64_t most = meter_bucket_has(&w->bandwidth[way], loop_now());

        if (way == WARD_SENT)
                most = MIN(most, ward_left(w));
        return (size_t)MIN(most, (uint64_t)want);
}

/* As many bytes together are worth a turn. */
static uint64_t worth(const struct meter_bucket *b) {
        return MIN(MAX(b->rate / WAIT_SHARE, (uint64_t)WAIT_MIN), b->burst);
}

bool ward_plenty(struct ward *w, enum ward_way way) {
        return meter_bucket_has(&w->bandwidth[way], loop_now()) >= worth(&w->bandwidth[way]);
}

uint64_t ward_wait(const struct ward *w, enum ward_way way) {
        return meter_bucket_wait(&w->bandwidth[way], worth(&w->bandwidth[way]));
}

void ward_passed(struct ward *w, enum ward_way way, size_t bytes) {
        meter_bucket_take(&w->bandwidth[way], bytes);
        if (way == WARD_SENT) {
                w->sums->totals.sent += bytes;
                w->sums->egress += bytes;
        } else
                w->sums->totals.received += bytes;
        event_used(w);
}

void ward_exhaust(struct ward *w) {
        struct gate_event e = {.reason = GATE_EGRESS, .rule = -1};

        w->sums->exhausted = true;
        (void)snprintf(e.detail, sizeof e.detail, "every connection was closed");
        w->sums->totals.refused++;
        event_refused(w, &e);
        flow_end_all(w);
}
