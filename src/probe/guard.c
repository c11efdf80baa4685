/* Where are we? The probe attacks what it runs on, so it first makes sure that this is what the judge made for it.
 *
 * Three answers. Nothing at all is tried unless the judge said which pid namespace is its own (host-pidns=N), or if
 * this program is set-user-ID: then anybody could borrow its owner's rights. In the judge's own pid namespace, or in
 * the machine's first, only harmless attempts run, and only with control=yes: it is a positive control. Everything else
 * runs only in a sandbox: another pid namespace, a user namespace, and nobody in it who is, or could become, the host's
 * root; or another kernel than the judge's, if the judge said which one is its own (host-build=, host-boot=).
 *
 * What is read is believed only if it comes from the kernel (by the type of the file system), and whatever cannot be
 * told is taken as "no". */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "probe/probe.h"

enum {
        PROC_MAGIC = 0x9fa0,
        NAMESPACE_MAGIC = 0x6e736673,
};
/* The kernel gives these inodes to the namespaces that it makes at boot. */
#define FIRST_PID_NAMESPACE  0xeffffffcUL
#define FIRST_USER_NAMESPACE 0xeffffffdUL

/* The inode of the namespace at a path of /proc; 0 if it cannot be told. */
static unsigned long namespace_at(const char *path) {
        struct statfs fs;
        struct stat st;

        if (statfs(path, &fs) < 0 || (unsigned long)fs.f_type != NAMESPACE_MAGIC || stat(path, &st) < 0)
                return 0;
        return st.st_ino;
}

/* What the judge said; 0 if it said nothing, or no number. */
static unsigned long host_namespace(void) {
        const char *text = probe_fact("host-pidns");

        if (!text || !*text || strspn(text, "0123456789") != strlen(text))
                return 0;
        return strtoul(text, NULL, 10);
}

static ssize_t read_proc(const char *path, char *text, size_t size) {
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct statfs fs;

        if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != PROC_MAGIC)
                return -1;
        ssize_t n = fd_read_full(fd, text, size - 1);
        text[n > 0 ? n : 0] = '\0';
        return n;
}

/* Is this id one of ours? Yes, if it cannot be told. */
static bool is_mapped(unsigned long id) {
        char text[8192], *line = text;

        if (read_proc("/proc/self/uid_map", text, sizeof text) <= 0)
                return true;
        while (line && *line) {
                unsigned long inside, outside, count;

                if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) != 3 ||
                    (id >= inside && id - inside < count))
                        return true;
                line = strchr(line, '\n');
                line += line != NULL;
        }
        return false;
}

bool probe_capable(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[2] = {{0}};

        return syscall(SYS_capget, &header, sets) < 0 || sets[0].effective != 0 || sets[1].effective != 0;
}

/* Without this capability every call that mounts is refused, and a try is harmless. */
static bool may_mount(void) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct sets[2] = {{0}};

        return syscall(SYS_capget, &header, sets) < 0 || (sets[0].effective & 1u << CAP_SYS_ADMIN) != 0;
}

/* Are we the host's root, or could we become it, through any number of user namespaces? A map shows only the nearest.
 * But /proc/version belongs to the host's root, and its owner is shown as what that is called here: by the overflow id
 * if that has no name here, and so by no id of ours. The overflow id may be a name too: then we must not have it, nor
 * be able to take it. */
static bool may_be_host_root(void) {
        unsigned long overflow;
        char text[32];
        struct statfs fs;
        struct stat st;
        uid_t real, effective, saved;

        if (read_proc("/proc/sys/kernel/overflowuid", text, sizeof text) <= 0)
                return true;
        overflow = strtoul(text, NULL, 10);
        if (statfs("/proc/version", &fs) < 0 || fs.f_type != PROC_MAGIC || stat("/proc/version", &st) < 0 ||
            st.st_uid != overflow)
                return true;
        if (getresuid(&real, &effective, &saved) < 0 || real == overflow || effective == overflow || saved == overflow)
                return true;
        return probe_capable() && is_mapped(overflow);
}

/* Is this another kernel than the judge's? Nobody in a namespace can change what a kernel calls its build, nor the
 * number of its boot; either must be known to differ. Then whoever we are here is nobody on the host. */
static bool own_kernel(void) {
        const char *build = probe_fact("host-build"), *boot = probe_fact("host-boot");
        struct utsname u;
        char text[64];

        if (build && *build && uname(&u) == 0 && u.version[0] && !str_eq(u.version, build))
                return true;
        if (!boot || strlen(boot) != 36 || read_proc("/proc/sys/kernel/random/boot_id", text, sizeof text) < 36)
                return false;
        return strncmp(text, boot, 36) != 0;
}

bool probe_own_init(void) {
        unsigned long host = host_namespace(), own = namespace_at("/proc/self/ns/pid");

        if (own_kernel())
                return host != 0;
        return host != 0 && own != 0 && own != host && own != FIRST_PID_NAMESPACE;
}

static bool set_id(void) {
        return getauxval(AT_SECURE) != 0 || getuid() != geteuid() || getgid() != getegid();
}

const char *probe_refuses(void) {
        const char *control = probe_fact("control");

        if (set_id())
                return "this program is set-user-ID, and its owner's rights are not for everybody";
        if (host_namespace() == 0)
                return "it attacks what it runs on, and is started by `stockade verify`";
        if (!own_kernel() && namespace_at("/proc/self/ns/pid") == 0)
                return "it cannot tell which pid namespace this is";
        if (!probe_own_init() && !(control && str_eq(control, "yes")))
                return "this is the pid namespace of the judge, and no sandbox";
        return NULL;
}

const char *probe_guard(void) {
        unsigned long user = namespace_at("/proc/self/ns/user");

        if (probe_refuses())
                return probe_refuses();
        if (!probe_own_init())
                return "this is the host's pid namespace";
        if (own_kernel())
                return NULL;
        if (user == 0 || user == FIRST_USER_NAMESPACE)
                return "this is the host's user namespace, or it cannot be told";
        if (may_be_host_root())
                return "somebody here may be the host's root, or it cannot be told";
        return NULL;
}

void probe_wait_for_end(void) {
        for (unsigned i = 0; i < 60 || !probe_guard(); i++)
                (void)sleep(1);
        _exit(0);
}

/* A pid can be somebody else's after its process has ended. Where others than the sandbox's could be hit, we take only
 * a process that has the victim's name, or that is in our own network namespace, which is the judge's. */
pid_t probe_victim(void) {
        unsigned long pid = probe_number("host-pid", 0);
        char path[64], name[32] = "";

        if (pid <= 1 || pid > INT_MAX)
                return 0;
        if (!probe_guard())
                return (pid_t)pid;
        (void)snprintf(path, sizeof path, "/proc/%lu/comm", pid);
        if (fd_read_at(AT_FDCWD, path, name, sizeof name) > 0 && str_eq(name, "verify-victim"))
                return (pid_t)pid;
        (void)snprintf(path, sizeof path, "/proc/%lu/ns/net", pid);
        unsigned long theirs = namespace_at(path);
        return theirs != 0 && theirs == namespace_at("/proc/self/ns/net") ? (pid_t)pid : 0;
}

bool probe_own_mounts(struct result *r) {
        if (!probe_guard() || !may_mount())
                return true;
        if (unshare(CLONE_NEWNS) < 0)
                probe_note(r, "no mount namespace of our own: %s", strerror(errno));
        else if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) /* itself a use of the call */
                probe_refused(r, errno, "even to make mounts private: %s", strerror(errno));
        else
                return true;
        return false;
}
