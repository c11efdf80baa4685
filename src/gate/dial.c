/* Getting to the server: resolve the name, leave out what must not be reached, connect to exactly one of the addresses
 * that are left. The next address is tried when one fails, or does not answer for a moment; two at a time at most. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/knockout.h"
#include "gate/flow.h"
#include "gate/own.h"
#include "gate/side.h"

#define DIAL_NEXT_MS 300

/* What may be dialled:
 *   - a public address that is not this host's own: always, once the connection itself is allowed;
 *   - private networks, carrier-grade NAT and link-local addresses: if the rule says private;
 *   - loopback and this host's own addresses, public ones too: by name only if a rule that says private names exactly
 *     that host; whoever can add a name under a wildcard does not get to choose among the host's own services;
 *   - metadata services, unspecified, multicast, translated and reserved addresses: never by name. As a literal
 * address, like all of the above, under a cidr rule that covers it and says private;
 *   - synthetic addresses: never. They stand for names. */
static enum flow_needs needs(const struct address *a) {
        if (synth_covers(a))
                return NEEDS_NEVER;
        switch (address_kind(a)) {
        case ADDRESS_PUBLIC:
                return own_address(a) ? NEEDS_EXACT : NEEDS_NOTHING;
        case ADDRESS_PRIVATE:
        case ADDRESS_CARRIER:
        case ADDRESS_LINK_LOCAL:
                return own_address(a) ? NEEDS_EXACT : NEEDS_PRIVATE;
        case ADDRESS_LOOPBACK:
                return NEEDS_EXACT;
        case ADDRESS_UNSPECIFIED:
        case ADDRESS_METADATA:
        case ADDRESS_MULTICAST:
        case ADDRESS_BROADCAST:
        case ADDRESS_BENCHMARK:
        case ADDRESS_TRANSLATED:
        case ADDRESS_RESERVED:
        case ADDRESS_KIND_COUNT:
        default:
                return NEEDS_LITERAL;
        }
}

static bool permitted(const struct flow *f, enum flow_needs n) {
        if (knockout_off(KNOCKOUT_GATE))
                return n != NEEDS_NEVER;
        switch (n) {
        case NEEDS_NOTHING:
                return true;
        case NEEDS_PRIVATE:
                return f->private;
        case NEEDS_EXACT:
                return f->private && (f->exact || !flow_named(f));
        case NEEDS_LITERAL:
                return f->private && !flow_named(f);
        case NEEDS_NEVER:
        default:
                return false;
        }
}

bool dial_allowed(const struct flow *f) {
        return permitted(f, f->needs);
}

/* Adds it to what is dialled, if it may be. */
static bool add_candidate(struct flow *f, const struct address *a) {
        enum flow_needs n = needs(a);

        if (!permitted(f, n))
                return false;
        f->candidates[f->candidate_count++] = (struct flow_candidate){*a, n};
        f->needs = MAX(f->needs, n);
        return true;
}

/* What the address is, for the one who is refused. */
static const char *what(const struct address *a) {
        const char *special = address_special(a);

        return special ? special : synth_covers(a) ? "the gate's own" : "this host's own";
}

/* Addresses of both kinds in turn, IPv6 first, so that a network without one of them costs one wait. */
static void order_candidates(struct flow *f) {
        struct flow_candidate v6[FLOW_CANDIDATES], v4[FLOW_CANDIDATES];
        size_t n6 = 0, n4 = 0, i6 = 0, i4 = 0, n = 0;

        for (size_t i = 0; i < f->candidate_count; i++) {
                if (address_is_v4(&f->candidates[i].address))
                        v4[n4++] = f->candidates[i];
                else
                        v6[n6++] = f->candidates[i];
        }
        while (i6 < n6 || i4 < n4) {
                if (i6 < n6)
                        f->candidates[n++] = v6[i6++];
                if (i4 < n4)
                        f->candidates[n++] = v4[i4++];
        }
}

static void resolved(struct resolve_wait *w, const struct address *addresses, size_t count, const char *why) {
        struct flow *f = LOOP_OWNER(w, struct flow, lookup);

        for (size_t i = 0; i < count && f->candidate_count < FLOW_CANDIDATES; i++)
                (void)add_candidate(f, &addresses[i]);
        if (f->candidate_count > 0) {
                order_candidates(f);
                flow_move(f, FLOW_DIAL);
        } else if (count == 0)
                refuse(f, GATE_UNRESOLVED, why);
        else {
                char text[ADDRESS_TEXT_MAX], detail[sizeof f->detail];

                address_print(&addresses[0], text);
                const char *still = needs(&addresses[0]) == NEEDS_EXACT ? ", not by a wildcard" : ", never by name";
                (void)snprintf(detail, sizeof detail, "it resolves to %s (%s)%s", text, what(&addresses[0]),
                               f->private ? still : "");
                refuse(f, GATE_PRIVATE, detail);
        }
}

