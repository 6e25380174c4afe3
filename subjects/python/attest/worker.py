"""The worker: `python -m attest.worker TARGET`, TARGET script.py[:NAME], an adapter's PREFIX:NAME or `runtime:` and either the name of
a shipped runtime of models or a script that declares one.

Speaks the protocol of docs/worker.md over the stdin and stdout it was started with.
"""
import faulthandler
import importlib
import importlib.util
import inspect
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

from . import function, mailbox, models, nursery, provenance
from .protocol import CALLS, VERSION, Arena, Broken, Refused, Unsupported

LONGEST_TRACEBACK = 1 << 16
LONGEST_MESSAGE = 1 << 14  # a kernel's or a runtime's message on a call stays whole, but for a flood
ORPHAN_GRACE = 5.0  # seconds past the caller's own limit after which a forgotten worker ends itself

# Adapters that a message names, which is cut where it is too long.
MOST_NAMED = 12


class LoadError(Exception):
    """One sentence about a target that cannot be served. `logged`: stderr says more. `unsupported`: the script says itself that it
    cannot be asked here."""

    def __init__(self, sentence, logged=False, unsupported=False):
        super().__init__(sentence)
        self.logged, self.unsupported = logged, unsupported


def load(target, asked="", builds=()):
    """The subjects of a target, by name, in order. `asked`: the one that will be asked for, if that is known; `builds`: of a runtime of models,
    likewise."""
    if target.startswith("runtime:"):
        return load_runtime(target.removeprefix("runtime:"), builds)
    path, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    found = load_script(path, name or asked) if path.endswith(".py") else load_adapter(path, name)
    if name and name not in found:
        raise LoadError(f"{path} has no subject {name!r}; it has {', '.join(found)}")
    return {name: found[name]} if name else found


def load_script(path, name=""):
    """The subjects that a script declares; `name` may be a function of it that is none, of float32 and without a promise."""
    module = import_script(path)
    plain = getattr(module, name, None) if name else None
    if inspect.isfunction(plain) and name not in [subject.name for subject in function.REGISTRY]:
        try:
            function.subject(name=name)(plain)
        except TypeError as error:
            raise LoadError(f"{path} has no subject {name!r}, and a function that is none: {ascii_line(str(error))}") from None
    found = {}
    for subject in function.REGISTRY:
        if subject.name in found:
            raise LoadError(f"{path} declares the subject {subject.name!r} twice: give one of them name=...")
        subject.folder = Path(path).resolve().parent
        found[subject.name] = subject
    if not found:
        raise LoadError(f"{path} declares no subject: put @attest.subject(...) above the kernel's function")
    return found


def load_runtime(name, asked=()):
    """Loads the runtime of a script, or a shipped one by its name. `asked`: builds that will be asked for, as far as that is known."""
    models.REGISTRY.clear()
    try:
        if name.endswith(".py"):
            import_script(name)
        else:
            importlib.import_module(f"attest.runtimes.{name}")
    except ImportError as error:
        traceback.print_exc()
        raise LoadError(f"{name} cannot be imported by {sys.executable}: {one_line(error)}; "
                        "install it there, or name another interpreter with --python", logged=True) from None
    if not models.REGISTRY:
        raise LoadError(f"{name} declares no runtime: put @attest.runtime(...) above the function that loads a model")
    for one in models.REGISTRY:
        one.folder = Path(name).resolve().parent if name.endswith(".py") else None
        try:
            one.take(asked)
        except Unsupported as error:
            raise LoadError(ascii_line(f"{one.name}: {error}"), unsupported=True) from None
        except Exception as error:
            traceback.print_exc()
            raise LoadError(f"{name} cannot say whether it has the build {' or '.join(asked)}: {one_line(error)}", logged=True) from None
    return {one.name: one for one in models.REGISTRY}


