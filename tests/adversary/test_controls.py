"""Positive controls: what people do all day must work inside, or the sandbox gets switched off.

Each row: a name, the profiles where it must work, the program it needs on the host, and a shell script that ends with
status 0 and prints the word."""
import shutil
import time

import pytest

from judge import Terminal

BOTH, MEDIUM = ("low", "medium"), ("medium",)

ASYNCIO = """
import asyncio, threading
async def main():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set)).start()
    await asyncio.wait_for(done.wait(), 5)
    p = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1)
    print('worked', (await p.communicate())[0])
asyncio.run(main())
"""
MULTI = """
import multiprocessing as m
def square(n): return n * n
def count(lock, total):
    for _ in range(100):
        with lock: total.value += 1
if __name__ == '__main__':
    with m.Pool(2) as pool: assert pool.map(square, range(20))[-1] == 361
    lock, total = m.Semaphore(1), m.Value('i', 0)
    people = [m.Process(target=count, args=(lock, total)) for _ in range(3)]
    [p.start() for p in people]; [p.join() for p in people]
    q = m.Queue(); q.put('worked'); print(q.get(), total.value)
"""
SQLITE = """
import sqlite3, os
db = sqlite3.connect(os.environ['HOME'] + '/x.db')
db.execute('pragma journal_mode=wal'); db.execute('create table t (n)')
db.executemany('insert into t values (?)', [(n,) for n in range(1000)]); db.commit()
print('worked', db.execute('select sum(n) from t').fetchone())
"""
LOOPBACK = """
import socket, threading, http.server, urllib.request
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
print('worked', urllib.request.urlopen('http://127.0.0.1:%d/' % s.server_port).status)
"""
NODE = """
const {Worker, isMainThread, parentPort} = require('worker_threads');
const fs = require('fs'), cp = require('child_process');
if (isMainThread) {
  fs.writeFileSync('f', 'x'); fs.watch('f').close();
  const out = cp.execFileSync('echo', ['child']).toString();
  const w = new Worker(__filename);
  w.on('message', m => console.log('worked', m, out));
} else parentPort.postMessage(40 + 2);
"""
GIT = """
set -e
git config --global user.name a; git config --global user.email a@b; git init -q one; cd one
echo x >file; git add file; git commit -qm first; git worktree add -q ../tree; cd ..
git clone -q one two; git -C two log --oneline; git -C two fsck; git -C one gc -q; test -f tree/file && echo worked
"""
JOBS = """
sleep 5 & sleep 5 & jobs; kill %1; wait %1; kill %2; trap 'echo got it' USR1; kill -USR1 $$; set -o pipefail
false | true || echo worked
"""
C = """
set -e
printf '#include <stdio.h>\\n#include <pthread.h>\\nstatic void *f(void*a){return a;}\\nint main(void){pthread_t t;'\
'pthread_create(&t,0,f,0);pthread_join(t,0);puts("worked");}' >x.c
printf 'x: x.c\\n\\tcc -O2 -o x x.c -pthread\\n' >Makefile; make -s; ./x
"""
CHROMIUM = """
timeout 50 BROWSER --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
--disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage \
--user-data-dir=$HOME/chromium --dump-dom 'data:text/html,<script>document.write("wor"+"ked")</script>' 2>/dev/null
"""


def script(text):
    return f"cat >x.tmp <<'EOF'\n{text}\nEOF\n"


