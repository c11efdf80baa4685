/* Probes: the network's means, KVM, and the programs that other drivers need. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "cell/host-probe.h"

static int try_tun(void *argument) {
        struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};

        (void)argument;
        int r = host_unshare(CLONE_NEWNET);
        if (r < 0)
                return r;
        _cleanup_fd_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
        return fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0 ? -errno : 0;
}

static void probe_tun(struct host_fact *f) {
        host_judge(f, host_try(try_tun, NULL), "virtual network cards can be made",
                   "drivers microvm and firecracker have no network",
                   "as root: modprobe tun; in a container: give it /dev/net/tun");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

/* One message of a batch that creates a table "probe". */
struct nft_message {
        struct nlmsghdr header;
        struct nfgenmsg generic;
        struct nlattr attribute;
        char name[8];
};

static int try_nft(void *argument) {
        struct {
                struct {
                        struct nlmsghdr header;
                        struct nfgenmsg generic;
                } begin;
                struct nft_message table;
                struct {
                        struct nlmsghdr header;
                        struct nfgenmsg generic;
                } end;
        } batch = {
                .begin = {.header = {.nlmsg_len = sizeof batch.begin,
                                     .nlmsg_type = NFNL_MSG_BATCH_BEGIN,
                                     .nlmsg_flags = NLM_F_REQUEST},
                          .generic = {.res_id = __builtin_bswap16(NFNL_SUBSYS_NFTABLES)}},
                .table = {.header = {.nlmsg_len = sizeof batch.table,
                                     .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE,
                                     .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK,
                                     .nlmsg_seq = 1},
                          .generic = {.nfgen_family = 1 /* inet */},
                          .attribute = {.nla_len = sizeof(struct nlattr) + 6, .nla_type = NFTA_TABLE_NAME},
                          .name = "probe"},
                .end = {.header = {.nlmsg_len = sizeof batch.end,
                                   .nlmsg_type = NFNL_MSG_BATCH_END,
                                   .nlmsg_flags = NLM_F_REQUEST,
                                   .nlmsg_seq = 2},
                        .generic = {.res_id = __builtin_bswap16(NFNL_SUBSYS_NFTABLES)}},
        };
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
                char rest[1024];
        } answer = {0};

        (void)argument;
        int r = host_unshare(CLONE_NEWNET);
        if (r < 0)
                return r;
        _cleanup_fd_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
        if (fd < 0 || send(fd, &batch, sizeof batch, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0)
                return -errno;
        return answer.header.nlmsg_type == NLMSG_ERROR ? answer.error.error : -EPROTO;
}

static void probe_nft(struct host_fact *f) {
        host_judge(f, host_try(try_nft, NULL), "rules can be set in a sandbox's own network",
                   "network.allow does not work", "as root: modprobe nf_tables");
        if (f->state == FACT_MISSING)
                f->state = FACT_LIMITED;
}

/* ioctl with a request whose top bit is set: the C libraries do not agree on its type. */
static long kvm_get(int fd, unsigned long request, void *value) {
        return syscall(SYS_ioctl, fd, request, value);
}

/* 64-bit code in flat segments over an identity-mapped first 2 MiB. popcnt is what tells a processor from a kernel that
 * interprets a guest's instructions one by one: ordinary kernels use it, and such interpreters stop at it. */
static int run_long_mode(int vcpu, const struct kvm_run *run, uint8_t *memory) {
        static const uint8_t code[] = {0xb9, 0xff, 0x00, 0x00, 0x00, /* mov ecx, 255 */
                                       0xf3, 0x0f, 0xb8, 0xc1,       /* popcnt eax, ecx */
                                       0xe6, 0x42,                   /* out 0x42, al */
                                       0xf4};                        /* hlt */
        struct kvm_sregs sregs;
        struct kvm_regs regs = {.rip = 0x4000, .rsp = 0x8000, .rflags = 2};

        memcpy(memory + 0x4000, code, sizeof code);
        *(uint64_t *)(void *)(memory + 0x1000) = 0x2000 | 3;
        *(uint64_t *)(void *)(memory + 0x2000) = 0x3000 | 3;
        *(uint64_t *)(void *)(memory + 0x3000) = 0x83; /* a 2 MiB page at 0 */
        if (kvm_get(vcpu, KVM_GET_SREGS, &sregs) < 0)
                return -errno;
        struct kvm_segment segment = {
                .limit = 0xffffffff, .selector = 8, .present = 1, .type = 11, .s = 1, .g = 1, .l = 1};
        sregs.cs = segment;
        segment.type = 3;
        segment.selector = 16;
        sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = segment;
        sregs.cr3 = 0x1000;
        sregs.cr4 |= 1 << 5;            /* PAE */
        sregs.cr0 |= 1U << 31 | 1;      /* paging, protection */
        sregs.efer |= 1 << 8 | 1 << 10; /* long mode, enabled and active */
        if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0 ||
            ioctl(vcpu, KVM_RUN, 0) < 0)
                return -errno;
        return run->exit_reason == KVM_EXIT_IO && run->io.port == 0x42 ? 0 : -EIO;
}

