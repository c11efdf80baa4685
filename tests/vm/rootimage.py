"""The root disk of the test guest: an ext4 image of the Debian packages that are named in `packages`.

The files come from this machine's own installed packages, so the guest is the same Debian without a download. The image
is kept in the cache folder under a name that is a hash of everything it depends on: package versions, this file, the
list, the kernel. An image is only ever read: each run of the guest writes to a throw-away layer of its own.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FREE_SPACE = 3 << 30  # sparse: what the tests may write
LEFT_OUT = re.compile(r"^/usr/share/(doc|man|info|locale|lintian|bug|zoneinfo)/|^/(dev|proc|sys|run)/|^/boot/")
MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/)")
STORE = 8  # certificates
TESTER = "tester"  # the unprivileged user of the rootless tests, uid and gid 1000


class VmError(Exception):
    """A sentence for the person who runs the tests: the object, the cause, the next step."""


def output_of(*command):
    path = os.environ.get("PATH", "/usr/bin") + ":/usr/sbin:/sbin"  # mke2fs and ldconfig, for everybody
    env = {**os.environ, "PATH": path}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    if done.returncode != 0:
        raise VmError(f"{command[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def installed_packages():
    """name -> (version, [[alternatives]...]) of every installed package, and virtual name -> name."""
    fields = "${Package}\t${Version}\t${db:Status-Abbrev}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    packages, virtual = {}, {}
    bare = re.compile(r"[ (:].*")
    for line in output_of("dpkg-query", "-W", "-f", fields).splitlines():
        name, version, status, depends, provides = line.split("\t")
        if status[1] not in "iWtUF":  # from here on its files are on the disk, even if it waits for another package
            continue
        wants = [[bare.sub("", a.strip()) for a in group.split("|")] for group in depends.split(",")]
        packages[name] = (version, wants)
        for other in provides.split(","):
            virtual.setdefault(bare.sub("", other.strip()), name)
    return packages, virtual


def wanted_packages():
    """The packages of the list and all that they depend on, as a sorted list of (name, version)."""
    packages, virtual = installed_packages()
    todo, missing, taken = [], [], set()
    with open(os.path.join(HERE, "packages"), encoding="utf-8") as lines:
        for line in lines:
            name = line.split("#")[0].strip()
            if name.rstrip("?") in packages:
                todo.append(name.rstrip("?"))
            elif name and not name.endswith("?"):
                missing.append(name)
    if missing:
        raise VmError("the guest needs packages that are not installed: apt-get install " + " ".join(missing))
    while todo:
        name = todo.pop()
        if name in taken:
            continue
        taken.add(name)
        for group in packages[name][1]:
            found = [a if a in packages else virtual.get(a) for a in group]
            todo += [f for f in found if f][:1]
    return sorted((name, packages[name][0]) for name in taken)


def package_files(names):
    """Every path that the packages own, in its usr-merged form, with the compiled Python beside each module."""
    paths = set()
    for path in output_of("dpkg", "-L", *names).splitlines():
        path = MERGED.sub(r"/usr/\1", path.strip())
        if not path.startswith("/") or path == "/." or LEFT_OUT.search(path):
            continue
        paths.add(path)
        if path.endswith(".py"):
            folder, name = os.path.split(path)
            cached = os.path.join(folder, "__pycache__", name[:-3] + ".cpython-311.pyc")
            if os.path.exists(cached):
                paths.update((os.path.dirname(cached), cached))
    return paths


def alternatives():
    """Links such as /usr/bin/awk belong to no package: the link, and the one in /etc/alternatives behind it."""
    for folder in ("/usr/bin", "/usr/sbin"):
        for entry in os.scandir(folder):
            if entry.is_symlink() and os.readlink(entry.path).startswith("/etc/alternatives/"):
                yield entry.path
                yield os.readlink(entry.path)


def copy_path(source, root):
    """One file, folder or link with its mode, owner and attributes. Not devices, nor what we may not read."""
    info = os.lstat(source)
    target = root + source
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if stat.S_ISLNK(info.st_mode):
        if not os.path.lexists(target):
            os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(info.st_mode):
        os.makedirs(target, exist_ok=True)
    elif stat.S_ISREG(info.st_mode) and os.access(source, os.R_OK):
        shutil.copyfile(source, target)
    else:
        return
    os.chown(target, info.st_uid, info.st_gid)
    shutil.copystat(source, target)


def copy_modules(release, root):
    shutil.copytree(f"/usr/lib/modules/{release}", f"{root}/usr/lib/modules/{release}", symlinks=True)


def write_file(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, mode)


def write_accounts(root):
    """Accounts are the guest's own: no name or password of this machine goes in."""
    with open("/usr/share/base-passwd/passwd.master", encoding="utf-8") as file:
        users = file.read().replace("root:*:0:0:root:/root:", "root:x:0:0:root:/root:")
    with open("/usr/share/base-passwd/group.master", encoding="utf-8") as file:
        groups = file.read()
    write_file(f"{root}/etc/passwd", f"{users}{TESTER}:x:1000:1000::/home/{TESTER}:/bin/bash\n")
    write_file(f"{root}/etc/group", f"{groups}{TESTER}:x:1000:\n")
    write_file(f"{root}/etc/shadow", f"root:*:19000:0:99999:7:::\n{TESTER}:*:19000:0:99999:7:::\n", 0o640)
    write_file(f"{root}/etc/subuid", "")
    write_file(f"{root}/etc/subgid", "")
    write_file(f"{root}/etc/hostname", "guest\n")
    write_file(f"{root}/etc/hosts", "127.0.0.1 localhost guest\n::1 localhost\n")
    write_file(f"{root}/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n")
    write_file(f"{root}/etc/login.defs", "PATH=/usr/bin:/bin\nUID_MIN 1000\nUSERGROUPS_ENAB yes\n"
               "SUB_UID_MIN 100000\nSUB_UID_COUNT 65536\n")
    write_file(f"{root}/etc/resolv.conf", "")
    for kind, module in (("auth", "pam_unix"), ("account", "pam_unix"), ("password", "pam_deny"),
                         ("session", "pam_permit"), ("session-noninteractive", "pam_permit")):
        write_file(f"{root}/etc/pam.d/common-{kind}", f"{kind.partition('-')[0]} required {module}.so\n")


