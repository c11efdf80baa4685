"""Standard streams: every byte arrives, none is added, and nobody waits for somebody who waits for him."""
import hashlib
import os
import subprocess
import threading
import time

import pytest

import harness

MANY = bytes(range(256)) * (16 * 1024)  # 4 MiB, every value
UNLIMITED = ["--profile", "medium"]  # no limits.output: streams are handed in as they are


@pytest.mark.parametrize("options", [[], UNLIMITED], ids=["relayed", "direct"])
def test_every_byte_passes(run, options):
    result = run(*options, "--", "cat", input=MANY)
    assert result.status == 0 and result.out == MANY and result.err == b""


@pytest.mark.parametrize("options", [[], UNLIMITED], ids=["relayed", "direct"])
def test_errors_are_apart(sh, options):
    result = sh("cat >&2", *options, input=MANY)
    assert result.status == 0 and result.err == MANY and result.out == b""


@pytest.mark.parametrize("options", [[], UNLIMITED], ids=["relayed", "direct"])
def test_files_as_streams(who, run, place, options):
    (place / "in").write_bytes(MANY)
    with open(place / "in", "rb") as source, open(place / "out", "wb") as target:
        assert run(*options, "--", "cat", stdin=source, stdout=target).status == 0
    assert (place / "out").read_bytes() == MANY


def test_appending_keeps_what_is_there(run, place):
    (place / "out").write_bytes(b"before\n")
    with open(place / "out", "ab") as target:
        assert run("--", "echo", "after", stdout=target).status == 0
    assert (place / "out").read_bytes() == b"before\nafter\n"


def test_input_that_nobody_reads(run):
    assert run("--", "true", input=MANY).status == 0


def test_end_of_input_is_seen(run):
    assert run("--", "wc", "-c", input=b"").ok().strip() == "0"


