"""The table of checks: what each attempt of the probe must run into. What it does is the probe's own line
(`stockade-probe list`); a test compares the two lists.

mechanism  what must stop it
expect     the errnos that this mechanism gives; a dictionary where profiles differ; ALLOWED where a profile allows it
control    where the same attempt works, so that a refusal means something:
             user     an ordinary user's process without any sandbox
             root     the host's root in a mount namespace of its own
             init     an ordinary user's pid namespace whose PID 1 is an ordinary process
             medium   inside, in a profile that allows it
             …        otherwise a sentence that says what shows it
secrets    (filled by the judge) what must never appear in what this attempt reports
"""
from dataclasses import dataclass, field

ALLOWED = "allowed"

TREE = "private tree, pivot_root"
IDS = "an id of its own on the host"
MASK = "masked and read-only /proc"
INIT = "PID 1 is not dumpable"
FILTER = "system call filter"
CAPS = "no capabilities"
PIDS = "pid namespace"
NET = "network namespace"
IPC = "ipc namespace"


@dataclass
class Check:
    name: str
    group: str
    mechanism: str
    expect: object
    control: str
    secrets: list = field(default_factory=list)

    def errnos(self, profile):
        expect = self.expect.get(profile, ()) if isinstance(self.expect, dict) else self.expect
        return {None if e == "none" else e for e in ([expect] if isinstance(expect, str) else expect)}

    def allowed(self, profile):
        return ALLOWED in self.errnos(profile)


def rows(group, *lines):
    return [Check(name, group, mechanism, expect, control) for name, mechanism, expect, control in lines]


SETID = [(f"setid-{call}", FILTER + ": no mode with set-id bits", "ENOSYS" if call == "openat2" else "EPERM", "user")
         for call in ("chmod", "fchmod", "fchmodat", "fchmodat2", "high-bits", "open", "openat", "openat2", "creat",
                      "mknod", "mknodat", "tmpfile", "setgid")]

EXEC = {"low": ("EACCES", "EPERM"), "medium": ALLOWED}

