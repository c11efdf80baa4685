/* The judge's own host: makes namespaces, and has everything put into them in an order that can be undone.
 *
 * Always holds: nothing here touches the network that the machine is connected to; without root the process has no
 * capability any more when world_make returns. Facts that a host cannot have are not said. */
#include "verify/world.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/kernel.h"
#include "verify/world-own.h"

#define SECRET_NAME "STOCKADE_VERIFY_SECRET"

static const char *const canary_names[] = {
        [CANARY_ROOT] = "root",       [CANARY_HOME] = "home", [CANARY_TMP] = "tmp", [CANARY_ENV] = "env",
        [CANARY_SIBLING] = "sibling", [CANARY_KEY] = "key",   [CANARY_SHM] = "shm", [CANARY_SECRET] = "secret",
};
static_assert(ELEMENTSOF(canary_names) == CANARY_COUNT, "every canary has a name");

/* --- children --- */

void world_child_tie(pid_t judge) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != judge)
                _exit(1); /* it has ended in between */
}

void world_child_begin(pid_t judge, int a, int b) {
        int low = MAX(MIN(a, b), 2), high = MAX(MAX(a, b), 2);

        world_child_tie(judge);
        (void)setsid(); /* the terminal's keys are for the judge */
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; i < 3 && null >= 0; i++)
                (void)dup2(null, i);
        if (low > 3)
                (void)kernel_close_range(3, (unsigned)low - 1, 0);
        if (high > low + 1)
                (void)kernel_close_range((unsigned)low + 1, (unsigned)high - 1, 0);
        (void)kernel_close_range((unsigned)high + 1, ~0U, 0);
}

void world_child_end(pid_t *pid) {
        if (*pid <= 0)
                return;
        (void)kill(*pid, SIGKILL);
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
                ;
        *pid = 0;
}

