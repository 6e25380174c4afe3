#!/usr/bin/env python3
"""Subjects that mean harm: to attest, to its answers, to processes that are none of theirs. Each is a failure of its own, or has no effect;
none ends with status 0, none reaches beyond what descends from it, none holds attest past its limits, and nothing of them is left behind.

Usage: harmful_test.py ATTEST [unittest option...]
"""
import ctypes
import importlib.util
import json
import os
import py_compile
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from command_line import ROOT, Cli, run

LIMITS = ("--cases", "4", "--jobs", "1", "--timeout", "0.3s", "--memory", "400M", "--shrink-budget", "4")

PYTHON = """
import ctypes, json, os, signal, socket, struct, subprocess, sys, time
from pathlib import Path
import attest
import numpy as np
import attest.nursery, attest.worker

HERE = Path(__file__).parent
BYSTANDER = int((HERE / "bystander").read_text())
libc = ctypes.CDLL(None, use_errno=True)

def ancestors():
    found, at = [], os.getppid()
    while at > 1:
        found.append(at)
        at = int(Path(f"/proc/{{at}}/stat").read_text().rpartition(")")[2].split()[1])
    return found

def attests():
    return [p for p in ancestors() if b"check" in Path(f"/proc/{{p}}/cmdline").read_bytes().split(bytes(1))][:1]

def noted(name, text):
    with open(HERE / name, "a") as file:
        file.write(text + "\\n")

def tries(what, *words):
    try:
        return what(*words)
    except OSError as error:
        return noted("errors", repr(error))

def kept(child):
    noted("left", str(child))
    return child

{at_import}

@attest.subject(contract={{"policy": "f32"}}{declared})
def kernel(q, k, v, *, scale):
    {in_call}
    return np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
"""

C = r"""
#define _GNU_SOURCE
#include <attest/plugin.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void left(long process) {
  FILE* file = fopen("left", "a");
  if (file) fprintf(file, "%%ld\n", process), fclose(file);
}

static int attention(void* self, const attest_attention* call, char* message, size_t size) {
  (void)self, (void)call, (void)message, (void)size;
  %s
  return ATTEST_DONE;
}
%s
static const attest_subject subjects[] = {{.struct_size = sizeof(attest_subject), .name = "mine", .version = "1",
  .describe = "{\"ops\":[\"attention\"],\"dtypes\":[\"f32\"]}", .attention = attention}};
const attest_subject* attest_plugin(uint32_t abi, size_t* count) { (void)left; *count = 1; return abi == ATTEST_ABI ? subjects : NULL; }
"""

# A program that speaks the protocol itself; `answer` is its answer to a call, in bytes.
PROGRAM = """#!/usr/bin/env python3
import json, os, signal, socket, sys, time
from pathlib import Path
BYSTANDER = int(Path("bystander").read_text())
def say(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else (json.dumps({{"protocol": 1, **text}}) + "\\n").encode())
    sys.stdout.buffer.flush()
DESCRIBED = {{"message": "describe", "subjects": [{{"name": "it", "version": "1", "describe": {{"ops": ["attention"], "dtypes": ["f32"]}}}}]}}
for line in sys.stdin:
    request = json.loads(line)
    if request["message"] == "describe":
        say(DESCRIBED | {described})
    elif request["message"] == "run":
        for index, call in enumerate(request["calls"]):
            done = {{"message": "run", "id": request["id"], "call": index, "status": "ok", "ns": 5}}
            {answer}
"""

# Another process of the bystander's number is in what the life says, as text and, where one may lie about that, as the system's word.
BORN = """
def begin_life(nursery, its_socket, arena, mailbox):
    os.setpgid(0, 0)
    for file, place in ((arena, 3), (mailbox, 4)):
        os.dup2(file, place)
    with socket.socket(fileno=os.dup(its_socket)) as channel:
        line = attest.nursery.line(message="born", pid=BYSTANDER)
        try:
            channel.sendmsg([line], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", BYSTANDER, os.getuid(), os.getgid()))])
        except OSError:
            channel.sendall(line)
    return its_socket
attest.nursery.begin_life = begin_life
"""

EATS = "eaten = [np.ones(1 << 22) for _ in range(40)]; time.sleep(30)"  # 1.3 GB, where nobody minds


