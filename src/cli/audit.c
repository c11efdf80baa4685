/* Landlock's denials from the kernel's audit stream: which path, which right, seen from outside. Needs root, a kernel
 * with Landlock ABI 7, and auditing switched on; without one of them there is no source, and the record says so.
 *
 * Records are text. AUDIT_LANDLOCK_DOMAIN ties a domain to the pid that made it; AUDIT_LANDLOCK_ACCESS names the
 * domain, what was blocked and on what. Paths are chosen by the sandbox: they are copied as data and escaped when
 * shown. */
#include <linux/audit.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel.h"
#include "cli/audit.h"

#define GROUP_READLOG 1

static int open_socket(unsigned groups) {
        struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = groups};
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_AUDIT);

        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int audit_open(void) {
        if (geteuid() != 0 || kernel_landlock_abi() < 7)
                return -EOPNOTSUPP;
        return open_socket(1U << (GROUP_READLOG - 1));
}

/* Asks whether auditing is on. The kernel starts a thread to answer, which takes milliseconds: only for a record. */
bool audit_is_on(void) {
        struct {
                struct nlmsghdr header;
                char room[512];
        } message = {.header = {.nlmsg_len = NLMSG_LENGTH(0), .nlmsg_type = AUDIT_GET, .nlmsg_flags = NLM_F_REQUEST}};
        _cleanup_fd_ int fd = open_socket(0);
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (fd < 0 || send(fd, &message, message.header.nlmsg_len, 0) < 0)
                return false;
        for (int i = 0; i < 4 && poll(&p, 1, 50) == 1; i++) {
                ssize_t n = recv(fd, &message, sizeof message, MSG_DONTWAIT);
                struct audit_status status = {0};

                if (n < (ssize_t)NLMSG_LENGTH(sizeof status.mask + sizeof status.enabled) ||
                    message.header.nlmsg_type != AUDIT_GET)
                        continue;
                memcpy(&status, NLMSG_DATA(&message.header), MIN((size_t)n - NLMSG_HDRLEN, sizeof status));
                return status.enabled != 0;
        }
        return false;
}

/* The value after " key=", up to the next space, quotes removed. */
static bool field(const char *text, const char *key, char *ret, size_t size) {
        size_t n = strlen(key);

        for (const char *p = text; (p = strstr(p, key)); p += n) {
                if ((p != text && p[-1] != ' ') || p[n] != '=')
                        continue;
                p += n + 1;
                bool quoted = *p == '"';
                if (quoted)
                        p++;
                size_t length = strcspn(p, quoted ? "\"" : " ");
                if (length >= size)
                        length = size - 1;
                memcpy(ret, p, length);
                ret[length] = '\0';
                return true;
        }
        return false;
}

static void take_access(const char *text, struct run_outcome *o) {
        char blockers[96], path[160] = "";
        struct run_denial d = {.count = 1};

        if (!field(text, "blockers", blockers, sizeof blockers))
                return;
        bool exec = strstr(blockers, "fs.execute") != NULL;
        if (!field(text, "path", path, sizeof path))
                (void)snprintf(path, sizeof path, "(no path)");
        (void)snprintf(d.what, sizeof d.what, "%.24s %.160s", exec ? "exec" : blockers, path);
        (void)snprintf(d.rule, sizeof d.rule, "%s",
                       exec                          ? "tools.exec"
                       : strstr(blockers, "fs.read") ? "files.read"
                                                     : "files.write");
        (void)snprintf(d.source, sizeof d.source, "landlock audit");
        (void)snprintf(d.text, sizeof d.text, "%s of '%s' was refused (%s)", exec ? "execution" : "use", path,
                       blockers);
        (void)snprintf(d.remedy, sizeof d.remedy, "add the path to %s in the profile", d.rule);
        outcome_deny(o, &d);
}

void audit_take(struct audit *a, const char *text, unsigned type, pid_t pid, struct run_outcome *o) {
        char value[32], own[16];

        if (type == AUDIT_RECORD_DOMAIN && a->domain[0] == '\0') {
                (void)snprintf(own, sizeof own, "%d", pid);
                if (field(text, "pid", value, sizeof value) && str_eq(value, own))
                        (void)field(text, "domain", a->domain, sizeof a->domain);
        }
        if (type == AUDIT_RECORD_ACCESS) {
                if (!field(text, "domain", value, sizeof value))
                        return;
                if (a->domain[0] && str_eq(value, a->domain))
                        take_access(text, o);
                else if (!a->domain[0]) /* the oldest goes: it is another's, or its domain would be known */
                        (void)snprintf(a->waiting[a->waiting_count++ % ELEMENTSOF(a->waiting)], sizeof a->waiting[0],
                                       "%.511s", text);
        }
        if (!a->domain[0])
                return;
        for (size_t i = 0; i < MIN(a->waiting_count, ELEMENTSOF(a->waiting)); i++)
                if (field(a->waiting[i], "domain", value, sizeof value) && str_eq(value, a->domain))
                        take_access(a->waiting[i], o);
        a->waiting_count = 0;
}

void audit_read(int fd, pid_t pid, struct run_outcome *o) {
        static struct audit audit; /* of this run; one per process */
        static char buffer[9000];

        for (int i = 0; i < 256; i++) {
                ssize_t n = recv(fd, buffer, sizeof buffer - 1, MSG_DONTWAIT);
                struct nlmsghdr header;

                if (n < (ssize_t)sizeof header)
                        return;
                memcpy(&header, buffer, sizeof header);
                buffer[n] = '\0';
                audit_take(&audit, buffer + NLMSG_HDRLEN, header.nlmsg_type, pid, o);
        }
}
