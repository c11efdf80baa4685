"""Services that are not the web, with real servers: PostgreSQL, Redis, SSH; by name and port, as raw TCP."""
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
from world import allow, by_user, explained

pytestmark = by_user


def need(*programs):
    for program in programs:
        if not (shutil.which(program) or Path(program).exists()):
            harness.missing(f"{program} is not installed")


def owner(folder, name):
    """The folder belongs to this user, or to nobody where there is none; returns the uid."""
    try:
        user = pwd.getpwnam(name).pw_uid
    except KeyError:
        user = pwd.getpwnam("nobody").pw_uid
    folder.mkdir()
    os.chown(folder, user, user)
    return user


@pytest.fixture(scope="module")
def postgres(world):
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").exists() else []
    if not places:
        harness.missing("postgresql is not installed")
    folder, binary = world.folder / "postgres", places[-1]
    user = owner(folder, "postgres")
    subprocess.run([binary / "initdb", "-D", folder / "data", "-A", "trust", "-U", "tester", "--no-sync"], check=True,
                   capture_output=True,
                   preexec_fn=lambda: (os.setgroups([]), os.setresgid(user, user, user),
                                       os.setresuid(user, user, user)), cwd=folder)
    with open(folder / "data/pg_hba.conf", "a", encoding="ascii") as file:
        file.write("host all all all trust\n")
    for name in ("good.pem", "good.key"):
        shutil.copy(world.folder / "tls" / name, folder / name)
        os.chown(folder / name, user, user)
        (folder / name).chmod(0o600)
    options = {"listen_addresses": "203.0.113.13", "unix_socket_directories": "", "autovacuum": "off", "fsync": "off",
               "ssl": "on",
               "ssl_cert_file": folder / "good.pem", "ssl_key_file": folder / "good.key", "jit": "off",
               "dynamic_shared_memory_type": "mmap", "max_worker_processes": "0"}
    child = world.start([binary / "postgres", "-D", folder / "data",
                         *(word for k, v in options.items() for word in ("-c", f"{k}={v}"))],
                        user=user, ready=5432, cwd=folder)
    yield child
    world.stop(child)


@pytest.fixture(scope="module")
def redis(world):
    need("redis-server", "redis-cli")
    folder = world.folder / "redis"
    user = owner(folder, "redis")
    child = world.start(["redis-server", "--bind", "203.0.113.13", "--port", "6379", "--save", "", "--protected-mode", "no",
                         "--dir", folder], user=user, ready=6379)
    yield child
    world.stop(child)


@pytest.fixture(scope="module")
def sshd(world):
    need("/usr/sbin/sshd", "ssh", "ssh-keygen")
    folder = world.folder / "ssh"
    folder.mkdir()
    folder.chmod(0o755)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_text((folder / "client.pub").read_text())
    (folder / "config").write_text(f"Port 2222\nListenAddress 203.0.113.13\nHostKey {folder}/host\nAuthorizedKeysFile "
                                   f"{folder}/authorized\nStrictModes no\n"
                                   "UsePAM no\nPidFile none\nPermitRootLogin yes\nForceCommand echo over ssh; cat\n")
    made = not os.path.isdir("/run/sshd")
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    child = world.start(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "config"], ready=2222)
    yield folder
    world.stop(child)
    if made:
        os.rmdir("/run/sshd")


def test_postgresql(net, postgres):
    need("psql")
    profile = net.profile("network: {allow: [{host: db.example.test, ports: [5432]}]}")
    query = "psql -w -At 'host=db.example.test user=tester dbname=postgres connect_timeout=6 sslmode={}' -c '{}'"
    for mode in ("disable", "require"):
        result = net.sh(query.format(mode, "select 6*7, (select ssl from pg_stat_ssl where pid = pg_backend_pid())"),
                        *profile)
        assert result.ok().strip() == ("42|t" if mode == "require" else "42|f")
    result = net.sh(query.format("disable", "select repeat(md5(1::text), 100000)") + " | wc -c", *profile)
    assert int(result.ok()) == 3200001
    refused = net.sh(query.format("disable", "select 1").replace("db.example.test", "files.example.test"), *profile)
    assert refused.status == 2 and "files.example.test" in refused.errors and not net.names.asked("files.example.test")
    explained(refused, "files.example.test", "--allow files.example.test")


