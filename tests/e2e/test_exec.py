"""Which programs can be executed, and the ways round it that do not work."""
import os

import pytest

import harness

MEMFD = """
import os
data = open("/usr/bin/id", "rb").read()
try:
    fd = os.memfd_create("x", 0)
    os.write(fd, data)
    for path in (f"/proc/self/fd/{fd}", fd):
        try: os.execve(path, ["id"], {})
        except OSError as e: print("refused", e.errno)
except OSError as e:
    print("refused", e.errno)
"""
COPY = """
import os, shutil
for place in ("/tmp", "/dev/shm"):
    path = place + "/id"
    try:
        shutil.copy("/usr/bin/id", path); os.chmod(path, 0o755)
        os.execv(path, ["id"])
    except OSError as e: print("refused", e.errno)
"""
LOADER = """
import os, glob
folders = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/lib/*-gnu", "/usr/lib/*-gnu")
loaders = [path for folder in folders for path in glob.glob(folder + "/ld-*.so*")]
assert loaders
for loader in loaders:
    for program in {programs}:
        pid = os.fork()
        if pid == 0:
            try: os.execv(loader, [loader, program])
            except OSError: os._exit(99)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(loader, program, "ran" if status == 0 else "refused")
"""
MAP = """
import mmap, os
for path in {paths}:
    try:
        with open(path, "r+b" if path.startswith(("/tmp", "/dev/shm")) else "rb") as f:
            mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        print(path, "mapped")
    except (OSError, ValueError) as e: print(path, "refused")
"""


@pytest.fixture
def only_python(place):
    """A profile in which Python is the only program."""
    path = place / "only-python.yaml"
    path.write_text(f"profile: 1\nextends: low\ntools: {{exec: [{os.path.realpath(harness.PYTHON)}, {harness.PYTHON}]}}\n")
    return ["--profile", path]


@pytest.fixture
def inside(run, only_python):
    return lambda script: run(*only_python, "--", harness.PYTHON, "-ISc", script)


def test_listed_program_runs(inside):
    assert inside("import json, ssl, ctypes; print('ok')").ok() == "ok\n"


@pytest.mark.parametrize("program", ["/usr/bin/id", "/bin/sh", "/usr/bin/perl", "/bin/ls"])
def test_other_programs_are_refused(run, only_python, inside, program):
    result = run(*only_python, "--", program)
    assert result.status == 126 and result.reason == "denied"
    assert result.record["denials"][0]["rule"] == "tools.exec" and program in result.errors
    assert inside(f"import os\ntry: os.execv({program!r}, [{program!r}])\nexcept PermissionError: print('refused')"
                  ).ok() == "refused\n"


def test_programs_in_library_folders_are_refused(inside):
    """Libraries have to be mapped from there, so the mount allows execution: Landlock is what refuses the programs."""
    script = """
import os, glob
tried = 0
for pattern in ("/usr/lib/apt/methods/*", "/usr/lib/git-core/git", "/usr/lib/gcc/*/*/cc1", "/usr/lib/openssh/*",
                "/usr/lib/*/libc.so.6"):
    for path in glob.glob(pattern)[:3]:
        if not os.path.isfile(path): continue
        tried += 1
        try: os.execv(path, [path, "--help"])
        except PermissionError: pass
print("refused", tried)
"""
    text, tried = inside(script).ok().split()
    assert text == "refused" and int(tried) >= 1


def test_shell_of_a_library_is_refused(inside):
    """system() needs a shell, and there is none."""
    assert inside("import os; print(os.system('id') != 0)").ok() == "True\n"


def test_loader_trick(inside):
    result = inside(LOADER.format(programs=["/usr/bin/id", "/bin/true", "/usr/bin/perl"]))
    assert result.status == 0 and "ran" not in result.text.split() and "uid=" not in result.text


def test_loader_trick_with_a_copy(inside):
    script = "import shutil; shutil.copy('/usr/bin/id', '/tmp/id')\n" + LOADER.format(programs=["/tmp/id"])
    result = inside(script)
    assert result.status == 0 and "ran" not in result.text.split() and "uid=" not in result.text


def test_memfd_trick(inside, py):
    for call in (inside, py):
        assert "uid=" not in call(MEMFD).text and "refused" in call(MEMFD).text


def test_copied_program(inside, py):
    for call in (inside, py):
        assert call(COPY).text.count("refused") == 2


def test_other_interpreter_of_a_script(inside):
    """A script's first line names a program: it needs permission too."""
    script = ("import os\nopen('/tmp/s', 'w').write('#!/usr/bin/perl\\nprint 1')\nos.chmod('/tmp/s', 0o755)\n"
              "try: os.execv('/tmp/s', ['s'])\nexcept OSError as e: print('refused')")
    assert inside(script).ok() == "refused\n"


def test_low_cannot_execute_what_it_wrote(sh):
    result = sh("cp /usr/bin/id /tmp/id; /tmp/id; printf '#!/bin/sh\\necho script\\n' > /tmp/s; chmod +x /tmp/s; /tmp/s; "
                "cp /usr/bin/id /dev/shm/id; /dev/shm/id; echo end")
    assert result.text == "end\n"


def test_low_loader_trick(py):
    result = py("import shutil; shutil.copy('/usr/bin/id', '/tmp/id')\n" + LOADER.format(programs=["/tmp/id"]))
    assert "ran" not in result.text.split() and "uid=" not in result.text


def test_low_cannot_map_what_it_wrote(py):
    script = "open('/tmp/code', 'wb').write(b'x' * 8192); open('/dev/shm/code', 'wb').write(b'x' * 8192)\n"
    result = py(script + MAP.format(paths=["/tmp/code", "/dev/shm/code", "/etc/passwd"]))
    assert "mapped" not in result.text and result.text.count("refused") == 3


def test_medium_can_execute_what_it_built(run):
    script = ("cd && printf '#include <stdio.h>\\nint main(void){puts(\"built\");return 0;}' > a.c && cc -o a a.c && ./a && "
              "printf '#!/bin/sh\\necho script\\n' > s && chmod +x s && ./s")
    assert run("--profile", "medium", "--", "sh", "-c", script).ok() == "built\nscript\n"


def test_share_cannot_be_executed_in_low(run, place):
    """A folder that was shared for reading is data."""
    (place / "tool").write_bytes(open("/usr/bin/id", "rb").read())
    (place / "tool").chmod(0o755)
    for how in ("--ro", "--rw"):
        assert "uid=" not in run(how, place, "--", "sh", "-c", f"{place}/tool").text


def test_set_id_programs_give_nothing(sh):
    result = sh("for p in su mount passwd newgrp; do timeout 0.2 $p </dev/null >/dev/null 2>&1; done; "
                "grep -E '^(NoNewPrivs|CapEff|CapPrm|CapBnd|CapAmb|CapInh)' /proc/self/status")
    words = dict(line.split(":\t") for line in result.ok().splitlines())
    assert words.pop("NoNewPrivs") == "1" and set(words.values()) == {"0" * 16}


def test_empty_list_allows_nothing(run, place):
    path = place / "none.yaml"
    path.write_text("profile: 1\nextends: low\ntools: {exec: []}\n")
    assert run("--profile", path, "--", "true").status == 126