def import_script(path):
    """Runs a script as a module, which it returns. Its subjects and runtimes register themselves. A file of a package is imported
    as a module of it, by the name that pytest gives it."""
    file = Path(path).resolve()
    if not file.is_file():
        raise LoadError(f"{path} is no file")
    root, module_name = file.parent, file.stem
    while (root / "__init__.py").is_file() and root != root.parent:
        module_name, root = f"{root.name}.{module_name}", root.parent
    sys.path.insert(0, str(root))  # as if it were run: it may import its neighbours
    function.REGISTRY.clear()
    try:
        if root != file.parent and module_name.split(".")[0] not in sys.modules:
            return importlib.import_module(module_name)
        module_name = file.stem if file.stem not in sys.modules else f"attest_script_{file.stem}"
        spec = importlib.util.spec_from_file_location(module_name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
        return module
    except Unsupported as error:  # the script needs a module that is not there
        raise LoadError(f"{path} cannot be asked here: {ascii_line(str(error))}", unsupported=True) from None
    except BaseException as error:  # the script may do anything, sys.exit() included
        traceback.print_exc()
        raise LoadError(f"{path} cannot be imported: {one_line(error)}", logged=True) from None


def load_adapter(prefix, name):
    module = prefix.replace("-", "_")
    if not (Path(__file__).parent / "adapters" / f"{module}.py").is_file():
        raise LoadError(f"there is no adapter {prefix!r}")
    try:
        table = importlib.import_module(f"attest.adapters.{module}").SUBJECTS
        if name not in table:
            others = len(table) - MOST_NAMED
            more = f" and {others} more (attest list subjects)" if others > 0 else ""
            raise LoadError(f"the adapter {prefix} has no {name!r}; it has {', '.join(list(table)[:MOST_NAMED])}{more}")
        return {name: table[name]()}
    except ImportError as error:
        traceback.print_exc()
        raise LoadError(f"{prefix}:{name} cannot be imported by {sys.executable}: {one_line(error)}; "
                        "install it there, or name another interpreter with --python", logged=True) from None
    except LoadError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise LoadError(f"{prefix}:{name} cannot be started: {one_line(error)}", logged=True) from None


def one_line(error, most=400):
    """`ValueError: what it says`."""
    text = ascii_line(str(error), most)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def ascii_line(text, most=400):
    return " ".join(text.split())[:most].encode("ascii", "backslashreplace").decode()


def place(error, near):
    """`kernel.py:12`, where the error arose: the innermost line of the script and its neighbours in the folder `near`, else
    of any file but this worker's. Empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent != Path(__file__).parent]
    inside = [frame for frame in frames if near and frame.filename.startswith(str(near) + os.sep)]
    if not frames:
        return ""
    frame = (inside or frames)[-1]
    name = os.path.relpath(frame.filename, near) if inside else os.path.basename(frame.filename)
    return ascii_line(f"{name}:{frame.lineno}")


def run_call(subject, read, told):
    """(status, what else the answer says, nanoseconds) of one call, which read(told) gives."""
    start = time.perf_counter_ns()
    try:
        call = read(told)
        ask = getattr(subject, call.op, None)
        if ask is None:
            raise Unsupported(f"operation {call.op}")
        start = time.perf_counter_ns()
        by_its_own_clock = ask(call)
        return "ok", None, by_its_own_clock or time.perf_counter_ns() - start
    except BaseException as error:  # a kernel that calls sys.exit() is an error like any other
        return *what_went_wrong(subject, error), time.perf_counter_ns() - start


def what_went_wrong(subject, error):
    """The status and what else the answer says of a call that raised."""
    if isinstance(error, Unsupported):
        return "unsupported", {"text": ascii_line(str(error), LONGEST_MESSAGE) or "no reason given"}
    if isinstance(error, Refused):
        return "error", {"text": ascii_line(str(error), LONGEST_MESSAGE) or "refused"}
    lines = "".join(traceback.format_exception(error))[-LONGEST_TRACEBACK:]
    said = {"text": one_line(error, LONGEST_MESSAGE), "at": place(error, getattr(subject, "folder", None)),
            "traceback": lines.encode("utf-8", "backslashreplace").decode()}  # no half of a pair
    return "error", said | ({"ends": True} if isinstance(error, Broken) else {})


def run_model(subject, request, arena):
    """The same as run_call() of a runtime of models that is to `load` one or is to `ask` one."""
    start = time.perf_counter_ns()
    try:
        if request["message"] == "load":
            note, elapsed = subject.load(request, arena)
            return "ok", {"note": ascii_line(note)} if note else None, elapsed
        outputs, elapsed = subject.ask(request, arena)
        return "ok", {"outputs": outputs}, elapsed
    except BaseException as error:
        return *what_went_wrong(subject, error), time.perf_counter_ns() - start


def script_of(subject, message, arena, beside):
    """Python that makes the call without attest, to be run from a file in the folder `beside`; nothing where the subject has
    none."""
    try:
        return subject.script(CALLS[message["op"]](message, arena), beside) if hasattr(subject, "script") else ""
    except Unsupported:
        return ""


class Watchdog:
    """Ends a worker that its caller has forgotten: SIGALRM ends the process, whoever holds the GIL. Set and put off seldom:
    two system calls for each call of a kernel would cost as much as some of them."""

    SLACK = 2.0

    def __init__(self):
        self.until = 0.0

    def watch(self, limit):
        """Watches from now on for `limit` seconds, and ORPHAN_GRACE."""
        now, limit = time.monotonic(), limit + ORPHAN_GRACE
        if self.until < now + limit:
            signal.setitimer(signal.ITIMER_REAL, limit + self.SLACK)
            self.until = now + limit + self.SLACK

    def rest(self):
        if self.until:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.until = 0.0


class Server:
    """Answers requests until they end, by the files with these numbers."""

    def __init__(self, target, requests, replies):
        self.target = target
        self.listen_to(requests, replies)
        self.subjects, self.arena, self.mailbox = {}, None, None
        self.watchdog = Watchdog()

    def listen_to(self, requests, replies):
        self.requests = os.fdopen(requests, "rb", closefd=False)
        self.replies = replies

    def reply(self, data):
        while data:
            data = data[os.write(self.replies, data):]

    def say(self, message):
        self.reply((json.dumps({"protocol": VERSION, **message}) + "\n").encode())

    def serve(self):
        going_on = True
        while going_on:
            if self.mailbox is not None and self.mailbox.spin():
                self.run_trip()
                continue
            self.watchdog.rest()
            line = self.sleep()
            if not line:
                return
            if line != b"\n":
                going_on = self.answer(json.loads(line))
            elif self.mailbox is not None and self.mailbox.is_asked():
                self.run_trip()

    def sleep(self):
        """The next line of the pipe, b"" at its end; an empty one if the mailbox has a trip."""
        if self.mailbox is None:
            return self.requests.readline()
        line = b"\n" if self.mailbox.begin_sleep() else self.requests.readline()
        self.mailbox.end_sleep()
        return line

    def answer(self, request):
        """False when there is nothing more to do."""
        if request["protocol"] != VERSION:
            self.say({"message": "error", "error": f"this worker speaks protocol {VERSION}"})
            return False
        if request["message"] == "describe":
            return self.describe(request)
        self.arena.map(request["arena_bytes"])
        subject = self.subjects[request["subject"]]
        if request["message"] == "run":
            for index, message in enumerate(request["calls"]):
                self.watchdog.watch(request["timeout_ms"] / 1000)
                self.say_result(request["id"], index, run_call(subject, self.read_call, message))
        elif request["message"] == "script":
            self.say({"message": "script", "source": script_of(subject, request["call"], self.arena, request["beside"])})
        elif request["message"] in ("load", "ask"):
            self.watchdog.watch(request["timeout_ms"] / 1000)
            self.say_result(request["id"], 0, run_model(subject, request, self.arena))
        elif request["message"] == "unload":
            subject.unload(request)
        return True

    def describe(self, request):
        self.arena = Arena(request["arena"])
        self.watchdog.watch(request["timeout_ms"] / 1000)  # a script may spin at import
        try:
            self.subjects = self.subjects or load(self.target, request.get("subject", ""), request.get("builds", ()))
            self.in_order = list(self.subjects.values())
            loaded = provenance.libraries()
            described = {"message": "describe", "subjects": [
                {"name": name, "version": subject.version, **provenance.of(subject, loaded), "describe": subject.describe()}
                for name, subject in self.subjects.items()]}
        except LoadError as error:
            self.say({"message": "error", "error": str(error), "logged": error.logged})
            return False
        offered = request.get("mailbox")
        if offered and mailbox.USABLE and offered["version"] == mailbox.VERSION:
            self.mailbox = mailbox.Mailbox(offered["path"], offered["bytes"])
            described["mailbox"] = mailbox.VERSION
        self.watchdog.rest()
        if request.get("nursery") and nursery.is_possible(self.in_order):
            return self.become_nursery(described)
        self.say(described)
        return True

    def become_nursery(self, described):
        """Goes on in the children alone, each of which is asked to describe itself."""
        self.say({**described, "nursery": True})
        life = nursery.tend(socket.socket(fileno=self.requests.fileno()))
        if life is None:
            return False
        self.arena = self.mailbox = None
        self.listen_to(life, life)
        for subject in self.in_order:
            if hasattr(subject, "prepare"):
                subject.prepare()  # opens its device, which the nursery may not
        return True

    def read_call(self, message):
        if message["op"] not in CALLS:
            raise Unsupported(f"operation {message['op']}")
        return CALLS[message["op"]](message, self.arena)

    def run_trip(self):
        box, arena = self.mailbox, self.arena
        calls, subject, timeout_ms, arena_bytes = box.take()
        arena.map(arena_bytes)
        subject = self.in_order[subject]
        for index in range(calls):
            self.watchdog.watch(timeout_ms / 1000)
            result = run_call(subject, box.next_call, arena)
            if result[0] != "ok":
                box.answer(mailbox.LINE, 0)
                self.say_result(box.trip, index, result)
            elif box.answer(mailbox.OK, result[2]):
                self.reply(b"\n")

    def say_result(self, trip, index, result):
        status, said, elapsed = result
        self.say({"message": "run", "id": trip, "call": index, "status": status, "ns": elapsed, **(said or {})})
        if said and said.get("ends"):
            os._exit(1)  # libraries of a broken device run no exit code


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    # The protocol keeps the two pipes to itself: a print() or input() of the script must not reach them.
    requests, replies = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    faulthandler.enable()
    Server(sys.argv[1], requests, replies).serve()


if __name__ == "__main__":
    main()