def is_there(process):
    """Not counting what only nobody has asked for its status."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def fenced():
    """Whether this system keeps signals inside (Landlock, Linux 6.12)."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6


class Harmful(Cli):
    def setUp(self):
        super().setUp()
        self.bystander = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        (self.cwd / "bystander").write_text(str(self.bystander.pid))

    def tearDown(self):
        state = Path(f"/proc/{self.bystander.pid}/stat").read_text().rpartition(")")[2].split()[0]
        self.bystander.kill()
        self.bystander.wait()
        left = self.cwd / "left"
        numbers = [int(word) for word in left.read_text().split()] if left.exists() else []
        end = time.monotonic() + 20
        while any(map(is_there, numbers)) and time.monotonic() < end:
            time.sleep(0.02)
        still = [number for number in numbers if is_there(number)]
        for number in still:
            os.kill(number, signal.SIGKILL)
        super().tearDown()
        self.assertIn(state, "SR", "the bystander was stopped or killed")
        self.assertEqual(still, [], "left behind")

    def python(self, in_call="pass", at_import="", declared=""):
        (self.cwd / "harm.py").write_text(PYTHON.format(in_call=in_call.replace("\n", "\n    "), at_import=at_import, declared=declared))
        return "harm.py"

    def plugin(self, in_call, beside=""):
        (self.cwd / "harm.c").write_text(C % (in_call, beside))
        subprocess.run(["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-I", ROOT / "include", "harm.c", "-o", "harm.so"], check=True,
                       cwd=self.cwd)
        return "./harm.so"

    def worker(self, answer="say(done)", described="{}"):
        file = self.cwd / "harm"
        file.write_text(PROGRAM.format(answer=answer.replace("\n", "\n" + 12 * " "), described=described))
        file.chmod(0o755)
        return "./harm"

    def ends(self, subject, *says, status=1, more=()):
        done = self.attest("check", subject, *LIMITS, *more)
        self.assertEqual(done.returncode, status, done.stdout[-3000:] + done.stderr[-3000:])
        for word in says:
            self.assertRegex(done.stdout + done.stderr, word)
        return done

    def errors(self):
        file = self.cwd / "errors"
        return file.read_text() if file.exists() else ""


PYTHON_EXE = os.environ.get("ATTEST_PYTHON") or "python3"
HAS_NUMPY = subprocess.run([PYTHON_EXE, "-c", "import numpy"], capture_output=True).returncode == 0


