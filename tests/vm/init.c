/* The first process of the test guest: a static program in the initramfs.
 *
 * It loads the modules that the host named, mounts the root disk and the kernel's file systems, unpacks the second
 * disk (a tar of the checkout) over the root, runs one command in a cgroup of its own and sends everything that the
 * command prints, then its exit status, to the host over one virtio-serial port.
 *
 * Always: the host hears a frame 'x' with a status, or the machine stops by itself and the host sees the stream end.
 * A frame is one byte of kind ('o' output, 'm' words of this program, 'x' exit status), four bytes of length, lowest
 * first, and the bytes. Never: run the command when a part of the guest is missing; a test that passes on half a
 * machine proves nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONFIG_MAX 65536
#define LIST_MAX   512
#define PORT       "/dev/vport0p1"
#define CGROUP     "/sys/fs/cgroup"
#define DRAIN_MS   300

/* What the host asks for: NUL-terminated `key=value` records in /config. */
static struct {
        char text[CONFIG_MAX + 1];
        char *modules[LIST_MAX + 1];
        char *env[LIST_MAX + 1];
        char *argv[LIST_MAX + 1];
        size_t n_modules, n_env, n_argv;
        const char *cwd;
        time_t now; /* the host's clock when the machine was started */
} config;

static int port = -EBADF;

static void write_all(int fd, const char *data, size_t size) {
        while (size > 0) {
                ssize_t n = write(fd, data, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                data += n;
                size -= (size_t)n;
        }
}

static void send_frame(char kind, const char *data, size_t size) {
        char head[5] = {kind, (char)(size & 0xff), (char)(size >> 8 & 0xff), (char)(size >> 16 & 0xff),
                        (char)(size >> 24 & 0xff)};

        if (port < 0)
                return;
        write_all(port, head, sizeof head);
        write_all(port, data, size);
}

static _Noreturn void stop(void) {
        (void)close(port);
        (void)usleep(100 * 1000);
        (void)reboot(RB_AUTOBOOT); /* QEMU has -no-reboot: a reset ends it */
        for (;;)
                (void)pause();
}

/* Says what is missing, to the host and to the kernel's log, and stops the machine. */
static _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...) {
        char text[512];
        int error = errno, log;
        va_list args;
        size_t used;

        va_start(args, format);
        (void)vsnprintf(text, sizeof text, format, args);
        va_end(args);
        used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, ": %s\n", strerror(error));
        send_frame('m', text, strlen(text));
        log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
        if (log >= 0)
                write_all(log, text, strlen(text));
        stop();
}

static void config_add(char **list, size_t *n, char *value) {
        if (*n >= LIST_MAX) {
                errno = E2BIG;
                fail("cannot take more than %d values of a kind from the host", LIST_MAX);
        }
        list[(*n)++] = value;
}

static void config_read(void) {
        int fd = open("/config", O_RDONLY | O_CLOEXEC);
        ssize_t size = fd < 0 ? -1 : read(fd, config.text, CONFIG_MAX);

        if (size < 0)
                fail("cannot read /config in the initramfs");
        (void)close(fd);
        for (char *p = config.text; p < config.text + size; p += strlen(p) + 1) {
                if (strncmp(p, "module=", 7) == 0)
                        config_add(config.modules, &config.n_modules, p + 7);
                else if (strncmp(p, "env=", 4) == 0)
                        config_add(config.env, &config.n_env, p + 4);
                else if (strncmp(p, "arg=", 4) == 0)
                        config_add(config.argv, &config.n_argv, p + 4);
                else if (strncmp(p, "cwd=", 4) == 0)
                        config.cwd = p + 4;
                else if (strncmp(p, "now=", 4) == 0)
                        config.now = (time_t)strtoll(p + 4, NULL, 10);
        }
}

static void modules_load(void) {
        for (size_t i = 0; i < config.n_modules; i++) {
                int fd = open(config.modules[i], O_RDONLY | O_CLOEXEC);

                if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
                        fail("cannot load module %s", config.modules[i]);
                (void)close(fd);
        }
}

/* Devices appear some milliseconds after their driver. */
static void wait_for(const char *path) {
        for (int i = 0; i < 2000 && access(path, F_OK) < 0; i++)
                (void)usleep(5 * 1000);
        if (access(path, F_OK) < 0)
                fail("device %s did not appear", path);
}

/* The stream to the host is the first port of the only serial device, whose number depends on the other devices. */
static void port_open(void) {
        for (int i = 0; i < 2000 && port < 0; i++, (void)usleep(5 * 1000)) {
                DIR *dev = opendir("/dev");
                struct dirent *entry;
                unsigned device, nr;

                while (dev != NULL && port < 0 && (entry = readdir(dev)) != NULL)
                        if (sscanf(entry->d_name, "vport%up%u", &device, &nr) == 2 && nr == 1)
                                port = openat(dirfd(dev), entry->d_name, O_RDWR | O_CLOEXEC);
                if (dev != NULL)
                        (void)closedir(dev);
        }
        if (port < 0)
                fail("cannot find the serial port to the host");
}

static void must_mount(const char *type, const char *source, const char *target, unsigned long flags,
                       const char *data) {
        if (mkdir(target, 0755) < 0 && errno != EEXIST)
                fail("cannot make mount point %s", target);
        if (mount(source, target, type, flags, data) < 0)
                fail("cannot mount %s on %s", type, target);
}

