/* The programs of drivers: where they are, and what one of them removes when its sandbox has ended.
 *
 * A box lives and dies with the sandbox's pid namespace and cgroups, so that nothing has to be done at its end.
 * Docker's does not: its engine starts it elsewhere. There the driver's program is asked to remove what is left, and
 * until it has done so the sandbox's host ids are nobody else's. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/paths.h"
#include "cell/spawn.h"
#include "warden/warden.h"

#define DESTROY_MS 30000

int box_find(const struct warden *w, enum driver driver, char ret[PATH_MAX], struct err *err) {
        char name[64];

        (void)snprintf(name, sizeof name, "stockade-box-%s", driver_name(driver));
        if (w->boxes) {
                int n = snprintf(ret, PATH_MAX, "%s/%s", w->boxes, name);
                if (n > 0 && n < PATH_MAX && access(ret, X_OK) == 0)
                        return 0;
        } else if (paths_helper(name, ret, PATH_MAX, err) == 0)
                return 0;
        (void)err_set(err, ERR_UNENFORCED, "the driver '%s' is not installed: there is no program '%s'",
                      driver_name(driver), name);
        return err_hint(err, "install the part of Stockade that has it, or ask for another driver");
}

void box_options(const struct warden *w, enum driver driver, struct box_options *o, char *ret[BOX_OPTIONS + 1]) {
        size_t n = 0;

        if (driver == DRIVER_DOCKER) {
                (void)snprintf(o->text[0], sizeof o->text[0], "socket=%s", w->conf.docker_socket);
                (void)snprintf(o->text[1], sizeof o->text[1], "runtime=%s", w->conf.docker_runtime);
                n = 2;
        }
        if ((driver == DRIVER_MICROVM || driver == DRIVER_FIRECRACKER) && w->conf.microvm_image[0])
                (void)snprintf(o->text[n++], sizeof o->text[0], "image=%s", w->conf.microvm_image);
        for (size_t i = 0; i < n; i++)
                ret[i] = o->text[i];
        ret[n] = NULL;
}

bool box_is_elsewhere(const struct sandbox *s) {
        return s->driver == DRIVER_DOCKER;
}

static void finish(struct sandbox *s, bool gone) {
        struct box_end *e = TAKE_PTR(s->box_end);

        loop_timer_clear(s->w->loop, &e->timer);
        if (e->exit.on)
                loop_unwatch(s->w->loop, &e->exit);
        fd_close(&e->pidfd);
        void (*done)(struct sandbox *, bool) = e->done;
        free(e);
        done(s, gone);
}

static void exited(struct loop_watch *watch, uint32_t events) {
        struct box_end *e = LOOP_OWNER(watch, struct box_end, exit);
        int status = -1;

        (void)events;
        (void)waitpid(e->pid, &status, WNOHANG);
        if (status != 0)
                log_line(LOG_LEVEL_ERROR, e->s->id, "the driver '%s' could not remove its box (status 0x%x)",
                         driver_name(e->s->driver), (unsigned)status);
        finish(e->s, status == 0);
}

static void too_long(struct loop_timer *timer) {
        const struct box_end *e = LOOP_OWNER(timer, struct box_end, timer);

        (void)kernel_pidfd_send_signal(e->pidfd, SIGKILL, NULL);
}

static int start(struct box_end *e, struct err *err) {
        static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        char program[PATH_MAX];
        int r = box_find(e->s->w, e->s->driver, program, err);

        if (r < 0)
                return r;
        struct box_options options;
        char *argv[4 + BOX_OPTIONS + 1] = {program, (char *)(uintptr_t) "destroy", e->s->id,
                                           (char *)(uintptr_t)(e->s->served ? "served=yes" : "served=no")};
        char *env[] = {path, NULL};
        box_options(e->s->w, e->s->driver, &options, argv + 4);
        struct spawn_how how = {.program = program, .argv = argv, .env = env, .deaf = false};
        r = spawn_start(&how, &e->pid, &e->pidfd, err);
        if (r < 0)
                return r;
        e->pidfd = high_fd(e->pidfd);
        e->exit.ready = exited;
        e->timer.fire = too_long;
        loop_timer_set(e->s->w->loop, &e->timer, loop_now(e->s->w->loop) + DESTROY_MS);
        r = loop_watch(e->s->w->loop, &e->exit, e->pidfd, EPOLLIN);
        return r < 0 ? err_set(err, r, "could not watch what removes a box") : 0;
}

void box_end(struct sandbox *s, void (*done)(struct sandbox *s, bool gone)) {
        struct err err = {0};

        s->box_end = calloc(1, sizeof *s->box_end);
        if (!s->box_end) {
                done(s, false);
                return;
        }
        *s->box_end = (struct box_end){.s = s, .pidfd = -EBADF, .done = done};
        if (start(s->box_end, &err) < 0) {
                log_err(LOG_LEVEL_ERROR, s->id, &err);
                finish(s, false);
        }
}
