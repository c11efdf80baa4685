/* Resolving. One table is both: names that are being asked for, and answers that may be used again. Equal questions
 * share one. c-ares never opens a file after resolve_init: it looks up "b" (DNS) only, without search domains. */
#include "gate/resolve.h"

#include <ares.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/time.h>

#include "base/fd.h"
#include "gate/loop.h"

#define NAMES_MAX      512
#define HOSTS_MAX      1024
#define HOSTS_FILE_MAX (1 << 20)

struct entry {
        char name[HOSTNAME_SIZE];
        bool pending;
        uint64_t expires; /* 0: unused */
        struct address addresses[RESOLVE_ADDRESSES];
        size_t count;
        const char *why;
        uint32_t *running;           /* pending: counts it; NULL: nobody does any more */
        struct resolve_wait waiting; /* a list's head */
};

static struct entry entries[NAMES_MAX];
static struct {
        char name[HOSTNAME_SIZE];
        struct address address;
} hosts[HOSTS_MAX];
static size_t host_count;
static ares_channel channel;
static struct loop_timer timer;

/* --- /etc/hosts --- */

static void add_hosts_line(char *line) {
        static const char blank[] = " \t\r";
        struct address a;

        line[strcspn(line, "#")] = '\0';
        char *p = line + strspn(line, blank);
        size_t n = strcspn(p, blank);
        if (!address_parse(p, n, false, &a))
                return;
        for (p += n; host_count < HOSTS_MAX; p += n) {
                p += strspn(p, blank);
                n = strcspn(p, blank);
                if (n == 0)
                        break;
                if (hostname_canonical(p, n, hosts[host_count].name) >= 0)
                        hosts[host_count++].address = a;
        }
}

static void read_hosts(void) {
        _cleanup_free_ char *text = NULL;

        if (fd_read_file(AT_FDCWD, "/etc/hosts", HOSTS_FILE_MAX, false, &text, NULL, NULL) < 0)
                return; /* a host without one has nothing to say there */
        for (char *line = text; line && *line;) {
                char *end = strchr(line, '\n');

                if (end)
                        *end = '\0';
                add_hosts_line(line);
                line = end ? end + 1 : NULL;
        }
}

static size_t find_hosts(const char *name, struct address ret[RESOLVE_ADDRESSES]) {
        size_t count = 0;

        for (size_t i = 0; i < host_count && count < RESOLVE_ADDRESSES; i++)
                if (str_eq(hosts[i].name, name))
                        ret[count++] = hosts[i].address;
        return count;
}

/* --- c-ares and the loop --- */

static void timer_update(void) {
        struct timeval most = {.tv_sec = 3600}, left;
        struct timeval *t = ares_timeout(channel, &most, &left);

        if (!t || t->tv_sec >= 3600)
                loop_timer_clear(&timer);
        else
                loop_timer_set(&timer, loop_now() + (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_usec / 1000 + 1);
}

static void timer_fired(struct loop_timer *t) {
        (void)t;
        ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        timer_update();
}

static void socket_event(const struct loop_ref *ref, uint32_t events) {
        ares_socket_t fd = (ares_socket_t)ref->index;
        bool in = events & (EPOLLIN | EPOLLHUP | EPOLLERR), out = events & EPOLLOUT;

        ares_process_fd(channel, in ? fd : ARES_SOCKET_BAD, out ? fd : ARES_SOCKET_BAD);
        timer_update();
}

/* c-ares says what it waits for on a socket of its own. */
static void socket_state(void *data, ares_socket_t fd, int readable, int writable) {
        uint32_t events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U);

        (void)data;
        if (!events)
                loop_forget(fd);
        else if (loop_rewatch(fd, events, LOOP_RESOLVER, (uint32_t)fd, 0) < 0)
                (void)loop_watch(fd, events, LOOP_RESOLVER, (uint32_t)fd, 0);
}

int resolve_init(struct err *err) {
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
                .timeout = 1500,
                .tries = 2,
                .lookups = (char[]){"b"},
                .sock_state_cb = socket_state,
        };
        int r = ares_library_init(ARES_LIB_INIT_ALL);
        if (r == ARES_SUCCESS)
                r = ares_init_options(&channel, &options,
                                      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                              ARES_OPT_SOCK_STATE_CB);
        if (r != ARES_SUCCESS)
                return err_set(err, ERR_REFUSED, "cannot start the resolver: %s", ares_strerror(r));
        read_hosts();
        timer.fire = timer_fired;
        loop_handle(LOOP_RESOLVER, socket_event);
        return 0;
}

/* --- the table --- */