@unittest.skipUnless(HAS_NUMPY, "needs numpy")
class Python(Harmful):
    def test_a_life_that_gives_another_number_as_its_own(self):
        self.ends(self.python(at_import=BORN), status=4)

    def test_a_nursery_that_answers_for_the_dead(self):
        self.ends(self.python(in_call="os._exit(3)", at_import="attest.nursery.reap = lambda child: {'pid': BYSTANDER, 'status': 0, 'held': 0}"))

    @unittest.skipUnless(fenced(), "no fence here")
    def test_signals_to_attest_and_to_others(self):
        for name in ("SIGKILL", "SIGSTOP"):
            with self.subTest(name):
                self.ends(self.python(in_call=f"for p in attests() + [BYSTANDER]: tries(os.kill, p, signal.{name})\n"
                                              f"for p in attests(): tries(os.killpg, os.getpgid(p), signal.{name})"))
                self.assertIn("PermissionError", self.errors())

    @unittest.skipUnless(fenced(), "no fence here")
    def test_signals_at_import_and_from_a_child(self):
        self.ends(self.python(at_import="for p in attests(): tries(os.kill, p, signal.SIGSTOP)\n"
                                        "if os.fork() == 0:\n    os.setsid()\n    tries(os.kill, BYSTANDER, signal.SIGKILL)\n    os._exit(0)"))

    @unittest.skipUnless(fenced(), "no fence here")
    def test_the_memory_and_the_files_of_attest(self):
        """/proc, ptrace, process_vm_writev and pidfd_getfd reach neither."""
        self.ends(self.python(in_call="""for p in attests():
    for name in ("mem", "fd/1"):
        tries(lambda: open(f"/proc/{p}/{name}", "rb+" if name == "mem" else "rb").read(1) and noted("seen", name))
    libc.ptrace(16, p, 0, 0) == 0 and noted("seen", "ptrace")
    pid = libc.syscall(434, p, 0)
    libc.syscall(438, pid, 1, 0) >= 0 and noted("seen", "descriptor")"""))
        seen = self.cwd / "seen"
        self.assertEqual(seen.read_text() if seen.exists() else "", "")

    def test_an_import_that_does_not_end(self):
        for what in ("while True: pass", "time.sleep(3600)", "os.kill(os.getpid(), signal.SIGSTOP)"):
            with self.subTest(what):
                self.ends(self.python(at_import=what), "took longer than 2 s to load it; --load-timeout gives it more", status=4,
                          more=("--load-timeout", "2s"))

    def test_a_call_that_stops_itself_and_its_nursery(self):
        self.ends(self.python(in_call="os.kill(os.getpid(), signal.SIGSTOP)"), "no answer within")
        self.ends(self.python(in_call="os.kill(os.getppid(), signal.SIGSTOP)\nos._exit(1)"))

    def test_children_that_eat_memory(self):
        for more in ("", "os.setsid()\n    if os.fork(): os._exit(0)\n    "):
            with self.subTest(more):
                self.ends(self.python(in_call=f"if os.fork() == 0:\n    {more}kept(os.getpid())\n    {EATS}\ntime.sleep(30)"),
                          "ran out of memory: it held more than the 400 MB", more=("--timeout", "20s"))

    def test_children_that_share_a_page_hold_it_once(self):
        """Twelve, of 60 MB that their parent has: 780 MB of a limit of 400, and no finding of memory."""
        done = self.ends(self.python(at_import="held = np.ones(60 << 17)",
                                     in_call="children = []\nfor _ in range(12):\n    children.append(os.fork())\n"
                                             "    if not children[-1]: time.sleep(0.5); os._exit(0)\n"
                                             "[os.waitpid(child, 0) for child in children]"), more=("--timeout", "60s"))
        self.assertNotIn("memory", done.stdout)

    def test_a_child_that_leaves_and_stays(self):
        self.ends(self.python(in_call="if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n    kept(os.getpid())\n"
                                      "    signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"))
        self.assertTrue((self.cwd / "left").exists())

    def test_children_that_leave_one_after_the_other(self):
        self.ends(self.python(in_call="for _ in range(30):\n    if os.fork() == 0:\n        os.setsid(); kept(os.getpid()); time.sleep(3600)\n"
                                      "os._exit(0)"))

    def test_a_log_that_became_a_pipe_or_a_link(self):
        (self.cwd / "precious").write_text("precious")
        for put in ("os.mkfifo(log)", "os.symlink(HERE / 'precious', log)", "os.mkdir(log)"):
            with self.subTest(put):
                done = self.attest("check", self.python(in_call=f"log = os.readlink('/proc/self/fd/2')\nos.unlink(log)\n{put}\nos._exit(1)",
                                                        declared=", fork=False"), *LIMITS, "--continue-after-failure", "-o", f"out{len(put)}")
                self.assertIn(done.returncode, (1, 2), done.stdout + done.stderr)
        self.assertEqual((self.cwd / "precious").read_text(), "precious")

    def test_reports_and_folders_that_were_replaced(self):
        done = self.attest("check", self.python(in_call="(HERE / 'out.json').unlink(missing_ok=True); (HERE / 'out.json').write_text('held')"),
                           *LIMITS, "--json", "out.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--json out.json: another file was put there", done.stderr)
        for put in ("os.mkfifo", "lambda file: os.symlink('/dev/full', file)"):
            with self.subTest(put):
                done = self.attest("fuzz", self.python(at_import="folder = Path(os.readlink('/proc/self/fd/2')).parent.parent\n"
                                                                 f"({put})(folder / 'progress.jsonl')"), *LIMITS)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("progress.jsonl", done.stderr)

    def test_the_seed_is_nowhere(self):
        """Not in words, environments, names of files and their contents; and it is found where the command line says it."""
        seed = b"81985529216486895"
        looks = """SEED = %r
def look(path):
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file: text = (file.read(1 << 20) or b"") if file.seekable() else b""
    except OSError: text = b""
    SEED in text + os.fsencode(os.readlink(path) if os.path.islink(path) else path) and noted("seen", path)
for p in ancestors()[:-1] + [os.getpid()]:
    for name in ("cmdline", "environ"): look(f"/proc/{p}/{name}")
    for file in range(16): look(f"/proc/{p}/fd/{file}")
for folder, _, files in os.walk(HERE):
    for file in files: file not in ("harm.py", "seed", "seen") and look(os.path.join(folder, file))""" % bytes(reversed(seed))
        script = self.python(in_call=looks.replace("SEED = ", "SEED = bytes(reversed(") .replace("'\ndef", "'))\ndef"))
        (self.cwd / "seed").write_bytes(seed + b"\n")
        environment = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"}

        def seen(*words, **more):
            with open(self.cwd / "seed") as file:
                done = subprocess.run([Cli.program, "fuzz", script, *LIMITS, "--timeout", "20s", "--events", "events", *words], cwd=self.cwd, stdin=file,
                                      capture_output=True, text=True, env=environment | more)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"rerun|again")
            told = self.cwd / "seen"
            return (told.read_text(), told.unlink())[0] if told.exists() else ""
        self.assertEqual(seen("--seed-fd", "0"), "")
        self.assertIn("cmdline", seen("--seed", seed.decode()))

    def test_seeds_that_are_none(self):
        self.python()
        for text in ("", "x", "-1", "1 2", "18446744073709551616", "7" * 100):
            (self.cwd / "seed").write_text(text)
            with open(self.cwd / "seed") as file:
                done = subprocess.run([Cli.program, "check", "builtin:fused", "--seed-fd", "0", "--cases", "2"], cwd=self.cwd, stdin=file,
                                      capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn("--seed-fd 0: there must be a seed", done.stderr)
        self.refused("check", "builtin:fused", "--seed-fd", "3", "--seed", "1", says=("--seed and --seed-fd",))

    def test_closed_files(self):
        self.ends(self.python(in_call="os.closerange(0, 256)"))

    def test_lines_that_nobody_asked_for(self):
        forged = "b'" + json.dumps({"protocol": 1, "message": "run", "id": 2, "call": 0, "status": "unsupported", "text": "no"}) + "\\n'"
        self.ends(self.python(in_call="for file in range(5, 64):\n    try: import stat; stat.S_ISSOCK(os.fstat(file).st_mode) and "
                                      f"os.write(file, {forged})\n    except OSError: pass"), "one more line|answered a call with")

    def install(self):
        """Makes attest a copy with its Python worker beside it, as it is installed, from here on. Returns the worker's folder."""
        program, folder = self.cwd / "copy/bin/attest", self.cwd / "copy/share/attest/python"
        program.parent.mkdir(parents=True)
        shutil.copy2(self.program, program)
        shutil.copytree(ROOT / "subjects/python", folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.program = program
        (self.cwd / "fine.py").write_text("import attest\n@attest.subject(contract={'policy': 'f32'})\n"
                                          "def kernel(q, k, v, *, scale):\n    raise attest.Unsupported('nothing is taken')\n")
        return folder

    def test_what_was_compiled_or_added_by_others_is_not_loaded(self):
        """A worker's folder in which every module has a compiled one beside it that a subject wrote, and modules that others would import."""
        folder = self.install()
        poison = self.cwd / "poison.py"
        poison.write_text("import os; os._exit(77)")
        for module in (folder / "attest").rglob("*.py"):
            target = importlib.util.cache_from_source(str(module))
            py_compile.compile(str(poison), cfile=target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        for name in ("json.py", "numpy.py", "attest/json.py", "attest/numpy/__init__.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(poison, folder / name)
        self.ends("fine.py", "nothing is taken", status=5)

    def test_sources_that_a_subject_changed_are_not_run(self):
        folder = self.install()
        self.ends("fine.py", status=5)
        name = self.python(in_call="Path(attest.worker.__file__).write_text('import os; os._exit(0)'); os._exit(1)")
        self.assertIn(self.attest("check", name, *LIMITS).returncode, (1, 4))
        self.assertIn("os._exit(0)", (folder / "attest/worker.py").read_text())
        self.ends("fine.py", "worker.py is not the file that attest was built with", status=4)
        (folder / "attest/worker.py").unlink()
        self.ends("fine.py", "worker.py is not the file that attest was built with", status=4)

    def test_modules_of_the_current_folder_are_not_the_workers(self):
        for name in ("attest", "json", "socket", "traceback"):
            (self.cwd / f"{name}.py").write_text("import os; os._exit(77)")
        (self.cwd / "deep").mkdir()
        (self.cwd / "harm.py").write_text("")
        self.python()
        (self.cwd / "harm.py").rename(self.cwd / "deep/harm.py")
        (self.cwd / "deep/bystander").write_text("1")
        self.ends("deep/harm.py")


class Plugins(Harmful):
    def test_memory_made_short_long_or_closed(self):
        for what in ("ftruncate(3, 0); ftruncate(4, 0);", "ftruncate(3, 1l << 50); ftruncate(4, 1l << 50);",
                     "for (int i = 3; i < 5; ++i) fcntl(i, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);",
                     "for (int i = 3; i < 5; ++i) fallocate(i, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);",
                     "close(3); close(4); open(\"/dev/null\", O_RDWR); open(\"/dev/null\", O_RDWR);"):
            with self.subTest(what):
                self.ends(self.plugin(what))

    def test_memory_overwritten(self):
        for file in (3, 4):
            for byte in (0x00, 0x5A, 0xFF):
                with self.subTest(f"{file} {byte}"):
                    self.ends(self.plugin(f"static char junk[69632]; memset(junk, {byte}, sizeof junk); pwrite({file}, junk, sizeof junk, 0);"))

    def test_memory_overwritten_while_attest_reads(self):
        """A child that stays overwrites all words of the mailbox, again and again."""
        self.ends(self.plugin("static int begun; if (!begun++ && fork() == 0) { left(getpid()); setsid();"
                              " unsigned long* words = mmap(0, 69632, PROT_READ | PROT_WRITE, MAP_SHARED, 4, 0);"
                              " for (unsigned long n = 0; n < 1ul << 28; ++n) words[16 + n % 3 * 8] = n * 2654435761u; _exit(0); }"))

    def test_what_spins_as_it_loads(self):
        done = self.ends(self.plugin("", "__attribute__((constructor)) static void spin(void) { for (;;) {} }"), status=4,
                         more=("--load-timeout", "1s"))
        self.assertIn("took longer than 1 s to load", done.stderr)

    def test_a_child_that_watches_the_dead(self):
        """The tracer of a process is told first that it has ended; its parent has to wait."""
        self.ends(self.plugin("static pid_t worker; worker = getpid(); int pair[2]; char byte = 0; if (pipe(pair)) return 1; if (fork() == 0) {"
                              " setsid(); if (fork()) _exit(0); left(getpid()); ptrace(PTRACE_SEIZE, worker, 0, 0); write(pair[1], &byte, 1);"
                              " for (;;) pause(); } read(pair[0], &byte, 1); abort();"))

    def test_a_plugin_that_ends_with_success(self):
        self.ends(self.plugin("exit(0);"), "ended with status 0")
        self.ends(self.plugin("_exit(0);"), "ended with status 0")

    def test_many_children_at_once(self):
        self.ends(self.plugin("for (int i = 0; i < 200; ++i) if (fork() == 0) { if (i % 2) setsid(); left(getpid()); for (;;) pause(); }"
                              " for (;;) pause();"), "no answer within")


class Programs(Harmful):
    def test_lines_that_are_none(self):
        for answer in ("say(b'\\xff\\xfe\\n')", "say(b'{}\\n')", "say(done); say(done)", "say(done); say(b'nonsense\\n')",
                       "say(done | {'id': 2**63})", "say(b'[' * 100000 + b'\\n')", "say(b'x' * (1 << 25))",
                       "say(done | {'status': 'ok', 'ns': -1}); say(b'\\n' * 100000); say(b'x\\n')"):
            with self.subTest(answer):
                self.ends(self.worker(answer))

    def test_one_that_calls_itself_a_nursery(self):
        self.ends(self.worker("say({'message': 'born', 'pid': BYSTANDER}); say({'message': 'reaped', 'pid': BYSTANDER, 'status': 0})",
                               described="{'nursery': True}"))

    def test_one_that_says_that_it_was_born(self):
        self.ends(self.worker("say({'message': 'born', 'pid': BYSTANDER})"), "answered a call with")


if __name__ == "__main__":
    run()
