/* DNS. Datagrams are taken and answered in batches; each answer goes out from the address that was asked, because
 * clients drop others. Over TCP a question is peeked at until it is whole, so a connection needs no buffer. */
#include "gate/names.h"

#include <sys/socket.h>
#include <unistd.h>

#include "gate/accept.h"
#include "gate/dns.h"

#define BATCH         32
#define BATCHES       4 /* per turn */
#define NAMES_TTL     60
#define QUERIES_MAX   64 /* DNS connections at a time, of all wards */
#define QUERY_TIME_MS 5000
#define ACCEPT_MAX    16
#define QUERY_ROUNDS  16

struct query {
        int fd;
        uint32_t place, generation;
        struct ward *ward; /* NULL: free */
        struct loop_timer timer;
};

static struct query queries[QUERIES_MAX];

/* --- one question --- */

/* q is NULL where the name does not matter. */
static void refused(struct ward *w, const uint8_t *query, const struct dns_question *q, enum gate_reason reason,
                    const char *detail) {
        struct gate_event e = {.reason = reason, .port = 0, .rule = -1};

        if (q && q->named)
                memcpy(e.host, q->name, sizeof e.host);
        else if (q)
                dns_print_name(query, q, e.host);
        (void)snprintf(e.detail, sizeof e.detail, "%s", detail);
        w->sums->totals.lookups_refused++;
        event_refused(w, &e);
}

/* "localhost" and what is below it never leaves the sandbox, so no rule is needed. */
static bool is_local(const char *name) {
        size_t n = strlen(name);

        return str_eq(name, "localhost") || (n > 10 && str_eq(name + n - 10, ".localhost"));
}

static const char *type_text(uint16_t type, char ret[48]) {
        (void)snprintf(ret, 48, "a question of type %u", type);
        return ret;
}

/* Writes the answer to ret and returns its size; 0: say nothing. */
static size_t answer(struct ward *w, const uint8_t *query, size_t size, uint8_t ret[DNS_ANSWER_MAX]) {
        static const char filtered[] = "the sandbox's policy does not allow this name";
        struct dns_question q = {0};
        uint8_t bytes[16];
        char text[48];

        w->sums->totals.lookups++;
        int r = dns_parse(query, size, &q);
        if (r < 0) {
                refused(w, NULL, NULL, GATE_BAD_PROTOCOL, "a malformed DNS question");
                if (r == -ENOMSG)
                        return 0;
                return dns_answer(query, &q, DNS_FORMERR, NULL, 0, 0, NULL, ret);
        }
        if (meter_bucket_has(&w->lookups, loop_now()) == 0) {
                refused(w, NULL, NULL, GATE_LOOKUPS, "");
                return dns_answer(query, &q, DNS_REFUSED, NULL, 0, 0, "too many questions a second", ret);
        }
        meter_bucket_take(&w->lookups, 1);
        if (!q.named) {
                refused(w, query, &q, GATE_BAD_NAME, "a DNS question for something that is not a host name");
                return dns_answer(query, &q, DNS_REFUSED, NULL, 0, 0, filtered, ret);
        }
        bool v6 = q.type == DNS_AAAA, local = is_local(q.name), allowed = local || decide_name(&w->rules, q.name);
        if (!allowed) {
                refused(w, query, &q, GATE_NO_RULE, "");
                if (!(w->flags & GATE_WARD_LEARN))
                        return dns_answer(query, &q, DNS_REFUSED, NULL, 0, 0, filtered, ret);
        }
        if (q.type == DNS_HTTPS || q.type == DNS_SVCB)
                return dns_answer(query, &q, DNS_NOERROR, NULL, 0, NAMES_TTL, NULL, ret);
        if (q.type != DNS_A && q.type != DNS_AAAA) {
                refused(w, query, &q, GATE_QUERY_TYPE, type_text(q.type, text));
                return dns_answer(query, &q, DNS_REFUSED, NULL, 0, 0, "only addresses are looked up", ret);
        }
        if (local) {
                static const uint8_t loopback4[4] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};

                return dns_answer(query, &q, DNS_NOERROR, v6 ? loopback6 : loopback4, 1, NAMES_TTL, NULL, ret);
        }
        int index = w->synth ? synth_index(w->synth, q.name) : -ENOSPC;
        if (index < 0) {
                refused(w, query, &q, GATE_LOOKUPS, "the table of names is full");
                return dns_answer(query, &q, DNS_SERVFAIL, NULL, 0, 0, NULL, ret);
        }
        struct address a;
        synth_address((unsigned)index, v6, &a);
        memcpy(bytes, a.bytes + (v6 ? 0 : 12), v6 ? 16 : 4);
        return dns_answer(query, &q, DNS_NOERROR, bytes, 1, NAMES_TTL, NULL, ret);
}