static int try_kvm(void *argument) {
        (void)argument;
        _cleanup_fd_ int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
        if (kvm < 0)
                return -errno;
        if (ioctl(kvm, KVM_GET_API_VERSION, 0) != 12)
                return -EPROTO;
        _cleanup_fd_ int vm = ioctl(kvm, KVM_CREATE_VM, 0);
        if (vm < 0)
                return -errno;
        size_t size = 1 << 20;
        uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct kvm_userspace_memory_region region = {.memory_size = size, .userspace_addr = (uintptr_t)memory};
        if (memory == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
                return -errno;
        /* what QEMU and firecracker cannot do without on this machine */
        if (ioctl(vm, KVM_CREATE_IRQCHIP, 0) < 0)
                return -errno;
        _cleanup_fd_ int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
        int run_size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
        if (vcpu < 0 || run_size < (int)sizeof(struct kvm_run))
                return -errno;
        struct kvm_run *run = mmap(NULL, (size_t)run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
        return run == MAP_FAILED ? -errno : run_long_mode(vcpu, run, memory);
}

static void probe_kvm(struct host_fact *f) {
        int r = host_try(try_kvm, NULL);

        if (r == 0) {
                host_say(f, FACT_OK, "a virtual machine ran 64-bit code");
                return;
        }
        bool present = access("/dev/kvm", F_OK) == 0;
        host_say(f, FACT_LIMITED,
                 present ? "/dev/kvm is there but cannot run an ordinary kernel: %s" : "no /dev/kvm (%s)", err_name(r));
        host_cost(f, "driver microvm falls back to emulation (slow), driver firecracker does not work");
        if (r == -EACCES)
                host_fix(f, "as root: usermod -aG kvm USER, then log in again");
        else
                host_fix(f, present ? "use a host whose processor gives virtualization to this machine"
                                    : "as root: modprobe kvm_intel or kvm_amd; enable virtualization in the firmware");
}

/* In PATH, or where administrators' programs are. */
static bool find_program(const char *name, char ret[static 4200]) {
        const char *path = getenv("PATH");
        char all[4096];

        (void)snprintf(all, sizeof all, "%s:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin", path ? path : "");
        for (char *s = all; s;) {
                char *end = strchr(s, ':');
                if (end)
                        *end++ = '\0';
                if (s[0] == '/') {
                        (void)snprintf(ret, 4200, "%s/%s", s, name);
                        if (access(ret, X_OK) == 0)
                                return true;
                }
                s = end;
        }
        return false;
}

static void judge_program(struct host_fact *f, const char *name, const char *cost, const char *fix) {
        char path[4200];

        if (find_program(name, path)) {
                host_say(f, FACT_OK, "%.150s", path);
                return;
        }
        host_say(f, FACT_LIMITED, "not found");
        host_cost(f, "%s", cost);
        host_fix(f, "%s", fix);
}

static void probe_docker(struct host_fact *f) {
        struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/var/run/docker.sock"};
        static const char request[] = "GET /_ping HTTP/1.0\r\n\r\n";
        char answer[16] = "";

        _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval wait = {.tv_sec = 2};
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
            fd_write_full(fd, request, strlen(request)) == 0 && fd_read_full(fd, answer, sizeof answer - 1) > 0 &&
            strstr(answer, " 200")) {
                host_say(f, FACT_OK, "answers at %s", address.sun_path);
                return;
        }
        host_say(f, FACT_LIMITED, "no answer at %s: %s", address.sun_path, err_name(-errno));
        host_cost(f, "driver docker does not work");
        host_fix(f, errno == EACCES ? "as root: usermod -aG docker USER (that makes USER as good as root)"
                                    : "as root: apt-get install docker.io && systemctl start docker");
}

static void probe_runsc(struct host_fact *f) {
        judge_program(f, "runsc", "driver gvisor does not work", "as root: apt-get install runsc");
}

static void probe_runc(struct host_fact *f) {
        judge_program(f, "runc", "nothing is lost; bench/start cannot compare with it",
                      "as root: apt-get install runc");
}

static void probe_qemu(struct host_fact *f) {
        judge_program(f, "qemu-system-x86_64", "driver microvm does not work",
                      "as root: apt-get install qemu-system-x86");
}

static void probe_firecracker(struct host_fact *f) {
        judge_program(f, "firecracker", "driver firecracker does not work",
                      "install firecracker and jailer of one release, 1.16 or a newer 1.x, in /usr/local/bin");
}

const struct host_probe host_driver_probes[] = {
        {"tun", probe_tun, false},     {"nftables", probe_nft, false},
        {"KVM", probe_kvm, false},     {"docker", probe_docker, false},
        {"runsc", probe_runsc, false}, {"runc", probe_runc, false},
        {"qemu", probe_qemu, false},   {"firecracker", probe_firecracker, false},
        {NULL, NULL, false},
};