def write_store(root):
    """The certificates that the guest trusts: its package's, not this machine's, and only the first few of them, because
    every program that speaks TLS reads them all."""
    folder, bundle = f"{root}/usr/share/ca-certificates/mozilla", []
    for name in sorted(os.listdir(folder))[:STORE]:
        with open(os.path.join(folder, name), encoding="ascii") as file:
            bundle.append(file.read())
    write_file(f"{root}/etc/ssl/certs/ca-certificates.crt", "".join(bundle))


def make_folders(root):
    for name in ("bin", "sbin", "lib", "lib64"):
        os.makedirs(f"{root}/usr/{name}", exist_ok=True)
        if not os.path.lexists(f"{root}/{name}"):
            os.symlink(f"usr/{name}", f"{root}/{name}")
    for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("root", 0o700), ("proc", 0o555), ("sys", 0o555),
                       ("dev", 0o755), ("run", 0o755), ("etc", 0o755), ("home", 0o755), (f"home/{TESTER}", 0o700)):
        os.makedirs(f"{root}/{name}", exist_ok=True)
        os.chmod(f"{root}/{name}", mode)
    for name in ("run", "lock"):
        if not os.path.lexists(f"{root}/var/{name}"):
            os.makedirs(f"{root}/var", exist_ok=True)
            os.symlink({"run": "/run", "lock": "/run/lock"}[name], f"{root}/var/{name}")


def fill(root, names, release):
    make_folders(root)
    paths = package_files(names) | set(alternatives())
    for path in sorted(paths):
        if os.path.lexists(path) and path not in ("/tmp", "/var/tmp", "/root", "/home"):
            copy_path(path, root)
    copy_modules(release, root)
    write_accounts(root)
    write_store(root)
    output_of("ldconfig", "-r", root)
    os.chown(f"{root}/home/{TESTER}", 1000, 1000)


def tree_size(root):
    return sum(os.lstat(os.path.join(folder, name)).st_blocks * 512
               for folder, folders, files in os.walk(root) for name in files + folders)


def make_image(target, names, release):
    cache = os.path.dirname(target)
    root = tempfile.mkdtemp(prefix="staging-", dir=cache)
    unfinished = target + ".new"
    try:
        os.chmod(root, 0o755)
        fill(root, names, release)
        size = tree_size(root) * 5 // 4 + FREE_SPACE
        with open(unfinished, "wb") as file:
            file.truncate(size)
        output_of("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", root, unfinished)
        os.rename(unfinished, target)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if os.path.exists(unfinished):
            os.unlink(unfinished)


def root_image(cache, release, say):
    """The path of an image that is right for what is installed now. The caller holds the cache's lock."""
    packages = wanted_packages()
    with open(__file__, "rb") as file:
        key = hashlib.sha256(repr((packages, release)).encode() + file.read()).hexdigest()[:16]
    target = os.path.join(cache, f"root-{key}.ext4")
    if not os.path.exists(target):
        for name in os.listdir(cache):
            if name.startswith("staging-"):
                shutil.rmtree(os.path.join(cache, name))
            elif name.startswith("root-"):
                os.unlink(os.path.join(cache, name))
        say(f"building the guest's root from {len(packages)} packages (once)")
        if os.geteuid() == 0:
            make_image(target, [name for name, _ in packages], release)
        else:
            make_as_user(target, release)
    return target


def make_as_user(target, release):
    """An ordinary user cannot give files away: fakeroot remembers their owners until mke2fs has asked for them."""
    try:
        output_of("fakeroot", sys.executable, __file__, target, release)
    except FileNotFoundError:
        raise VmError("fakeroot is missing, and only root can do without: apt-get install fakeroot") from None


if __name__ == "__main__":
    make_image(sys.argv[1], [name for name, _ in wanted_packages()], sys.argv[2])