int world_drop_capabilities(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct none[2] = {{0}, {0}};

        /* what is ambient goes with what is permitted */
        return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* --- names and secrets --- */

static int random_hex(char *ret, size_t digits) {
        uint8_t bytes[32];

        assert(digits <= 2 * sizeof bytes);
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
                return -errno;
        for (size_t i = 0; i < digits; i++)
                ret[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
        ret[digits] = '\0';
        return 0;
}

static int make_names(struct world *w, struct err *err) {
        struct stat st = {0};

        int r = random_hex(w->nonce, 16);
        for (int i = 0; i < CANARY_COUNT && r == 0; i++) {
                char end[32];

                r = random_hex(end, 24);
                (void)snprintf(w->tokens[i], sizeof w->tokens[i], "canary-%s-%s", canary_names[i], end);
        }
        if (r == 0 && stat("/proc/self/ns/pid", &st) < 0)
                r = -errno;
        if (r < 0)
                return err_set(err, r, "could not make names for a world");
        w->host_pidns = st.st_ino;
        return 0;
}

/* --- namespaces --- */

static int write_map(const char *path, unsigned id) {
        char text[48];

        (void)snprintf(text, sizeof text, "%u %u 1", id, id);
        return fd_write_at(AT_FDCWD, path, text);
}

/* The caller's own ids, as they are: nobody there is anyone else. */
int world_enter_user_namespace(struct err *err) {
        uid_t uid = geteuid();
        gid_t gid = getegid();

        if (unshare(CLONE_NEWUSER) < 0) {
                (void)err_set(err, -errno, "cannot make a user namespace");
                return err_hint(err, "'stockade doctor' shows whether this host permits user namespaces");
        }
        int r = fd_write_at(AT_FDCWD, "/proc/self/setgroups", "deny");
        if (r == 0)
                r = write_map("/proc/self/uid_map", uid);
        if (r == 0)
                r = write_map("/proc/self/gid_map", gid);
        return r < 0 ? err_set(err, r, "could not map ids into a user namespace") : 0;
}

static int enter_namespaces(struct err *err) {
        int r = geteuid() == 0 ? 0 : world_enter_user_namespace(err);

        if (r < 0)
                return r;
        if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
                return err_set(err, -errno, "cannot make namespaces for the judge");
        /* cut off from the machine, then shared among themselves: a mount that gets out of a sandbox shows here */
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0)
                return err_set(err, -errno, "could not set the propagation of mounts");
        /* shared memory of its own, so that what is planted there is nobody else's business */
        (void)mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=16m");
        return 0;
}

/* --- facts --- */

void world_fact(struct world *w, const char *key, const char *format, ...) {
        size_t i, n = strlen(key);
        va_list args;

        for (i = 0; i < w->fact_count; i++)
                if (strncmp(w->facts[i], key, n) == 0 && w->facts[i][n] == '=')
                        break;
        assert(i < WORLD_FACTS_MAX);
        w->fact_count = MAX(w->fact_count, i + 1);
        (void)snprintf(w->facts[i], sizeof w->facts[i], "%s=", key);
        va_start(args, format);
        (void)vsnprintf(w->facts[i] + n + 1, sizeof w->facts[i] - n - 1, format, args);
        va_end(args);
}

size_t world_words(const struct world *w, const char *words[], size_t max) {
        size_t n = MIN(w->fact_count, max);

        for (size_t i = 0; i < n; i++)
                words[i] = w->facts[i];
        return n;
}

static void say_network(struct world *w) {
        static const char *const said[][2] = {
                {"host-address", WORLD_NEAR},
                {"other-address", WORLD_FAR},
                {"good-name", "good.test"},
                {"good-address", WORLD_GOOD},
                {"second-name", "second.test"},
                {"second-address", WORLD_SECOND},
                {"tls-name", "tls.test"},
                {"http-port", "80"},
                {"tls-port", "443"},
                {"evil-name", "evil.test"},
                {"evil-address", WORLD_EVIL},
                {"dns-address", WORLD_DNS},
                {"dns-port", "53"},
                {"near-name", "near.test"},
                {"inner-name", "inner.test"},
                {"private-name", "private.test"},
                {"private-address", WORLD_PRIVATE},
                {"mixed-name", "mixed.test"},
                {"loop-name", "loop.test"},
                {"mapped-name", "mapped.test"},
                {"rebind-name", "rebind.test"},
                {"redirect-name", "redirect.test"},
                {"metadata-name", "metadata.test"},
                {"metadata-address", WORLD_METADATA},
                {"gone-name", "gone.test"},
        };
        static const char *const said6[][2] = {{"host-address6", WORLD_NEAR6},
                                               {"other-address6", WORLD_FAR6},
                                               {"good-address6", WORLD_GOOD6},
                                               {"evil-address6", WORLD_EVIL6}};

        for (size_t i = 0; i < ELEMENTSOF(said); i++)
                world_fact(w, said[i][0], "%s", said[i][1]);
        for (size_t i = 0; i < ELEMENTSOF(said6) && world_own(w)->v6; i++)
                world_fact(w, said6[i][0], "%s", said6[i][1]);
        w->ports.tcp = w->heard->tcp;
        w->ports.udp = w->heard->udp;
        w->ports.far_tcp = w->heard->far_tcp;
        w->ports.far_udp = w->heard->far_udp;
        w->ports.http = 80;
        w->ports.tls = 443;
        world_fact(w, "tcp-port", "%u", w->ports.tcp);
        world_fact(w, "udp-port", "%u", w->ports.udp);
        world_fact(w, "other-port", "%u", w->ports.far_tcp);
        world_fact(w, "other-udp-port", "%u", w->ports.far_udp);
        world_fact(w, "unix-path", "%s/listener.sock", w->folder);
        world_fact(w, "unix-abstract", "%s", w->nonce);
        world_fact(w, "token", "%s", w->nonce);
}

static void say_facts(struct world *w) {
        static const enum canary files[] = {CANARY_ROOT, CANARY_HOME, CANARY_TMP};

        world_fact(w, "host-pidns", "%lu", w->host_pidns);
        world_fact(w, "host-pid", "%d", (int)w->victim);
        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                if (w->paths[files[i]][0]) {
                        char key[32];

                        (void)snprintf(key, sizeof key, "canary-%s", canary_names[files[i]]);
                        world_fact(w, key, "%s", w->paths[files[i]]);
                }
        say_network(w);
        world_fact(w, "secret-name", SECRET_NAME);
        world_fact(w, "mark", "left-%s", w->nonce); /* what a run leaves is told from what we planted */
        world_fact(w, "mark-key", "%lu", 0x4d4b0000 | strtoul(w->nonce + 12, NULL, 16));
        world_fact(w, "writable", WORLD_WRITABLE);
}

/* --- all of it --- */

static int make_listener(struct world *w, struct err *err) {
        int r = world_net_make(&world_own(w)->far, &world_own(w)->v6, err);

        if (r < 0)
                return r;
        w->heard = mmap(NULL, sizeof *w->heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (w->heard == MAP_FAILED) {
                w->heard = NULL;
                return err_set(err, -errno, "could not share memory with the listener");
        }
        world_files_resolver(w);
        return world_listen_start(w, err);
}

/* Namespaces and sockets need capabilities; what comes after that needs to be done without. */
static int make(struct world *w, const char *probe, struct err *err) {
        int r = make_names(w, err);

        if (r == 0)
                r = world_files_folder(w, err);
        if (r == 0)
                r = enter_namespaces(err);
        if (r == 0)
                r = make_listener(w, err);
        if (r == 0 && geteuid() != 0) {
                r = world_drop_capabilities();
                if (r < 0)
                        return err_set(err, r, "could not drop capabilities");
        }
        if (r == 0)
                r = world_files_plant(w, probe, err);
        if (r == 0)
                r = world_victim_start(w, err);
        if (r < 0)
                return r;
        world_files_memory(w);
        say_facts(w);
        world_net_settle(); /* last: it had time until here */
        return setenv(SECRET_NAME, w->tokens[CANARY_ENV], 1) < 0 ? err_set(err, -errno, "could not plant a variable")
                                                                 : 0;
}

int world_make(struct world *w, const char *probe, struct err *err) {
        struct world_own *own = calloc(1, sizeof *own);

        *w = (struct world){.private = own};
        if (!own)
                return err_set(err, -ENOMEM, "could not make a world");
        *own = (struct world_own){.manifest = -EBADF, .far = -EBADF, .control = -EBADF, .shm = -1};
        world_files_sweep();
        int r = make(w, probe, err);
        if (r < 0)
                world_remove(w);
        return r;
}

void world_remove(struct world *w) {
        struct world_own *own = world_own(w);

        if (!own)
                return;
        world_victim_stop(w);
        world_child_end(&w->listener);
        fd_close(&own->control);
        fd_close(&own->far);
        world_files_remove(w);
        if (w->heard)
                (void)munmap(w->heard, sizeof *w->heard);
        (void)unsetenv(SECRET_NAME);
        free(own);
        w->heard = NULL;
        w->private = NULL;
}