CHECKS = [
    *rows("files",
          ("host-root-file", TREE, "ENOENT", "root"),
          ("host-home-file", TREE, "ENOENT", "user"),
          ("host-tmp-file", TREE + ", own /tmp", "ENOENT", "user"),
          ("shadow", TREE + ", own /etc", "ENOENT", "root"),
          ("sibling-file", TREE + ", own /tmp; " + PIDS, ("ENOENT", "EACCES"), "root"),
          ("proc-root-walk", PIDS + "; " + INIT, ("ENOENT", "EACCES"), "user"),
          ("fd-leak", "every descriptor closed before exec", "EBADF", "user"),
          ("init-environ", INIT + "; exec'd with an empty environment", "EACCES", "init"),
          ("init-descriptor", INIT, "EACCES", "init"),
          ("init-memory", INIT, "EACCES", "init"),
          ("own-memory", MASK, "EROFS", "user"),
          ("proc-sys", IDS + "; " + MASK, ("EACCES", "EROFS"), "root"),
          ("core-pattern", IDS + "; " + MASK, ("EACCES", "EROFS"), "root"),
          ("sysrq", IDS + "; " + MASK, ("ENOENT", "EACCES", "EROFS", "EPERM"), "see core-pattern: a kernel may have no sysrq"),
          ("proc-rest", IDS + "; " + MASK, ("EACCES", "EROFS", "EPERM"), "see proc-sys"),
          ("sysfs", "no /sys", "ENOENT", "see proc-sys"),
          ("overwrite-ours", "read-only mounts; Landlock", ("EACCES", "EROFS", "ETXTBSY"), "root"),
          ("symlink-out", TREE, "ENOENT", "user"),
          ("hardlink-out", "separate mounts; Landlock", ("EXDEV", "EACCES"), "root"),
          ("hardlink-fd", "separate mounts; Landlock", ("EXDEV", "EACCES"), "root"),
          ("rename-across", "separate mounts; read-only /usr", ("EXDEV", "EROFS"), "see overwrite-ours"),
          ("kernel-info", MASK + "; " + IDS, "EACCES", "user"),
          ("kallsyms", MASK, ("ENODATA", "ENOENT", "EACCES"), "root"),
          ("devices", "a /dev of its own", "ENOENT", "root"),
          ("chmod-device", "read-only device binds; " + IDS, ("EROFS", "EPERM"), "root"),
          ("xattr-trusted", CAPS, "EPERM", "root"),
          ("file-capability", CAPS, "EPERM", "root"),
          ("foreign-terminals", "devpts of its own", "ENOENT", "user"),
          ("environment", "an environment of its own", "ENOENT", "user"),
          ("lock-root", "the launcher holds a shared lock", "EAGAIN", "user"),
          ("mount-tmpfs", FILTER + "; " + CAPS, "EPERM", "root"),
          ("mount-bind", FILTER + "; " + CAPS, "EPERM", "root"),
          ("mount-remount", FILTER + "; " + CAPS, "EPERM", "root"),
          ("mount-cgroup", FILTER + "; " + CAPS, "EPERM", "root"),
          ("umount-mask", FILTER + "; " + CAPS + "; locked mounts", "EPERM", "root"),
          ("mount-new-api", FILTER + "; " + CAPS, "EPERM", "root"),
          ("chroot", FILTER + "; " + CAPS, "EPERM", "root"),
          ("pivot-root", FILTER + "; " + CAPS, "EPERM", "root"),
          ("setns-own", FILTER, "EPERM", "root"),
          ("setns-init", INIT + "; " + FILTER, ("EACCES", "EPERM"), "init"),
          ("namespace-owner", "namespaces outside cannot be named", "EPERM", "see setns-own"),
          ("mknod-block", FILTER + "; user namespace; nodev", "EPERM", "root"),
          ("mknod-char", FILTER + "; user namespace; nodev", "EPERM", "root"),
          ("mknod-whiteout", FILTER, "EPERM", "user"),
          ("rename-whiteout", FILTER, "EPERM", "user"),
          ("file-handle", FILTER, "EPERM", "root"),
          ("mount-flags", "every mount nosuid and nodev", "EPERM", "user"),
          ("own-program", "noexec; Landlock execute", EXEC, "medium"),
          ("own-program-loader", "noexec", EXEC, "medium"),
          ("map-program", "noexec", EXEC, "medium"),
          ("shm-program", "noexec; Landlock execute", ("EACCES", "EPERM"), "user"),
          ("memfd-program", FILTER + ": no memfd with an exec list", {"low": "ENOSYS", "medium": ALLOWED}, "medium"),
          ("setid-program", "no new privileges; nosuid", "EPERM", "user"),
          ("privileges", CAPS + "; no new privileges; " + FILTER, "EPERM", "user"),
          *SETID),
    *rows("network",
          ("tcp-v4", NET, ("ECONNREFUSED", "ENETUNREACH"), "user"),
          ("tcp-v6", NET, ("ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"), "user"),
          ("tcp-mapped", NET, ("ECONNREFUSED", "ENETUNREACH"), "user"),
          ("tcp-any", NET, ("ECONNREFUSED", "ENETUNREACH"), "user"),
          ("tcp-host", NET, "ENETUNREACH", "user"),
          ("tcp-other", NET, "ENETUNREACH", "user"),
          ("tcp-fastopen", NET, ("ECONNREFUSED", "ENETUNREACH"), "user"),
          ("udp-v4", NET, ("ECONNREFUSED", "ENETUNREACH"), "user"),
          ("udp-v6", NET, ("ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"), "user"),
          ("udp-other", NET, "ENETUNREACH", "user"),
          ("udp-multicast", NET, "ENETUNREACH", "see udp-other"),
          ("unix-path", TREE, "ENOENT", "user"),
          ("unix-abstract", NET + "; Landlock scope", ("ECONNREFUSED", "EPERM"), "user"),
          ("known-sockets", TREE, "ENOENT", "see unix-path"),
          ("vsock", FILTER + ": no network namespace covers it", "EAFNOSUPPORT", "user"),
          ("raw-socket", FILTER + "; " + CAPS, "EPERM", "root"),
          ("ping-socket", FILTER, "EPROTONOSUPPORT", "user"),
          ("packet-socket", FILTER + "; " + CAPS, "EAFNOSUPPORT", "root"),
          ("odd-families", FILTER, ("EAFNOSUPPORT", "EPERM", "EPROTONOSUPPORT"), "see vsock; outside it would load modules"),
          ("odd-netlink", FILTER, "EAFNOSUPPORT", "see vsock; outside it would load modules"),
          ("netlink-change", CAPS, "EPERM", "root"),
          ("interfaces", NET, "ENODEV", "user"),
          ("peer-pidfd", "sockets are not passed in as streams", "ENOTSOCK", "a socket as standard input, without a sandbox"),
          ("tcp-upper-layer", FILTER, "ENOPROTOOPT", "outside it would load a module")),
    *rows("processes",
          ("kill-host", PIDS, "ESRCH", "user"),
          ("pidfd-host", PIDS, "ESRCH", "user"),
          ("owner-signal", PIDS, "ESRCH", "user"),
          ("timer-init", "the kernel: threads of one's own only", "EINVAL", "none: no process may do it"),
          ("priority-user", PIDS, "none", "user"),
          ("adjust-host", PIDS, "ESRCH", "user"),
          ("ptrace-init", INIT + "; " + FILTER, "EPERM", "init"),
          ("vm-read-init", INIT + "; " + FILTER, "EPERM", "init"),
          ("kcmp-init", FILTER, "EPERM", "init"),
          ("steal-descriptor", FILTER + "; " + INIT, "EPERM", "init"),
          ("unshare-user", FILTER + "; no nested namespaces", "EPERM", "user"),
          ("unshare-network", FILTER, "EPERM", "root"),
          ("unshare-mount", FILTER, "EPERM", "root"),
          ("unshare-pid", FILTER, "EPERM", "root"),
          ("unshare-time", FILTER, "EPERM", "root"),
          ("clone-user", FILTER + "; no nested namespaces", "EPERM", "user"),
          ("clone3-user", FILTER, "ENOSYS", "user"),
          ("x32", FILTER, "ENOSYS", "none: kernels may have no such entry"),
          ("i386", FILTER, "ENOSYS", "none: kernels may have no such entry"),
          ("i386-unshare", FILTER, "ENOSYS", "none: kernels may have no such entry"),
          ("tty-inject", FILTER, "EPERM", "root"),
          ("tty-inject-high", FILTER, "EPERM", "root"),
          ("tty-linux", FILTER, "EPERM", "user"),
          ("tty-discipline", FILTER, "EPERM", "user"),
          ("tty-console", FILTER + "; " + CAPS, "EPERM", "see tty-linux"),
          ("realtime", CAPS, "EPERM", "none: not every root may"),
          ("raise-limits", CAPS, "EPERM", "none: not every root may"),
          ("oom-shield", MASK, "EROFS", "user"),
          ("core-dump", "a core limit of 1", "EPERM", "user"),
          ("filter-listener", FILTER, "EPERM", "user"),
          ("prctl-options", FILTER, ("EPERM", "EINVAL"), "user"),
          ("sysv-shared", IPC, "ENOENT", "user"),
          ("posix-queue", IPC, "ENOENT", "user"),
          ("call-io-uring", FILTER, "ENOSYS", "root"),
          ("call-aio", FILTER, "ENOSYS", "user"),
          ("call-bpf", FILTER + "; " + CAPS, "EPERM", "root"),
          ("call-userfaultfd", FILTER, "EPERM", "user"),
          ("call-perf", FILTER, "EPERM", "root"),
          ("call-syslog", FILTER + "; " + CAPS, "EPERM", "root"),
          ("call-modules", FILTER + "; " + CAPS, "EPERM", "none: a kernel may have no modules"),
          ("call-kexec", FILTER + "; " + CAPS, "EPERM", "none: a kernel may have no kexec"),
          ("call-reboot", FILTER + "; " + CAPS, "EPERM", "root"),
          ("call-swap", FILTER + "; " + CAPS, "EPERM", "root"),
          ("call-acct", FILTER + "; " + CAPS, "EPERM", "none: a kernel may have no accounting"),
          ("call-quota", FILTER, "EPERM", "none: a kernel may have no quotas"),
          ("call-sethostname", FILTER + "; " + CAPS, "EPERM", "root"),
          ("call-set-clock", FILTER + "; " + CAPS, "EPERM", "user"),
          ("call-adjtimex", FILTER, "EPERM", "user"),
          ("call-ports", FILTER + "; " + CAPS, "EPERM", "none: a kernel may have no port calls"),
          ("call-add-key", FILTER, "ENOSYS", "user"),
          ("key-read", FILTER + "; session keyring of its own", "ENOSYS", "user"),
          ("call-request-key", FILTER, "ENOSYS", "user"),
          ("call-fanotify", FILTER, "EPERM", "root"),
          ("call-memfd-secret", FILTER, "ENOSYS", "none: a kernel may have no secret memory"),
          ("call-vmsplice", FILTER, "ENOSYS", "user"),
          ("call-modify-ldt", FILTER, "ENOSYS", "user"),
          ("call-move-pages", FILTER, "ENOSYS", "user"),
          ("call-listmount", FILTER, "ENOSYS", "user"),
          ("call-personality", FILTER, "EPERM", "user"),
          ("inode-flags", FILTER, "EPERM", "user"),
          ("inode-attributes", FILTER, "ENOSYS", "user")),
    *rows("persistence",
          ("find", "everything is made anew", "ENOENT", "what was left is found before the end")),
]

BY_NAME = {check.name: check for check in CHECKS}