def test_postgresql_needs_its_port(net, postgres):
    need("psql")
    result = net.sh("psql -w 'host=db.example.test user=tester dbname=postgres connect_timeout=6' -c 'select 1'",
                    *allow("db.example.test"))
    assert result.status == 2
    explained(result, "db.example.test", "db.example.test:5432")


def test_redis(net, redis):
    result = net.sh("redis-cli -h db.example.test set k value; redis-cli -h db.example.test get k; "
                    "head -c 2000000 /dev/zero | tr '\\0' x | redis-cli -h db.example.test -x set big; redis-cli -h db.example.test strlen big",
                    *allow("db.example.test:6379"))
    assert result.ok().split() == ["OK", "value", "OK", "2000000"]
    refused = net.sh("redis-cli -h 203.0.113.13 get k", *allow("db.example.test:6379"))
    assert "value" not in refused.text
    explained(refused, "203.0.113.13")


def test_redis_on_a_web_rule(net, redis):
    """A rule for the web's ports does not become a rule for every port."""
    refused = net.sh("redis-cli -h db.example.test ping", *allow("db.example.test"))
    assert "PONG" not in refused.text
    explained(refused, "db.example.test", "db.example.test:6379")


def test_ssh(net, sshd):
    folder = net.who.folder("keys")
    shutil.copy(sshd / "client", folder / "client")
    (folder / "client").chmod(0o644)
    ssh = f"ssh -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=6 -o BatchMode=yes -i /tmp/client -p 2222 root@"
    start = f"cp {folder}/client /tmp/client; chmod 600 /tmp/client; "
    result = net.sh(f"{start} echo across | {ssh}db.example.test", *allow("db.example.test:2222"), "--ro", folder)
    assert result.ok() == "over ssh\nacross\n"
    refused = net.sh(f"{start} echo across | {ssh}evil.test", *allow("db.example.test:2222"), "--ro", folder)
    assert refused.status == 255 and "over ssh" not in refused.text
    explained(refused, "evil.test", "--allow evil.test")
    refused = net.sh(f"{start} echo across | {ssh}203.0.113.13", *allow("db.example.test:2222"), "--ro", folder)
    assert refused.status == 255 and "over ssh" not in refused.text
    explained(refused, "203.0.113.13")


def test_server_speaks_first(net):
    """Protocols in which the server begins: nothing waits for the client's first byte."""
    from world_servers import talk
    net.world.scripted[9000] = lambda conn: talk(conn, b"220 welcome\r\n", 3, b"250 ok\r\n")
    result = net.py("""
c = tcp("files.example.test", 9000); c.settimeout(20)
first = c.recv(100); c.sendall(b"EHLO x\\r\\n"); say(first=first, second=c.recv(100))
""", *allow("files.example.test:9000"))
    assert '"220 welcome' in result.ok() and "250 ok" in result.text


def test_half_close(net):
    """A client that has said everything still gets the whole answer, and the other way round."""
    def server(conn):
        data = b""
        while piece := conn.recv(65536):
            data += piece
        conn.sendall(b"got %d" % len(data))
    net.world.scripted[9000] = server
    result = net.py("""
for where in (("files.example.test", 9000), None):
    c = tcp(*where) if where else proxy()
    if not where:
        c.sendall(connect_head("files.example.test:9000")); assert b"200" in c.recv(1000)
    c.sendall(b"\\0" * 300000); c.shutdown(socket.SHUT_WR)
    answer = read(c); assert answer == b"got 300000", answer
""", *allow("files.example.test:9000"))
    result.ok()


def test_reset_is_passed_on(net):
    """A server that refuses or resets looks refused or reset inside, and nothing hangs."""
    import socket
    import struct

    def server(conn):
        conn.recv(10)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    net.world.scripted[9000] = server
    result = net.py("""
took = []
while not took or (took[-1] >= 4 and len(took) < 6):  # what hangs does so every time
    start = time.monotonic()
    answer = ask(("files.example.test", 9000), b"\\1" * 10, 60); assert answer in (b"",) or answer.startswith(b"error"), answer
    answer = ask(("files.example.test", 9111), b"\\1" * 10, 60); assert answer in (b"",) or answer.startswith(b"error"), answer
    took.append(time.monotonic() - start)
assert took[-1] < 4, took
""", *allow("files.example.test:9000", "files.example.test:9111"))
    result.ok()
