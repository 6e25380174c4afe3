"""The nursery (docs/worker.md): a worker that has loaded its subjects forks one that serves them, for each life.

Only before any call, where no thread and no device would be half there in the child.
"""
import ctypes
import gc
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
import warnings

from .protocol import VERSION

ARENA_FILE, MAILBOX_FILE = 3, 4
_PR_SET_PDEATHSIG = 1
_PLAIN_DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
_PATIENCE = 1.0  # s, for a child that has nothing to do

_libc = ctypes.CDLL(None, use_errno=True)


def is_possible(subjects):
    """Whether what is loaded can be forked: tried once."""
    if not hasattr(socket, "recv_fds") or threading.active_count() > 1:
        return False
    return all(getattr(subject, "fork", True) for subject in subjects) and not devices() and survives_a_fork()


def devices():
    """Device files that are open: what a driver keeps for a process means nothing to its child."""
    links = []
    for file in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{file}"))
        except OSError:  # that of the list itself
            pass
    return [link for link in links if link.startswith("/dev/") and link not in _PLAIN_DEVICES
            and not link.startswith(("/dev/shm/", "/dev/pts/"))]


def survives_a_fork():
    """Libraries that know of forks end their threads before one (OpenBLAS does, and starts them anew when it needs them).
    Whoever has a thread left then would miss it in the child."""
    child = fork()
    if child == 0:
        os._exit(0)
    end = time.monotonic() + _PATIENCE
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.0005)
    return len(os.listdir("/proc/self/task")) == 1


def fork():
    sys.stdout.flush()
    sys.stderr.flush()
    _libc.fflush(None)  # a buffer's rest would be written twice
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads end before it, as above
        return os.fork()


def tend(control):
    """Forks lives until nobody asks any more, and then returns None; in each life, returns its socket."""
    gc.collect()
    gc.freeze()  # collections of a life leave shared pages alone
    nursery, rest, files = os.getpid(), b"", []
    dying = set()
    while True:
        data, more, _, _ = socket.recv_fds(control, 1 << 16, 48)
        if not data:
            return None
        files += more
        *lines, rest = (rest + data).split(b"\n")
        for request in map(json.loads, lines):
            dying = {child for child in dying if is_dying(child)}
            if request["message"] == "life":
                its, files = files[:3], files[3:]
                try:
                    child = fork()
                except OSError:
                    traceback.print_exc()  # attest sees the socket closed
                    child = None
                if child == 0:
                    for file in (control.detach(), *files):
                        os.close(file)
                    return begin_life(nursery, *its)
                for file in its:
                    os.close(file)
            elif request["message"] == "bury":
                dying.add(request["pid"])  # a driver may take its time to let go of it, for which no other life should wait
            elif request["message"] == "reap":
                control.sendall(line(message="reaped", **reap(request["pid"])))


def is_dying(child):
    """Whether a child that nobody asks any more is still there."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def reap(child):
    try:
        _, status, used = os.wait4(child, 0)
    except ChildProcessError:
        return {"pid": child, "status": None, "held": 0}
    return {"pid": child, "status": status, "held": used.ru_maxrss << 10}


def begin_life(nursery, its_socket, arena, mailbox):
    os.setpgid(0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:  # it ended before it could be asked to tell
        os._exit(1)
    for file, place in ((arena, ARENA_FILE), (mailbox, MAILBOX_FILE)):
        os.dup2(file, place)
        os.close(file)
    os.write(its_socket, line(message="born"))
    return its_socket


def line(**message):
    return (json.dumps({"protocol": VERSION, **message}) + "\n").encode()
