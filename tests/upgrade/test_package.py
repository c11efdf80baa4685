"""The Debian package: it installs, works, is upgraded under running sandboxes, and is taken away again.

STOCKADE_DEB   the package to test (default: one is built, which takes minutes)
"""
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if os.geteuid() != 0:
        if os.environ.get("STOCKADE_MUST_WORK") == "1":
            pytest.fail("installing packages needs root")
        pytest.skip("installing packages needs root")
    folder = tmp_path_factory.mktemp("package")
    folder.chmod(0o755)
    given = os.environ.get("STOCKADE_DEB")
    if not given:
        given = subprocess.run([SOURCE / "tools/deb"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    (folder / "first.deb").write_bytes(pathlib.Path(given).read_bytes())
    # the same programs as a later version: what an upgrade does is not in the programs
    subprocess.run(["dpkg-deb", "-R", folder / "first.deb", folder / "tree"], check=True)
    control = folder / "tree/DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 9"))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder / "tree", folder / "second.deb"], check=True, stdout=subprocess.DEVNULL)
    return folder


def inside(package, script):
    (package / "script").write_text(script)
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", HERE / "inside", package, "script"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-4000:]
    return done.stdout.decode(errors="replace")


def test_control(package):
    text = subprocess.run(["dpkg-deb", "-I", package / "first.deb"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert " Package: stockade\n" in text and "libc6" in text and "libsqlite3-0" in text
    listed = subprocess.run(["dpkg-deb", "-c", package / "first.deb"], stdout=subprocess.PIPE, check=True).stdout.decode()
    for name in ("usr/bin/stockade", "usr/libexec/stockade/stockaded", "usr/libexec/stockade/stockade-guest",
                 "usr/lib/systemd/system/stockade.service", "usr/lib/sysusers.d/stockade.conf", "etc/stockade/stockade.conf",
                 "usr/share/bash-completion/completions/stockade", "usr/share/man/man5/stockade.conf.5.gz"):
        assert f"./{name}\n" in listed, name
    for line in listed.splitlines():
        assert " root/root " in line and "s" not in line.split()[0], line


def test_from_installation_to_purge(package):
    text = inside(package, r"""
dpkg -i /package/first.deb
dpkg -V stockade
getent passwd stockade-operator stockade-gate
getent group stockade
stockade --version
stockade run -- echo it runs
stockade up --detach
stockade create --name first --profile medium
stockade exec first -- sh -c 'echo kept > ~/file; sync'
[ "$(stat -c %U /var/lib/stockade/operator)" = stockade-operator ]
ps -o user= -C stockade-operator
stat -c 'socket %a %U:%G' /run/stockade/operator.sock /var/lib/stockade/run/operator.sock 2>/dev/null || true
n=$(stockade exec -d first -- sh -c 'for i in $(seq 1 80); do echo $i; sleep 0.1; done')

echo "--- upgrade"
dpkg -i /package/second.deb
stockade down
stockade up --detach
stockade exec first -- cat /home/agent/file
sleep 8
[ "$(stockade logs first $n | tail -n 1)" = 80 ] && echo it went on
stockade snapshot first --name s
stockade list

echo "--- remove"
dpkg -r stockade
[ -z "$(pgrep -x stockaded; pgrep -x stockade-operat; pgrep -f 'stockade-guest serve')" ] && echo nothing runs
[ -f /etc/stockade/stockade.conf ] && echo configuration stays
dpkg -P stockade
for place in /etc/stockade /var/lib/stockade /usr/libexec/stockade /usr/share/stockade; do [ ! -e $place ]; done
echo all gone
""")
    for line in ("it runs", "stockade:x:", "socket 660 root:stockade", "stockade-operator:", "stockade-gate:", "kept", "it went on", "nothing runs", "configuration stays", "all gone"):
        assert line in text, f"{line}\n{text}"
    assert "\nstockade-operator\n" in text.replace("stockade-+", "stockade-operator"), text


def test_ids_of_others_are_told(package):
    text = inside(package, r"""
echo "mallory:1073741824:65536" >>/etc/subuid
dpkg -i /package/first.deb
dpkg -r stockade
""")
    assert "mallory" in text and "ids that sandboxes have" in text


def test_the_unit(package):
    """What systemd says to it; there need be none running."""
    unit = (package / "tree/usr/lib/systemd/system/stockade.service").read_text()
    for line in ("KillMode=process", "Delegate=yes", "Restart=on-failure", "RuntimeDirectoryPreserve=yes",
                 "ExecStart=/usr/libexec/stockade/stockaded --state /var/lib/stockade --run /run/stockade"):
        assert f"\n{line}\n" in unit, line
    # what would put the daemon into a mount namespace of its own, or its sandboxes under a filter that is not ours
    for word in ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ReadOnlyPaths", "SystemCallFilter", "RestrictNamespaces"):
        assert f"\n{word}=" not in unit
    text = inside(package, r"""
dpkg -i /package/first.deb >/dev/null
command -v systemd-analyze >/dev/null && systemd-analyze verify /usr/lib/systemd/system/stockade.service 2>&1 || true
dpkg -P stockade >/dev/null
""")
    complaints = [line for line in text.splitlines() if "stockade.service" in line and "man " not in line]
    assert not complaints, complaints