static void root_enter(void) {
        wait_for("/dev/vda");
        must_mount("ext4", "/dev/vda", "/root", MS_NOATIME, "noinit_itable");
        must_mount(NULL, "/dev", "/root/dev", MS_MOVE, NULL);
        if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
                fail("cannot make the disk the root");
}

static void mounts_make(void) {
        const unsigned long quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC;

        must_mount("proc", "proc", "/proc", quiet, NULL);
        must_mount("sysfs", "sysfs", "/sys", quiet, NULL);
        must_mount("securityfs", "securityfs", "/sys/kernel/security", quiet, NULL);
        must_mount("cgroup2", "cgroup2", CGROUP, quiet, "nsdelegate,memory_recursiveprot");
        must_mount("devpts", "devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
        must_mount("tmpfs", "tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
        must_mount("mqueue", "mqueue", "/dev/mqueue", quiet, NULL);
        must_mount("tmpfs", "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755,size=20%");
        if (symlink("/proc/self/fd", "/dev/fd") < 0 || symlink("/proc/self/fd/0", "/dev/stdin") < 0 ||
            symlink("/proc/self/fd/1", "/dev/stdout") < 0 || symlink("/proc/self/fd/2", "/dev/stderr") < 0)
                fail("cannot make the links in /dev");
}

static void put(const char *path, const char *text) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                fail("cannot write '%s' to %s", text, path);
        (void)close(fd);
}

/* As a service manager leaves it: controllers on below the root, nobody but us in the root itself. */
static void cgroups_make(void) {
        static const char *const controllers[] = {"+cpuset", "+cpu", "+io", "+memory", "+pids"};

        for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
                put(CGROUP "/cgroup.subtree_control", controllers[i]);
        if (mkdir(CGROUP "/check.scope", 0755) < 0)
                fail("cannot make cgroup check.scope");
}

static void loopback_up(void) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

        if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
                fail("cannot bring up lo");
        (void)close(fd);
}

static void clock_set(void) {
        struct timespec now;

        if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
                fail("cannot read the clock");
        now.tv_sec += config.now;
        if (clock_settime(CLOCK_REALTIME, &now) < 0)
                fail("cannot set the clock");
}

/* Runs in the child. The command gets /dev/null and our pipe, nothing else. */
static _Noreturn void command_exec(char **argv, int out, bool scoped) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int status;

        (void)setsid();
        if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
                _exit(125);
        if (scoped)
                put(CGROUP "/check.scope/cgroup.procs", "0");
        if (scoped && chdir(config.cwd) < 0) {
                (void)dprintf(2, "cannot enter %s in the guest: %s\n", config.cwd, strerror(errno));
                _exit(125);
        }
        (void)execvp(argv[0], argv);
        status = errno == ENOENT ? 127 : 126;
        (void)dprintf(2, "cannot run %s in the guest: %s\n", argv[0], strerror(errno));
        _exit(status);
}

/* Passes on what is there; false at the end of the stream or after `timeout` milliseconds of silence. */
static bool relay(int in, int timeout) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        static char buffer[16384];
        ssize_t n;

        if (poll(&p, 1, timeout) <= 0)
                return false;
        n = read(in, buffer, sizeof buffer);
        if (n <= 0)
                return false;
        send_frame('o', buffer, (size_t)n);
        return true;
}

/* Runs a command to its end, reaping every orphan meanwhile. What it left running may keep the pipe open: after the
 * command itself has ended only what comes without a pause is passed on. */
static int command_run(char **argv, bool scoped) {
        int out[2], status = 0;
        bool over = false, open_end = true;
        pid_t child, gone;

        if (pipe2(out, O_CLOEXEC) < 0)
                fail("cannot make a pipe");
        child = fork();
        if (child < 0)
                fail("cannot fork");
        if (child == 0)
                command_exec(argv, out[1], scoped);
        (void)close(out[1]);
        while (!over) {
                int seen = 0;

                if (open_end && !relay(out[0], 50)) {
                        struct pollfd p = {.fd = out[0]};

                        open_end = !(poll(&p, 1, 0) > 0 && (p.revents & POLLHUP));
                } else if (!open_end)
                        (void)usleep(20 * 1000);
                while ((gone = waitpid(-1, &seen, WNOHANG)) > 0)
                        if (gone == child) {
                                status = seen;
                                over = true;
                        }
        }
        while (relay(out[0], DRAIN_MS))
                ;
        (void)close(out[0]);
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(void) {
        char *unpack[] = {(char *)"tar", (char *)"-xf", (char *)"/dev/vdb", (char *)"-C", (char *)"/", NULL};
        char text[16];
        int status;

        must_mount("devtmpfs", "devtmpfs", "/dev", MS_NOSUID, NULL);
        config_read();
        modules_load();
        port_open();
        root_enter();
        mounts_make();
        cgroups_make();
        loopback_up();
        clock_set();
        if (sethostname("guest", 5) < 0)
                fail("cannot set the hostname");
        if (config.cwd == NULL || config.n_argv == 0) {
                errno = EINVAL;
                fail("cannot find a command in /config");
        }
        clearenv();
        for (size_t i = 0; i < config.n_env; i++)
                if (putenv(config.env[i]) != 0)
                        fail("cannot set %s", config.env[i]);
        wait_for("/dev/vdb");
        if (command_run(unpack, false) != 0) {
                errno = EIO;
                fail("cannot unpack the checkout");
        }
        send_frame('m', "ready\n", 6);
        status = command_run(config.argv, true);
        (void)snprintf(text, sizeof text, "%d", status);
        send_frame('x', text, strlen(text));
        stop();
}