/* --- UDP --- */

void names_prepare(int fd) {
        int one = 1;

        /* one of them is not for this family */
        (void)setsockopt(fd, SOL_IP, IP_PKTINFO, &one, sizeof one);
        (void)setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
}

/* Keeps of the control data only the address that the question came to, so that the answer comes from there. An IPv4
 * question on an IPv6 socket brings it in both forms; one is enough. */
static void keep_source(struct msghdr *m) {
        union {
                struct in_pktinfo v4;
                struct in6_pktinfo v6;
        } info;
        int level = 0, type = 0;
        size_t size = 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_PKTINFO && !size) {
                        memcpy(&info.v4, CMSG_DATA(c), sizeof info.v4);
                        info.v4.ipi_ifindex = 0;
                        info.v4.ipi_spec_dst = info.v4.ipi_addr;
                        size = sizeof info.v4;
                } else if (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
                        memcpy(&info.v6, CMSG_DATA(c), sizeof info.v6);
                        info.v6.ipi6_ifindex = 0;
                        size = sizeof info.v6;
                } else
                        continue;
                level = c->cmsg_level;
                type = c->cmsg_type;
        }
        m->msg_controllen = 0;
        if (!size)
                return;
        m->msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *c = m->msg_control;
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = level, .cmsg_type = type};
        memcpy(CMSG_DATA(c), &info, size);
}

static unsigned one_batch(struct ward *w) {
        static uint8_t bytes[BATCH][DNS_QUERY_MAX], replies[BATCH][DNS_ANSWER_MAX];
        static struct sockaddr_storage peers[BATCH];
        static union {
                struct cmsghdr align;
                uint8_t bytes[256];
        } controls[BATCH];
        struct iovec in[BATCH], out[BATCH];
        struct mmsghdr messages[BATCH], answers[BATCH];
        unsigned count = 0;

        for (unsigned i = 0; i < BATCH; i++) {
                in[i] = (struct iovec){bytes[i], sizeof bytes[i]};
                messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &peers[i],
                                                           .msg_namelen = sizeof peers[i],
                                                           .msg_iov = &in[i],
                                                           .msg_iovlen = 1,
                                                           .msg_control = controls[i].bytes,
                                                           .msg_controllen = sizeof controls[i].bytes}};
        }
        int n = recvmmsg(w->fds[GATE_DNS], messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++) {
                size_t size = answer(w, bytes[i], messages[i].msg_len, replies[count]);

                if (size == 0)
                        continue;
                keep_source(&messages[i].msg_hdr);
                out[count] = (struct iovec){replies[count], size};
                answers[count] = messages[i];
                answers[count].msg_hdr.msg_iov = &out[count];
                answers[count].msg_hdr.msg_flags = 0;
                count++;
        }
        for (unsigned done = 0; done < count;) {
                int sent = sendmmsg(w->fds[GATE_DNS], answers + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);

                if (sent < 0 && errno == EAGAIN)
                        break;                         /* clients ask again */
                done += sent > 0 ? (unsigned)sent : 1; /* one that cannot be answered is left out */
        }
        return n > 0 ? (unsigned)n : 0;
}

unsigned names_waiting(struct ward *w) {
        unsigned all = 0;

        for (unsigned i = 0; i < BATCHES && w->fds[GATE_DNS] >= 0; i++) {
                unsigned n = one_batch(w);

                all += n;
                if (n < BATCH)
                        break;
        }
        return all;
}

static void udp_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                (void)names_waiting(w);
}

/* --- TCP --- */

static void query_end(struct query *q) {
        fd_close(&q->fd);
        loop_timer_clear(&q->timer);
        q->ward->queries--;
        q->ward = NULL;
}

/* What was said is no question: somebody wanted something else of a server's DNS port. */
static void query_refuse(struct query *q, const char *detail) {
        struct gate_event e = {.reason = GATE_BAD_PROTOCOL, .rule = -1};
        struct address to;

        if (accept_destination(q->fd, &to, &e.port) == 0)
                address_print(&to, e.host);
        (void)snprintf(e.detail, sizeof e.detail, "%s", detail);
        q->ward->sums->totals.refused++;
        event_refused(q->ward, &e);
        query_end(q);
}

