/* What clients hear while the operator cannot begin: the reason and the next step, instead of silence. Nothing that
 * they send is looked at, so that it does not matter what state anything is in.
 *
 * Must never: wait for one client longer than a moment; touch the store, the ledger or the warden. */
#include "operator/sick.h"

#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "operator/call.h"
#include "wire/local.h"

#define SICK_MS    5000 /* then it is looked at again */
#define REQUEST_MS 100  /* for a client that has connected to have sent its request */

static uint64_t now_ms(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void make_answer(const struct err *why, struct buf *ret) {
        _cleanup_buf_ struct buf b = {0};
        struct json j = {.out = &b};

        json_open(&j, NULL, '{');
        json_bool(&j, "ok", false);
        json_open(&j, "error", '{');
        json_str(&j, "code", "failed");
        json_str(&j, "message", why->text);
        json_str(&j, "hint", why->hint[0] ? why->hint : "the daemon's log says more");
        json_close(&j, '}');
        json_close(&j, '}');
        if (buf_ok(&b))
                local_put(ret, LOCAL_ANSWER, b.data, b.size);
}

/* What it sent is taken first: an answer to somebody whose bytes were not read is lost. */
static void answer(int local, const struct buf *text) {
        static uint8_t rest[4096];
        _cleanup_fd_ int client = accept4(local, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct pollfd p = {.fd = client, .events = POLLIN};

        if (client < 0)
                return;
        if (poll(&p, 1, REQUEST_MS) > 0)
                for (unsigned i = 0; i < LOCAL_FRAME_MAX / sizeof rest && read(client, rest, sizeof rest) > 0; i++)
                        ;
        (void)send(client, text->data, text->size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void sick_answer(int local, int warden, const struct err *why) {
        struct pollfd p[] = {{.fd = warden, .events = POLLIN}, {.fd = local, .events = POLLIN}};
        _cleanup_buf_ struct buf text = {0};
        uint64_t end = now_ms() + SICK_MS, now;

        make_answer(why, &text);
        while (buf_ok(&text) && (now = now_ms()) < end) {
                if (poll(p, ELEMENTSOF(p), (int)(end - now)) < 0 && errno != EINTR)
                        return;
                if (p[0].revents)
                        return;
                if (p[1].revents)
                        answer(local, &text);
        }
}
