"""Drives a real `stockade-guest serve` over its socket, as the operator would: Guest starts one, Connection speaks to it.

A Connection takes frames as they come (step, wait), keeps what they say in Run and Request objects, and gives credit by
itself unless told otherwise. It checks what a guest must never do: gaps in output, bytes beyond the window, frames
about what nobody asked for."""
import array
import fcntl
import os
import select
import signal
import socket
import tempfile
import time

import frames
from frames import ERR, IN, OF_REQUEST, OPEN, OUT, TTY, WINDOW

BUILD = os.environ.get("STOCKADE_BUILD", os.path.join(os.path.dirname(__file__), "../../build"))
PROGRAM = os.environ.get("STOCKADE_GUEST", os.path.join(BUILD, "src/cli/stockade-guest"))
ENV = ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]


ENOUGH = 60  # seconds: what comes at all has come by then, however busy this machine is


class Broken(Exception):
    """The guest closed the connection."""


def high(fd):
    """The same descriptor with a number that is in nobody's way."""
    made = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return made


def until(condition, seconds=ENOUGH):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Guest:
    """A guest as PID 1 of a pid namespace of its own."""

    def __init__(self, program=PROGRAM, wrapper=None, say_go=True, verb="serve"):
        self.folder = tempfile.mkdtemp(prefix="stockade-guest-")
        self.path = os.path.join(self.folder, "s")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.path)
        listener.listen(8)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if wrapper is None:
            wrapper = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork",
                       "--kill-child", "--mount-proc"]
        argv = [*wrapper, program, verb, "/"]
        listen_fd, report_fd = high(listener.detach()), high(theirs.detach())
        self.report = ours
        self.report.settimeout(ENOUGH)
        null = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0)
        actions = [null, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, report_fd, 3),
                   (os.POSIX_SPAWN_DUP2, listen_fd, 4)]
        self.pid = os.posix_spawnp(argv[0], argv, {"PATH": os.environ["PATH"]}, file_actions=actions, setpgroup=0)
        os.close(listen_fd)
        os.close(report_fd)
        if say_go:
            try:
                self.begin()
            except BaseException:
                self.close()
                raise

    def begin(self):
        self.report.send(b"\1")
        said = self.report.recv(64)
        assert int.from_bytes(said[:4], "little") == 7, said  # REPORT_SERVING

    @property
    def own_pid(self):
        """The guest's own process: the wrapper's only child, or itself."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
            children = f.read().split()
        with open(f"/proc/{self.pid}/comm") as f:
            return self.pid if f.read().strip() == "stockade-guest" else int(children[0])

    def outside(self, run):
        """The pid of a run's process as it is here."""
        own = os.readlink(f"/proc/{self.own_pid}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/status") as f:
                    inside = next(line.split()[-1] for line in f if line.startswith("NSpid:"))
                if inside == str(run.pid) and os.readlink(f"/proc/{entry}/ns/pid") == own:
                    return int(entry)
            except (OSError, StopIteration):
                pass
        raise AssertionError(f"run {run.number} has no process")

    def status(self, key):
        with open(f"/proc/{self.own_pid}/status") as f:
            return next(line.split(":")[1].split()[0] for line in f if line.startswith(key + ":"))

    def stays_below(self, kib):
        """It takes no more memory than this, now. (A sanitizer's own memory is not counted.)"""
        with open(PROGRAM, "rb") as f:
            assert b"__asan_init" in f.read() or self.rss() < kib, self.rss()

    def rss(self):
        """Resident KiB."""
        with open(f"/proc/{self.own_pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Rss:"))

    def connect(self, **kw):
        return Connection(self.path, **kw)

    def is_alive(self):
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def close(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        self.report.close()
        os.unlink(self.path)
        os.rmdir(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Run:
    def __init__(self, number, tty):
        self.number, self.tty = number, tty
        self.pid = None
        self.exited = None
        self.began = {TTY: 0} if tty else {OUT: 0, ERR: 0}  # offset of the first byte that we have
        self.got = {stream: bytearray() for stream in self.began}
        self.credit = dict(self.began)
        self.taken = 0  # of our input
        self.sent = 0
        self.hold = False  # gives no credit
        self.keep = True  # what comes; else it is only counted

    def next(self, stream):
        return self.began[stream] + len(self.got[stream])

    @property
    def out(self):
        return bytes(self.got[TTY if self.tty else OUT])

    @property
    def err(self):
        return bytes(self.got[ERR])

    @property
    def code(self):
        return os.waitstatus_to_exitcode(self.exited.number)


class Request:
    def __init__(self, channel):
        self.channel = channel
        self.items, self.data, self.end = [], bytearray(), None
        self.opened = self.finished = False
        self.received = self.credit = 0  # bytes of data, and credit that we gave
        self.sent = self.taken = 0
        self.hold = False
        self.keep = True


class Connection:
    def __init__(self, path, hello=True, timeout=ENOUGH):
        self.timeout = timeout
        self.runs, self.requests = {}, {}
        self.listed = []
        self.next_request = 1000
        self.next_run = 1
        self.buffer = bytearray()
        self.hello = None
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.setblocking(False)
        if hello:
            self.send(frames.frame("hello", version=frames.VERSION))
            self.wait(lambda: self.hello)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- bytes ---

    def send(self, data, fds=()):
        """All of it, taking what comes meanwhile."""
        view = memoryview(bytes(data))
        deadline = time.monotonic() + self.timeout
        while view:
            if time.monotonic() > deadline:
                raise TimeoutError("the guest does not read")
            select.select([self.socket], [self.socket], [], 1)
            self.take()
            try:
                if fds:
                    rights = array.array("i", fds)
                    n = self.socket.sendmsg([view], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                    fds = ()
                else:
                    n = self.socket.send(view)
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError) as e:
                raise Broken from e
            view = view[n:]

    def take(self, limit=1 << 20):
        """Reads what is there, without waiting, and deals with whole frames."""
        try:
            data = self.socket.recv(limit)
        except BlockingIOError:
            return False
        except ConnectionResetError as e:
            raise Broken from e
        if not data:
            raise Broken
        self.buffer += data
        at = 0
        while len(self.buffer) - at >= frames.HEAD:
            size = int.from_bytes(self.buffer[at:at + 4], "little")
            assert size <= frames.PAYLOAD_MAX
            if len(self.buffer) - at < frames.HEAD + size:
                break
            head = bytes(self.buffer[at:at + frames.HEAD])
            payload = bytes(self.buffer[at + frames.HEAD:at + frames.HEAD + size])
            at += frames.HEAD + size
            self.deal(frames.parse(head, payload))
        del self.buffer[:at]
        return True

    def step(self, timeout=None):
        select.select([self.socket], [], [], self.timeout if timeout is None else timeout)
        return self.take()

    def wait(self, condition, timeout=None):
        """Takes frames until condition() is true, and returns what it returned."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while not (result := condition()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.step(left)
        return result

    def idle(self, seconds=0.2):
        """Takes whatever comes within this time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.step(left)

    def stays(self, condition, seconds=0.3):
        """It comes to be so, and then it is so for a while."""
        self.wait(condition)
        self.idle(seconds)
        assert condition()

    def press(self, run, key, condition):
        """A key of a terminal, again until it has its effect: a shell says what it is going to do before it does it."""
        deadline = time.monotonic() + self.timeout
        while not condition():
            assert time.monotonic() < deadline, run.out
            self.input(run, key)
            try:
                self.wait(condition, 0.3)
            except TimeoutError:
                pass

    # --- frames ---

    def deal(self, m):
        if m.kind == "hello":
            assert self.hello is None and m.version >= 1
            self.hello = m
            return
        assert self.hello, "something before hello"
        if m.kind in ("started", "output", "exited") or (m.kind == "credit" and m.stream != OF_REQUEST):
            self.deal_run(m)
        else:
            self.deal_request(m)

    def deal_run(self, m):
        run = self.runs.get(m.channel)
        if m.kind == "credit":
            assert m.stream == IN
            if run:
                assert run.taken < m.offset <= run.sent, (run.taken, m.offset, run.sent)
                run.taken = m.offset
            return
        assert run, f"{m.kind} of run {m.channel}, which is not ours"
        if m.kind == "started":
            assert run.pid is None and not run.exited
            run.pid = m.number
        elif m.kind == "exited":
            assert not run.exited, "it ended twice"
            run.exited = m
            for stream, newest in ((OUT, m.newest0), (ERR, m.newest1), (TTY, m.newest2)):
                assert stream not in run.got or newest == run.next(stream), (stream, newest, run.next(stream))
        else:
            assert m.stream in run.got, f"a stream that it does not have: {m.stream}"
            assert m.offset == run.next(m.stream), ("gap", m.stream, m.offset, run.next(m.stream))
            assert not run.exited or run.exited.flags & OPEN
            if run.keep:
                run.got[m.stream] += m.data
            else:
                run.began[m.stream] += len(m.data)
            assert run.next(m.stream) - run.credit[m.stream] <= WINDOW, "beyond the window"
            self.give(run, m.stream)

    def give(self, run, stream, least=WINDOW // 2):
        """Credit for what has come."""
        if not run.hold and run.next(stream) - run.credit[stream] >= least:
            run.credit[stream] = run.next(stream)
            self.queue(frames.frame("credit", run.number, stream=stream, offset=run.credit[stream]))

    def queue(self, data):
        """Sends a small frame from within dealing with another."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view):]
            except BlockingIOError:
                select.select([], [self.socket], [], 1)
            except (BrokenPipeError, ConnectionResetError):
                return  # seen when reading

    def deal_request(self, m):
        request = self.requests.get(m.channel)
        assert request and not request.end, f"{m} of a request that is not open"
        if m.kind == "end":
            request.end = m
        elif m.kind == "data":
            request.received += len(m.data)
            if request.keep:
                request.data += m.data
            assert request.received - request.credit <= WINDOW, "beyond the window"
            if not request.hold and request.received - request.credit >= WINDOW // 2:
                request.credit = request.received
                self.queue(frames.frame("credit", m.channel, stream=OF_REQUEST, offset=request.credit))
        elif m.kind == "credit":
            assert request.taken < m.offset <= request.sent
            request.taken = m.offset
        elif m.kind == "opened":
            assert not request.opened
            request.opened = True
        elif m.kind == "finish":
            request.finished = True
        else:
            request.items.append(m)

    # --- runs ---

    def exec(self, *argv, env=ENV, cwd="/", tty=None, stdin=False, fds=(), number=None):
        """Starts a run; tty is (rows, cols) or None."""
        if number is None:
            number = self.next_run
            self.next_run += 1
        run = self.runs[number] = Run(number, tty is not None)
        rows, cols = tty or (0, 0)
        flags = (frames.TERMINAL if tty is not None else 0) | (frames.STDIN if stdin else 0)
        self.send(frames.frame("exec", number, flags, rows=rows, cols=cols, fds=len(fds), path=cwd,
                               words=(argv, env)), fds)
        return run

    def sh(self, script, **kw):
        return self.exec("/bin/sh", "-c", script, **kw)

    def end(self, run, timeout=None):
        self.wait(lambda: run.exited, timeout)
        return run

    def input(self, run, data):
        """All of it, as the window allows."""
        view = memoryview(data)
        while view:
            room = WINDOW - (run.sent - run.taken)
            if room == 0:
                self.wait(lambda: run.sent - run.taken < WINDOW)
                continue
            piece = view[:min(room, frames.DATA_MAX)]
            run.sent += len(piece)
            self.send(frames.frame("input", run.number, data=piece))
            view = view[len(piece):]

    def input_end(self, run):
        self.send(frames.frame("input-end", run.number))

    def signal(self, run, number, group=False):
        self.send(frames.frame("signal", run.number, frames.TO_GROUP if group else 0, number=number))

    def resize(self, run, rows, cols):
        self.send(frames.frame("resize", run.number, rows=rows, cols=cols))

    def forget(self, run):
        self.send(frames.frame("forget", run.number))
        self.runs.pop(run.number, None)

    def list_runs(self):
        request = self.ask("list-runs")
        self.finish_of(request)
        return {m.run: m for m in request.items}

    def attach(self, listed, offsets):
        """To all streams of a run that list_runs showed: offsets by stream."""
        run = self.runs[listed.run] = Run(listed.run, bool(listed.flags & frames.TERMINAL))
        run.pid = 0
        run.sent, run.taken = listed.offset, listed.length
        oldest = (listed.oldest0, listed.oldest1, listed.oldest2)
        newest = (listed.newest0, listed.newest1, listed.newest2)
        for stream in run.got:
            run.began[stream] = run.credit[stream] = min(max(offsets.get(stream, 0), oldest[stream]), newest[stream])
            self.send(frames.frame("attach", run.number, stream=stream, offset=offsets.get(stream, 0)))
        return run

    # --- requests ---

    def ask(self, kind, flags=0, **fields):
        channel = self.next_request
        self.next_request += 1
        request = self.requests[channel] = Request(channel)
        self.send(frames.frame(kind, channel, flags, **fields))
        return request

    def finish_of(self, request, timeout=None):
        """Waits for its end; that is returned."""
        return self.wait(lambda: request.end, timeout)

    def call(self, kind, flags=0, **fields):
        request = self.ask(kind, flags, **fields)
        self.finish_of(request)
        return request

    def data(self, request, data):
        """All of it, as the window allows; less if the request ends."""
        view = memoryview(data)
        while view and not request.end:
            room = WINDOW - (request.sent - request.taken)
            if room == 0:
                self.wait(lambda: request.end or request.sent - request.taken < WINDOW)
                continue
            piece = view[:min(room, frames.DATA_MAX)]
            request.sent += len(piece)
            self.send(frames.frame("data", request.channel, data=piece))
            view = view[len(piece):]

    def finish(self, request):
        self.send(frames.frame("finish", request.channel))

    def cancel(self, request):
        self.send(frames.frame("cancel", request.channel))

    def put(self, path, data, mode=0, flags=0):
        """Writes a file; its END."""
        request = self.ask("write", flags, path=path, mode=mode)
        self.data(request, data)
        self.finish(request)
        return self.finish_of(request)

    def get(self, path, offset=0, length=frames.TO_END):
        request = self.call("read", path=path, offset=offset, length=length)
        assert request.end.error == 0, request.end
        return bytes(request.data)

    def unpack(self, path, archive):
        request = self.ask("tar-in", path=path)
        self.data(request, archive)
        if not request.end:
            self.finish(request)
        return self.finish_of(request)

    def pack(self, path):
        return self.call("tar-out", path=path)