/* No more comes. */
static void query_cut(struct query *q) {
        uint8_t byte;

        if (recv(q->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
                query_refuse(q, "a DNS question that never became whole");
        else
                query_end(q);
}

static void query_timeout(struct loop_timer *t) {
        query_cut(LOOP_OWNER(t, struct query, timer));
}

unsigned names_accept(struct ward *w) {
        unsigned i;

        for (i = 0; i < ACCEPT_MAX && w->fds[GATE_DNS_TCP] >= 0 && !w->paused[GATE_DNS_TCP]; i++) {
                struct query *q = NULL;
                _cleanup_fd_ int fd = accept4(w->fds[GATE_DNS_TCP], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

                if (fd < 0) {
                        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                                ward_pause(w, GATE_DNS_TCP);
                        break;
                }
                for (size_t k = 0; k < QUERIES_MAX && !q && w->queries < WARD_QUERIES_MAX; k++)
                        if (!queries[k].ward)
                                q = &queries[k];
                if (!q) {
                        refused(w, NULL, NULL, GATE_LOOKUPS, "too many DNS connections at a time");
                        continue;
                }
                q->generation = (q->generation + 1) & LOOP_GENERATION_MASK;
                q->place = (uint32_t)(q - queries);
                if (loop_watch(fd, EPOLLIN | EPOLLRDHUP, LOOP_QUERY, q->place, q->generation) < 0)
                        continue;
                q->fd = TAKE_FD(fd);
                q->ward = w;
                w->queries++;
                q->timer.fire = query_timeout;
                loop_timer_set(&q->timer, loop_now() + QUERY_TIME_MS);
        }
        return i;
}

static void query_step(struct query *q, uint32_t events) {
        uint8_t bytes[2 + DNS_QUERY_MAX], reply[2 + DNS_ANSWER_MAX];

        for (unsigned i = 0; i < QUERY_ROUNDS; i++) {
                ssize_t n = recv(q->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
                size_t size = n >= 2 ? (size_t)bytes[0] << 8 | bytes[1] : 0;

                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0) {
                        query_end(q);
                        return;
                }
                if (n >= 2 && (size == 0 || size > DNS_QUERY_MAX)) {
                        query_refuse(q, "not DNS on the port of DNS");
                        return;
                }
                if ((size_t)n < 2 + size) {
                        int wanted = (int)MIN(2 + size, sizeof bytes);

                        /* so that we are not woken for every byte; the end of the connection still wakes */
                        (void)setsockopt(q->fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
                        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                                query_cut(q);
                        return;
                }
                int lowest = 1;
                (void)setsockopt(q->fd, SOL_SOCKET, SO_RCVLOWAT, &lowest, sizeof lowest);
                (void)recv(q->fd, NULL, 2 + size, MSG_TRUNC | MSG_DONTWAIT);
                size_t made = answer(q->ward, bytes + 2, size, reply + 2);
                reply[0] = (uint8_t)(made >> 8);
                reply[1] = (uint8_t)made;
                if (made == 0 || send(q->fd, reply, made + 2, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)made + 2) {
                        query_end(q);
                        return;
                }
                loop_timer_set(&q->timer, loop_now() + QUERY_TIME_MS);
        }
}

static void query_event(const struct loop_ref *ref, uint32_t events) {
        struct query *q = ref->index < QUERIES_MAX ? &queries[ref->index] : NULL;

        if (q && q->ward && q->generation == ref->generation)
                query_step(q, events);
}

void names_catch_up(struct ward *w) {
        for (size_t i = 0; i < QUERIES_MAX; i++)
                if (queries[i].ward == w)
                        query_step(&queries[i], 0);
}

static void listen_event(const struct loop_ref *ref, uint32_t events) {
        struct ward *w = ward_at(ref->index, ref->generation);

        (void)events;
        if (w)
                (void)names_accept(w);
}

void names_end_all(struct ward *w) {
        for (size_t i = 0; i < QUERIES_MAX; i++)
                if (queries[i].ward == w)
                        query_end(&queries[i]);
}

void names_init(void) {
        loop_handle(LOOP_DNS, udp_event);
        loop_handle(LOOP_DNS_TCP, listen_event);
        loop_handle(LOOP_QUERY, query_event);
}
