/* Where bench/gate happens: a network namespace with nothing but loopback and one documentation address on it, a mount
 * namespace with our own resolv.conf, and a folder with profiles, configurations and copies of programs. Both
 * namespaces end with the driver. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "bench/gate.h"
#include "bench/tree.h"

#define PROGRAM_MAX (64 << 20)

/* No limit but those that the measurement needs; the gate's own are as wide as they can be. */
static const char place_profile[] = "profile: 1\n"
                                    "name: bench\n"
                                    "files: {read: [/usr, %s]}\n"
                                    "tools: {exec: [/usr, %s]}\n"
                                    "network: {allow: [{host: " GATE_NAME ", private: true, ports: [443, 5000]%s}, "
                                    "{cidr: " GATE_SERVER "/32, ports: [443, 5000]}]}\n"
                                    "limits: {files: %lu, connections: 1M, lookups: 1M}\n";

static const char place_tinyproxy[] = "Port 8888\nListen 127.0.0.1\nTimeout 600\nMaxClients 2000\n"
                                      "LogLevel Critical\nDisableViaHeader Yes\n";

static const char place_squid[] = "http_port 127.0.0.1:3129\nhttp_access allow all\ncache deny all\naccess_log none\n"
                                  "cache_log /dev/null\ncache_store_log none\npid_filename none\n"
                                  "netdb_filename none\npinger_enable off\nclient_db off\nshutdown_lifetime 0 seconds\n"
                                  "dns_nameservers " GATE_SERVER "\ncoredump_dir none\n";

static int place_put(const char *path, mode_t mode, const void *bytes, size_t size, struct err *err) {
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        int r = fd < 0 ? -errno : fd_write_full(fd, bytes, size);

        return r < 0 ? err_set(err, r, "cannot write '%s'", path) : 0;
}

static int place_write(const char *path, const char *text, struct err *err) {
        return place_put(path, 0644, text, strlen(text), err);
}

static int place_address(int fd, const char *name, const char *address, struct err *err) {
        struct ifreq i = {0};
        struct sockaddr_in a = {.sin_family = AF_INET};

        (void)snprintf(i.ifr_name, sizeof(i.ifr_name), "%s", name);
        (void)inet_pton(AF_INET, address, &a.sin_addr);
        memcpy(&i.ifr_addr, &a, sizeof(a));
        if (ioctl(fd, SIOCSIFADDR, &i) < 0)
                return err_set(err, -errno, "cannot give %s to %s", address, name);
        a.sin_addr.s_addr = INADDR_BROADCAST;
        memcpy(&i.ifr_netmask, &a, sizeof(a));
        return ioctl(fd, SIOCSIFNETMASK, &i) < 0 ? err_set(err, -errno, "cannot set a mask on %s", name) : 0;
}

static int place_network(struct err *err) {
        if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return err_set(err, -errno, "cannot make a network of our own");
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING};
        if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0)
                return err_set(err, -errno, "cannot bring up loopback");
        return place_address(fd, "lo:1", GATE_SERVER, err);
}

static int place_copy(const char *from, const char *to, struct err *err) {
        _cleanup_free_ char *bytes = NULL;
        size_t size = 0;
        int r = fd_read_file(AT_FDCWD, from, PROGRAM_MAX, false, &bytes, &size, err);

        return r < 0 ? r : place_put(to, 0755, bytes, size, err);
}

/* A launcher with the bare relay beside it, under the gate's name. */
static int place_sibling(struct gate_place *p, const char *name, const char *bare, char ret[128], struct err *err) {
        static const char *const programs[] = {"stockade", "stockade-policy", "stockade-guest"};
        char folder[96], from[PATH_MAX + 32], to[160];
        const char *slash = strrchr(p->stockade, '/');
        int r = 0;

        (void)snprintf(folder, sizeof(folder), "%s/%s", p->folder, name);
        if (mkdir(folder, 0755) < 0)
                return err_set(err, -errno, "cannot make '%s'", folder);
        for (size_t i = 0; i < ELEMENTSOF(programs) && r == 0; i++) {
                (void)snprintf(from, sizeof(from), "%.*s/%s", (int)(slash - p->stockade), p->stockade, programs[i]);
                (void)snprintf(to, sizeof(to), "%s/%s", folder, programs[i]);
                r = place_copy(from, to, err);
        }
        (void)snprintf(to, sizeof(to), "%s/stockade-gate", folder);
        (void)snprintf(ret, 128, "%.100s/stockade", folder);
        return r == 0 ? place_copy(bare, to, err) : r;
}

static int place_fill(struct gate_place *p, struct err *err) {
        char text[2048], self[PATH_MAX] = "", from[PATH_MAX + 8], path[128];
        long files = sysconf(_SC_OPEN_MAX);
        int r;

        if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                return err_set(err, -errno, "cannot tell where this program is");
        *strrchr(self, '/') = '\0';
        (void)snprintf(from, sizeof(from), "%s/load", self);
        if ((r = place_copy(from, p->load, err)) < 0)
                return r;
        (void)snprintf(from, sizeof(from), "%s/bare", self);
        if ((r = place_sibling(p, "copy", from, p->sibling[0], err)) < 0 ||
            (r = place_sibling(p, "splice", from, p->sibling[1], err)) < 0)
                return r;
        for (int i = 0; i < 2; i++) {
                (void)snprintf(text, sizeof(text), place_profile, p->load, p->load, i ? ", inspect: true" : "",
                               (unsigned long)files);
                if ((r = place_write(i ? p->inspect : p->plain, text, err)) < 0)
                        return r;
        }
        (void)snprintf(path, sizeof(path), "%s/resolv.conf", p->folder);
        if ((r = place_write(p->tinyproxy, place_tinyproxy, err)) < 0 ||
            (r = place_write(p->squid, place_squid, err)) < 0 ||
            (r = place_write(path, "nameserver " GATE_SERVER "\n", err)) < 0)
                return r;
        if (mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) < 0)
                return err_set(err, -errno, "cannot put our resolv.conf in the host's place");
        (void)snprintf(path, sizeof(path), "%s/server.pem", p->folder);
        return setenv("SSL_CERT_FILE", path, 1) < 0 ? err_set(err, -errno, "cannot set SSL_CERT_FILE") : 0;
}

int gate_place_open(struct gate_place *p, const char *stockade, struct err *err) {
        *p = (struct gate_place){.folder = "/tmp/stockade-bench-XXXXXX"};
        if (!realpath(stockade, p->stockade))
                return err_set(err, -errno, "cannot find '%s'", stockade);
        if (!mkdtemp(p->folder) || chmod(p->folder, 0755) < 0)
                return err_set(err, -errno, "cannot make a folder in /tmp");
        (void)snprintf(p->load, sizeof(p->load), "%s/load", p->folder);
        (void)snprintf(p->plain, sizeof(p->plain), "%s/plain.yaml", p->folder);
        (void)snprintf(p->inspect, sizeof(p->inspect), "%s/inspect.yaml", p->folder);
        (void)snprintf(p->tinyproxy, sizeof(p->tinyproxy), "%s/tinyproxy.conf", p->folder);
        (void)snprintf(p->squid, sizeof(p->squid), "%s/squid.conf", p->folder);
        int r = place_network(err);
        return r < 0 ? r : place_fill(p, err);
}

void gate_place_close(struct gate_place *p) {
        if (str_starts(p->folder, "/tmp/") && !strstr(p->folder, "XXXXXX"))
                (void)tree_remove(AT_FDCWD, p->folder);
}
