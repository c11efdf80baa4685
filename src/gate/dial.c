/* Getting to the server: resolve the name, leave out what must not be reached, connect to exactly one of the addresses
 * that are left. The next address is tried when one fails, or does not answer for a moment; two at a time at most. */
#include <sys/socket.h>
#include <unistd.h>

#include "gate/flow.h"
#include "gate/side.h"

#define DIAL_NEXT_MS 300

/* May the gate connect to this on behalf of this flow? */
static bool dialable(struct flow *f, const struct address *a) {
        if (synth_covers(a))
                return false;
        if (address_special(a) && !f->private) {
                f->narrowed = true;
                return false;
        }
        return true;
}

/* Addresses of both kinds in turn, IPv6 first, so that a network without one of them costs one wait. */
static void order_candidates(struct flow *f) {
        struct address v6[FLOW_CANDIDATES], v4[FLOW_CANDIDATES];
        size_t n6 = 0, n4 = 0, i6 = 0, i4 = 0, n = 0;

        for (size_t i = 0; i < f->candidate_count; i++) {
                if (address_is_v4(&f->candidates[i]))
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
                if (dialable(f, &addresses[i]))
                        f->candidates[f->candidate_count++] = addresses[i];
        if (f->candidate_count > 0) {
                order_candidates(f);
                flow_move(f, FLOW_DIAL);
        } else if (count == 0)
                refuse(f, GATE_UNRESOLVED, why);
        else {
                char text[ADDRESS_TEXT_MAX], detail[sizeof f->detail];
                const char *kind = address_special(&addresses[0]);

                address_print(&addresses[0], text);
                (void)snprintf(detail, sizeof detail, "it resolves to %s (%s)", text, kind ? kind : "the gate's own");
                refuse(f, GATE_PRIVATE, detail);
        }
}

void dial_begin(struct flow *f) {
        struct ward *w = f->ward; /* the flow may be gone when the answer is known already */
        size_t sent;

        f->candidate_count = f->candidate_next = 0;
        f->narrowed = false;
        if (!flow_named(f)) {
                if (!dialable(f, &f->address)) {
                        refuse(f, f->narrowed ? GATE_PRIVATE : GATE_NO_RULE, "");
                        return;
                }
                f->candidates[f->candidate_count++] = f->address;
                flow_move(f, FLOW_DIAL);
                return;
        }
        if (w->resolving >= WARD_RESOLVING_MAX) {
                refuse(f, GATE_LOOKUPS, "too many names are being resolved at a time");
                return;
        }
        flow_move(f, FLOW_RESOLVE);
        f->lookup.done = resolved;
        f->lookup.running = &w->resolving;
        if (resolve_begin(&f->lookup, f->name, &sent) == -EBUSY)
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
        flow_close_attempts(f);
        char host[HOSTNAME_SIZE];
        flow_host(f, host);
        f->host = meter_host(&f->ward->hosts, host, f->port, f->rule);
        f->host->active++;
        f->host->connections++;
        f->ward->totals.connections++;
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
                if (attempt(f, slot, &f->candidates[f->candidate_next++]))
                        running = true;
        }
        if (!running)
                refuse(f, GATE_UNREACHABLE,
                       f->starved ? "the gate has no descriptors left" : "no address of it accepts connections");
        else if (f->candidate_next < f->candidate_count && (f->attempts[0] < 0 || f->attempts[1] < 0))
                flow_wake(f, DIAL_NEXT_MS);
}