WORK = [
    ("asyncio", BOTH, "python3", script(ASYNCIO) + "python3 x.tmp"),
    ("multiprocessing", BOTH, "python3", script(MULTI) + "mv x.tmp x.py; python3 x.py"),
    ("python-parts", BOTH, "python3", "python3 -c 'import ssl,sqlite3,threading,subprocess,ctypes,zoneinfo,curses;"
     "t=threading.Thread(target=print,args=(\"worked\",));t.start();t.join();ssl.create_default_context()'"),
    ("sqlite", BOTH, "python3", script(SQLITE) + "python3 x.tmp"),
    ("loopback", BOTH, "python3", script(LOOPBACK) + "python3 x.tmp"),
    ("venv", MEDIUM, "python3", "python3 -m venv --without-pip v && v/bin/python -c 'print(\"worked\")'"),
    ("node", BOTH, "node", script(NODE) + "mv x.tmp x.js; node x.js"),
    ("git", BOTH, "git", GIT),
    ("gcc", MEDIUM, "gcc", C),
    ("gcc-compiles", ("low",), "gcc", "echo 'int main(void){return 0;}' >x.c; gcc -c x.c && ls x.o && echo worked"),
    ("bash", BOTH, "bash", script(JOBS) + "bash x.tmp"),
    ("perl", BOTH, "perl", "perl -MPOSIX -e 'my $p=fork; exit 0 unless $p; waitpid $p,0; print \"worked\\n\"'"),
    ("java", MEDIUM, "java", "java -version 2>&1 | grep -qi version && echo worked"),
    ("java-low", ("low",), "java", "java -Xmx64m -version 2>&1 | grep -qi version && echo worked"),
    ("strace", MEDIUM, "strace", "strace -f -o t sh -c 'true; ls /' >/dev/null; grep -q execve t && echo worked"),
    ("gdb", MEDIUM, "gdb", "gdb -q -batch -ex 'break main' -ex run -ex 'info registers rip' -ex kill /usr/bin/true 2>&1 |"
     " tee log | grep -qE 'rip|exited normally' && echo worked || cat log"),
    ("tools", BOTH, "awk", "awk 'BEGIN{print 1}' && id -un && locale >/dev/null && tar cf t.tar /etc/passwd &&"
     " tar tf t.tar && xz -k t.tar && date && df /tmp >/dev/null && ps ax >/dev/null && echo worked"),
    ("curl", BOTH, "curl", "curl --version >/dev/null && ! curl -s -m 3 http://198.51.100.2/ && echo worked"),
    ("files", BOTH, "sh", "mkdir -p a/b && ln -s b a/c && ln a/../x.tmp y 2>/dev/null; touch f && ln f g && mkfifo p &&"
     " chmod 1777 a && touch -d 2001-01-01 f && cp -a f h && mv h i && flock f true && mktemp && rm -r a && echo worked"),
    ("signals", BOTH, "sh", "(trap 'exit 3' TERM; kill -TERM $(exec sh -c 'echo $PPID')); test $? = 3; sleep 0.1;"
     " timeout 0.2 sleep 5; test $? = 124 && nice -n 5 true && setsid true && nohup true 2>/dev/null; echo worked"),
    ("chromium", MEDIUM, "chromium", CHROMIUM.replace("BROWSER", "chromium")),
    ("chromium-itself", MEDIUM, "chromium", CHROMIUM.replace("BROWSER", "/usr/lib/chromium/chromium")),
]


@pytest.mark.parametrize("name, profile, program, text",
                         [pytest.param(n, p, program, text, id=f"{n}-{p}") for n, profiles, program, text in WORK
                          for p in profiles if program != "java" or shutil.which("java")])  # tried where it is there
def test_works_inside(host, person, name, profile, program, text):
    if not shutil.which(program):
        pytest.skip(f"there is no {program} on this host")
    run = person.run(profile, ["/bin/bash", "-c", "cd $HOME\n" + text], timeout=90)
    assert run.status == 0 and "worked" in run.text, run


def test_interactive_shell(host, person, profile):
    """A shell with job control on a terminal: ^Z, fg, ^C, a new size."""
    with Terminal(person, profile, ["bash", "--norc", "-i"]) as shell:
        shell.type("PS1='rea''dy> '\n", "ready> ")
        shell.type("sleep 30\n", "sleep 30")
        shell.type("\x1a", "Stopped", again=0.5)
        shell.type("jobs\n", "sleep 30")
        shell.type("fg\n", "sleep 30")
        shell.type("\x03", "ready> ", again=0.5)
        shell.resize(33, 77)
        shell.type("stty size; tty\n", "33 77", again=2)  # the size follows a moment later
        shell.type("echo a$((1 + 1))b; (sleep 30 &) ; exit 5\n", "a2b")
        assert shell.process.wait(60) == 5