def shell(person, script, *args, **kw):
    """A host shell around the launcher, to close descriptors as shells do."""
    process = person.popen(["/bin/sh", "-c", script, "sh", *person.command(*args)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    return harness.finish(process)


def test_closed_input(who):
    result = shell(who, '"$@" <&-', "--", "wc", "-c")
    assert result.ok().strip() == "0"


def test_closed_output(who):
    result = shell(who, '"$@" >&-; echo $? >&2', "--", "sh", "-c", "echo lost; exit 3")
    assert result.err.split()[-1] == b"3" and b"lost" not in result.err


def test_everything_closed(who):
    result = shell(who, '"$@" <&- >&- 2>&-; echo $?', "--", "sh", "-c", "cat; exit 4")
    assert result.out.split()[-1] == b"4"


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_directory_as_stream_is_refused(who, place, fd):
    held = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        kw = {("stdin", "stdout", "stderr")[fd]: held}
        result = harness.run(who, "--", "sh", "-c", f"ls /proc/self/fd/{fd}/ ; echo ran", **kw)
    finally:
        os.close(held)
    assert result.status == 125 and b"ran" not in result.out
    if fd != 2:
        assert "directory" in result.errors


def test_other_descriptors_do_not_get_in(who, place):
    (place / "canary").write_text("secret")
    held = [os.open(place, os.O_RDONLY | os.O_DIRECTORY), os.open(place / "canary", os.O_RDONLY)]
    for fd in held:
        os.set_inheritable(fd, True)
    try:
        result = harness.run(who, "--", "sh", "-c", "ls /proc/self/fd; ls /proc/1/fd/; true", close_fds=False)
    finally:
        for fd in held:
            os.close(fd)
    assert result.ok().split() == ["0", "1", "2", "3"]  # 3: ls reads the folder

@pytest.mark.parametrize("options", [[], UNLIMITED], ids=["relayed", "direct"])
def test_reader_that_leaves(who, options):
    """`stockade run … | head -1`: the writer gets SIGPIPE, as without a sandbox."""
    process = harness.start(who, *options, "--", "yes")
    try:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(harness.ENOUGH * harness.SLOW) == 128 + 13
    finally:
        harness.stop(process)


def test_writer_that_ignores_a_broken_pipe(who):
    script = "trap '' PIPE; for i in $(seq 100); do sleep 0.02; echo more || exit 42; done"
    process = harness.start(who, "--", "sh", "-c", script)
    try:
        process.stdout.close()
        assert process.wait(harness.ENOUGH * harness.SLOW) == 42
    finally:
        harness.stop(process)


@pytest.mark.parametrize("limit", [1, 4095, 4096, 65536, 65537, 1000000])
def test_output_limit_to_the_byte(py, limit):
    result = py("import os\nwhile True: os.write(1, b'x' * 10000)", "--output", str(limit))
    assert result.out == b"x" * limit
    assert result.status == 137 and result.reason == "output_limit"
    assert result.record["output_cut"] is True and result.record["usage"]["output_bytes"] == limit


def test_output_just_within_the_limit(py):
    result = py("import os\nos.write(1, b'x' * 600); os.write(2, b'y' * 400)", "--output", "1000")
    assert result.status == 0 and result.reason == "exited" and result.record["output_cut"] is False
    assert (result.out, result.err) == (b"x" * 600, b"y" * 400)


def test_output_limit_counts_both_streams(py):
    script = "import os\nos.write(1, b'x' * 600)\nwhile True: os.write(2, b'y' * 100)"
    result = py(script, "--output", "1000", "--quiet")
    assert len(result.out) + len(result.err) == 1000 and result.reason == "output_limit"


def test_slow_reader(who):
    """A reader that takes its time loses nothing."""
    size = 2 << 20
    process = harness.start(who, "--", "head", "-c", str(size), "/dev/urandom")
    total = hashlib.sha256()
    got = 0
    try:
        time.sleep(0.3)
        while block := process.stdout.read(128 * 1024):
            total.update(block)
            got += len(block)
            time.sleep(0.01)
        assert got == size and process.wait(harness.ENOUGH * harness.SLOW) == 0
    finally:
        harness.stop(process)


def test_slow_reader_meets_fast_writer_on_the_other_stream(who):
    """Nobody reads standard error while standard output flows; then the other way round."""
    script = "import os\nfor i in range(256): os.write(1, b'o' * 4096)\nos.write(2, b'e' * 30000)\nos.close(1)"
    process = harness.start(who, "--", harness.PYTHON, "-ISc", script)
    try:
        assert len(process.stdout.read()) == 256 * 4096
        assert process.stderr.read() == b"e" * 30000
        assert process.wait(harness.ENOUGH * harness.SLOW) == 0
    finally:
        harness.stop(process)


@pytest.mark.parametrize("options", [[], UNLIMITED], ids=["relayed", "direct"])
def test_all_streams_at_once(who, options):
    """Input, output and errors flow together, each with its own pace, without a deadlock."""
    script = ("import os, sys\n"
              "while block := os.read(0, 50000):\n"
              "  os.write(1, block); os.write(2, block[:len(block) // 2])")
    process = harness.start(who, *options, "--", harness.PYTHON, "-ISc", script)
    got = {}

    def drain(name, stream):
        got[name] = stream.read()
    readers = [threading.Thread(target=drain, args=pair)
               for pair in (("out", process.stdout), ("err", process.stderr))]
    for reader in readers:
        reader.start()
    process.stdin.write(MANY[:1 << 20])
    process.stdin.close()
    for reader in readers:
        reader.join(harness.ENOUGH * harness.SLOW)
    assert process.wait(harness.ENOUGH * harness.SLOW) == 0
    harness.stop(process)
    assert got["out"] == MANY[:1 << 20] and len(got["err"]) >= (1 << 19) - 100


def test_question_and_answer(who):
    """Bytes are passed on when they come, not when a buffer is full."""
    process = harness.start(who, "--", "cat")
    try:
        for i in range(50):
            process.stdin.write(b"%d\n" % i)
            process.stdin.flush()
            assert process.stdout.readline() == b"%d\n" % i
        process.stdin.close()
        assert process.wait(harness.ENOUGH * harness.SLOW) == 0
    finally:
        harness.stop(process)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_device_as_input_is_relayed(who, device):
    """A device is more than its bytes (ioctl): only the bytes go in."""
    with open(device, "rb") as source:
        result = harness.run(who, "--", "sh", "-c", "head -c 100000 | wc -c; stat -L -c %F /proc/self/fd/0",
                             stdin=source)
    assert result.ok().split("\n")[:2] == ["100000", "fifo"]


def test_background_process_cannot_keep_the_run_open(sh):
    """The run ends with its command, even if something in the background holds the streams."""
    def once():
        assert sh("sleep 3000 & echo done").ok() == "done\n"
    assert harness.quickest(once, 5 * harness.SLOW) < 5 * harness.SLOW