/* A question would leave the host. Whoever came by an address has asked for its name before; whoever came by a proxy
 * has not, and is counted here as if it had. */
static bool may_ask(struct flow *f) {
        struct ward *w = f->ward;

        if (w->resolving >= WARD_RESOLVING_MAX) {
                refuse(f, GATE_LOOKUPS, "too many names are being resolved at a time");
                return false;
        }
        if (f->origin == ORIGIN_TRANSPARENT)
                return true;
        w->sums->totals.lookups++;
        if (meter_bucket_has(&w->lookups, loop_now()) == 0) {
                w->sums->totals.lookups_refused++;
                refuse(f, GATE_LOOKUPS, "");
                return false;
        }
        meter_bucket_take(&w->lookups, 1);
        return true;
}

void dial_begin(struct flow *f) {
        struct ward *w = f->ward; /* the flow may be gone when the answer is known already */
        size_t sent;

        f->candidate_count = f->candidate_next = 0;
        f->needs = NEEDS_NOTHING;
        if (!flow_named(f)) {
                if (add_candidate(f, &f->address))
                        flow_move(f, FLOW_DIAL);
                else
                        refuse(f, GATE_PRIVATE, what(&f->address));
                return;
        }
        if (!resolve_known(f->name) && !may_ask(f))
                return;
        flow_move(f, FLOW_RESOLVE);
        f->lookup.done = resolved;
        if (resolve_begin(&f->lookup, f->name, &w->resolving, &sent) == -EBUSY)
                refuse(f, GATE_UNRESOLVED, "too many names are being resolved at a time");
        else if (sent > 0)
                ward_passed(w, WARD_SENT, sent);
}

/* Begins one attempt. 1: under way or connected, 0: this address does not work. */
static int attempt(struct flow *f, size_t slot, const struct address *a) {
        struct sockaddr_storage s;
        socklen_t size = address_to_socket(a, f->port, &s);
        _cleanup_fd_ int fd = socket(s.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0) {
                f->starved = errno == EMFILE || errno == ENFILE;
                return 0;
        }
        side_tune(fd);
        if (connect(fd, (struct sockaddr *)&s, size) < 0 && errno != EINPROGRESS)
                return 0;
        if (loop_watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, slot ? LOOP_ATTEMPT_1 : LOOP_ATTEMPT_0, f->place,
                       f->generation) < 0)
                return 0;
        f->attempts[slot] = TAKE_FD(fd);
        return 1;
}

/* 1: connected, 0: not yet, -errno: it failed. */
static int attempt_state(int fd) {
        struct sockaddr_storage s;
        socklen_t size = sizeof s;
        int error = 0;
        socklen_t error_size = sizeof error;

        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size) < 0)
                return -errno;
        if (error)
                return -error;
        return getpeername(fd, (struct sockaddr *)&s, &size) == 0 ? 1 : errno == ENOTCONN ? 0 : -errno;
}

static void connected(struct flow *f, size_t slot) {
        f->server.fd = TAKE_FD(f->attempts[slot]);
        f->server.can_read = f->server.can_write = true; /* the first tries will tell */
        f->needs = f->candidates[f->attempted[slot]].needs;
        flow_close_attempts(f);
        char host[HOSTNAME_SIZE];
        flow_host(f, host);
        f->host = meter_host(&f->ward->hosts, host, f->port, f->rule);
        f->host->active++;
        f->host->connections++;
        f->ward->sums->totals.connections++;
        event_used(f->ward);
        meet_server(f);
}

void dial_step(struct flow *f) {
        bool running = false;

        for (size_t i = 0; i < ELEMENTSOF(f->attempts); i++) {
                int r = f->attempts[i] < 0 ? -EBADF : attempt_state(f->attempts[i]);

                if (r > 0) {
                        connected(f, i);
                        return;
                }
                if (r < 0)
                        fd_close(&f->attempts[i]);
                else
                        running = true;
        }
        while (f->candidate_next < f->candidate_count && (!running || loop_now() - f->attempt_at >= DIAL_NEXT_MS)) {
                size_t slot = f->attempts[0] < 0 ? 0 : 1;

                if (f->attempts[slot] >= 0)
                        break; /* two are under way */
                f->attempt_at = loop_now();
                f->attempted[slot] = f->candidate_next;
                if (attempt(f, slot, &f->candidates[f->candidate_next++].address))
                        running = true;
        }
        if (!running)
                refuse(f, GATE_UNREACHABLE,
                       f->starved ? "the gate has no descriptors left" : "no address of it accepts connections");
        else if (f->candidate_next < f->candidate_count && (f->attempts[0] < 0 || f->attempts[1] < 0))
                flow_wake(f, DIAL_NEXT_MS);
}