static void finish_waits(struct entry *e) {
        struct resolve_wait list = {&list, &list, NULL};

        if (e->waiting.next != &e->waiting) {
                list.next = e->waiting.next;
                list.previous = e->waiting.previous;
                list.next->previous = list.previous->next = &list;
        }
        e->waiting.next = e->waiting.previous = &e->waiting;
        /* the entry may be taken for another name by what is called */
        struct address addresses[RESOLVE_ADDRESSES];
        size_t count = e->count;
        const char *why = e->why;
        memcpy(addresses, e->addresses, sizeof addresses);
        while (list.next != &list) {
                struct resolve_wait *w = list.next;

                resolve_cancel(w);
                w->done(w, addresses, count, why);
        }
}

void resolve_cancel(struct resolve_wait *w) {
        if (!w->next)
                return;
        w->next->previous = w->previous;
        w->previous->next = w->next;
        w->next = w->previous = NULL;
}

void resolve_forget(const uint32_t *running) {
        for (size_t i = 0; i < NAMES_MAX; i++)
                if (entries[i].running == running)
                        entries[i].running = NULL;
}

static void answered(void *argument, int status, int timeouts, struct ares_addrinfo *result) {
        struct entry *e = argument;
        int ttl = RESOLVE_TTL_MAX;

        (void)timeouts;
        e->pending = false;
        if (e->running)
                --*e->running;
        e->running = NULL;
        e->count = 0;
        e->why = "the name has no address";
        if (status != ARES_SUCCESS && status != ARES_ENODATA && status != ARES_ENOTFOUND)
                e->why = status == ARES_ETIMEOUT ? "the name servers did not answer in time"
                                                 : "the name servers could not answer";
        for (const struct ares_addrinfo_node *n = result ? result->nodes : NULL; n; n = n->ai_next) {
                struct sockaddr_storage s = {0};
                uint16_t port;

                if (e->count == RESOLVE_ADDRESSES || n->ai_addrlen > sizeof s)
                        break;
                memcpy(&s, n->ai_addr, n->ai_addrlen);
                if (!address_from_socket(&s, &e->addresses[e->count], &port))
                        continue;
                e->count++;
                ttl = MIN(ttl, n->ai_ttl);
        }
        if (result)
                ares_freeaddrinfo(result);
        /* an answer is kept for its time, at least a second so that a burst asks once; a failure for a second */
        e->expires = loop_now() + (uint64_t)(e->count ? MAX(ttl, 1) : 1) * 1000;
        if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED)
                e->expires = 1;
        finish_waits(e);
}

static struct entry *find_entry(const char *name) {
        struct entry *place = NULL;

        for (size_t i = 0; i < NAMES_MAX; i++) {
                struct entry *e = &entries[i];

                if (e->expires && str_eq(e->name, name))
                        return e;
                if (!e->expires) { /* places fill from the front */
                        place = place ? place : e;
                        break;
                }
                if (!e->pending && (!place || e->expires < place->expires))
                        place = e;
        }
        if (place) {
                *place = (struct entry){.expires = 1};
                place->waiting.next = place->waiting.previous = &place->waiting;
                (void)snprintf(place->name, sizeof place->name, "%s", name);
        }
        return place;
}

bool resolve_known(const char *name) {
        struct address known[RESOLVE_ADDRESSES];

        if (find_hosts(name, known) > 0)
                return true;
        for (size_t i = 0; i < NAMES_MAX && entries[i].expires; i++)
                if (str_eq(entries[i].name, name))
                        return entries[i].pending || entries[i].expires > loop_now();
        return false;
}

int resolve_begin(struct resolve_wait *w, const char *name, uint32_t *running, size_t *ret_sent) {
        struct address known[RESOLVE_ADDRESSES];
        size_t count = find_hosts(name, known);

        *ret_sent = 0;
        if (count > 0) {
                w->done(w, known, count, "");
                return 1;
        }
        struct entry *e = find_entry(name);
        if (!e)
                return -EBUSY;
        if (!e->pending && e->expires > loop_now()) {
                count = e->count;
                memcpy(known, e->addresses, sizeof known);
                w->done(w, known, count, e->why);
                return 1;
        }
        w->previous = e->waiting.previous;
        w->next = &e->waiting;
        e->waiting.previous->next = w;
        e->waiting.previous = w;
        if (e->pending)
                return 0;
        /* two questions with a header each */
        *ret_sent = 2 * (strlen(name) + 18);
        e->pending = true;
        e->running = running;
        ++*running;
        e->expires = UINT64_MAX;
        struct ares_addrinfo_hints hints = {
                .ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM};
        ares_getaddrinfo(channel, name, NULL, &hints, answered, e);
        timer_update();
        return w->next ? 0 : 1;
}
