#!/usr/bin/env python3
"""Python subjects and what is kept of them: the entry that names its script, replay and export of it, tracebacks.

Usage: subject_files_test.py ATTEST [unittest option...]; ATTEST_PYTHON names a Python that has numpy.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ATTEST = None
PYTHON = os.environ.get("ATTEST_PYTHON", "python3")

PROBLEM = "b=1 hq=1 hkv=1 lq=1 lk=3 d=2 dv=1 dtype=f32 values=normal:1 seed=1"

KERNEL = """\
import os
import attest
import numpy as np

with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as file:
    file.write("once\\n")

@attest.subject(name="mine", dtypes=["float32"], contract={"policy": "f32"})
def forgets_scale(q, k, v):
    s = q @ k.swapaxes(-1, -2)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)
"""


class Files(unittest.TestCase):
    def setUp(self):
        if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest(f"{PYTHON} has no numpy")
        self.top = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.top, True)
        self.cwd = self.top / "my project"
        self.cwd.mkdir()
        (self.cwd / "kernels.py").write_text(KERNEL)

    def attest(self, *words, cwd=None, state="state"):
        env = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"}
        env.update(XDG_STATE_HOME=str(self.top / state), ATTEST_PYTHON=PYTHON)
        return subprocess.run([ATTEST, *map(str, words)], cwd=cwd or self.cwd, env=env, capture_output=True, text=True,
                              timeout=600)

    def fails(self):
        done = self.attest("check", "kernels.py", "--problem", PROBLEM, "--property", "policy-bound", "--corpus", "out/corpus",
                           "--shrink-budget", 3)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return sorted(self.cwd.glob("out/corpus/*/*.json"))[0]

    def imports(self):
        return len((self.cwd / "imports").read_text().splitlines())


class Replay(Files):
    def test_the_next_step_of_a_union_runs_as_printed(self):
        for index in (1, 2):
            done = self.attest("fuzz", "kernels.py", "--seed", 9, "--cases", 40, "--shard", f"{index}/2", "-o", f"part {index}")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        merged = self.attest("merge", "part 1", "part 2", "-o", "both parts").stdout
        line = re.search(r"attest (triage .*) groups them into defects", merged).group(1)
        again = self.attest(*shlex.split(line))
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
        self.assertIn("kernels.py: FAILED, 1 defect", again.stdout)

    def test_an_entry_names_its_processor(self):
        entry = self.fails()
        self.assertIn(os.uname().machine, json.loads(entry.read_text())["processor"].split())

    def test_an_entry_names_its_script_and_replay_finds_it(self):
        entry = self.fails()
        told = json.loads(entry.read_text())
        self.assertEqual((told["subject"], told["subject_file"], told["subject_name"]),
                         ("external:kernels", "../../../kernels.py", "mine"))
        for cwd in (self.cwd, self.top, entry.parent):
            done = self.attest("replay", self.cwd / "out/corpus", cwd=cwd)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.attest("shrink", entry).returncode, 1)
        self.assertNotIn(str(self.top), entry.read_text())

    def test_a_file_starts_nothing_that_was_not_run_before(self):
        entry = self.fails()
        before = self.imports()
        for words in (("replay", entry), ("shrink", entry), ("export", entry, "--to", "python")):
            done = self.attest(*words, state="of a stranger")
            self.assertEqual(done.returncode, 0 if words[0] == "export" else 4, done.stdout + done.stderr)
            said = next(line for line in (done.stdout + done.stderr).splitlines() if "--subject" in line)
            self.assertIn("mine in ./kernels.py, which you have not run before", said)
            self.assertEqual(self.imports(), before)
        # The option that the sentence names is the one to pass, and once is enough.
        option = shlex.split(said.split("if you trust it, ")[1].split(";")[0])
        self.assertEqual(option, ["--subject", "./kernels.py:mine"])
        self.assertEqual(self.attest("replay", entry, *option, state="of a stranger").returncode, 0)
        self.assertEqual(self.attest("replay", entry, state="of a stranger").returncode, 0)

    def test_what_took_the_place_of_a_script_is_another(self):
        entry = self.fails()
        if os.geteuid() == 0:  # nobody else can give a file away
            os.chown(self.cwd / "kernels.py", 12345, 12345)
            self.assertEqual(self.attest("replay", entry).returncode, 4)
            os.chown(self.cwd / "kernels.py", 0, 0)
        (self.top / "state/attest/subjects").chmod(0o666)  # a list that others may write says nothing
        self.assertEqual(self.attest("replay", entry).returncode, 4)
        (self.top / "state/attest/subjects").chmod(0o600)
        self.assertEqual(self.attest("replay", entry).returncode, 0)

    def test_a_script_that_is_gone(self):
        entry = self.fails()
        (self.cwd / "kernels.py").rename(self.cwd / "renamed.py")
        done = self.attest("replay", entry)
        self.assertEqual(done.returncode, 4)
        self.assertIn("mine in ./kernels.py, and there is no such file: name where it is now, --subject PATH:mine", done.stdout)
        self.assertEqual(self.attest("replay", entry, "--subject", "renamed.py:mine").returncode, 0)


class Export(Files):
    def run_script(self, script):
        return subprocess.run([PYTHON, script], cwd="/", capture_output=True, text=True, timeout=600)

    def exported(self, *words):
        done = self.attest("export", *words, "--to", "python", "-o", "repro/script.py")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.cwd / "repro/script.py"

    def test_the_script_imports_the_function_and_calls_it(self):
        (self.cwd / "repro").mkdir()
        entry = self.fails()
        script = self.exported(entry)
        self.assertIn("'../kernels.py'", script.read_text())
        done = self.run_script(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(entry.read_text())["seen"]["witness"]
        got = float(done.stdout.split("got")[-1].split()[0])
        self.assertAlmostEqual(got, seen["got"], 6)  # NumPy prints float32 in eight digits
        # Calls that come before are made the same way, and what the script keeps stays.
        text, before = script.read_text(), self.imports()
        call = text[text.index("# the kernel, from its own script"):text.index("print('got")]
        script.write_text(text.replace(call, call + call))
        self.assertEqual(self.run_script(script).returncode, 0)
        self.assertEqual(self.imports(), before + 1)
        (self.cwd / "kernels.py").unlink()
        done = self.run_script(script)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"there is no {self.cwd / 'kernels.py'}", done.stderr)

    def test_the_tensors_are_the_same_to_the_last_stride(self):
        (self.cwd / "repro").mkdir()
        (self.cwd / "kernels.py").write_text(
            "import sys\nimport attest\nimport numpy as np\n\n"
            "@attest.subject(dtypes=['float16'], supports={'gqa': True, 'align': ['top_left']})\n"
            "def tells(q, k, v, *, scale, causal, bias, keep, kv_lengths, window_left, window_right, lse, out):\n"
            "    for a in (q, k, v, bias, keep, kv_lengths, out):\n"
            "        print('array', a if a is None else (a.dtype, a.shape, a.strides, a.ctypes.data % 256, a.tobytes().hex()),\n"
            "              file=sys.stderr)\n"
            "    print('options', scale, causal, window_left, window_right, lse, file=sys.stderr)\n"
            "    told = (scale, causal, window_left is not None, lse, not q.flags.c_contiguous, k.ctypes.data % 16 != 0)\n"
            "    if not all(told) or any(a is None for a in (bias, keep, kv_lengths)):\n"
            "        raise attest.Unsupported('no')\n"
            "    out[...] = 7\n"
            "    return out, np.zeros(out.shape[:3], np.float32)\n")
        problem = ("b=1 hq=2 hkv=1 lq=2 lk=3 d=3 dv=2 dtype=f16 scale=0x1p-2 causal=1 window_left=4 keep=half lengths=ragged "
                   "bias=normal bias_type=f32 lse=f32 values=normal:1 seed=3 q_layout=bshd k_layout=odd_base")
        found = self.attest("check", "kernels.py", "--problem", problem, "--property", "policy-bound", "--corpus", "corpus",
                            "--shrink-budget", 1)
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        entry = next(self.cwd.glob("corpus/*/*.json"))
        done = self.run_script(self.exported(entry))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("got", done.stdout)
        (self.cwd / "logs").mkdir()
        os.environ["TMPDIR"] = str(self.cwd / "logs")
        try:
            self.attest("replay", entry)
        finally:
            del os.environ["TMPDIR"]
        log = next((self.cwd / "logs").glob("*/*kernels*.log")).read_text().splitlines()
        told = [line for line in done.stderr.splitlines() if line.startswith(("array", "options"))]
        self.assertEqual(len(told), 8, done.stderr)
        self.assertIn("options 0.25 True 4 None True", told)
        # Addresses modulo 64; what out holds before it is written is anybody's.
        plain = lambda line: re.sub(r", (\d+), '(\w+)'\)$", lambda m: f", {int(m[1]) % 64}, {m[2]}", line)
        unwritten = lambda line: line[:line.rindex(",")]
        known = [plain(line) for line in log]
        for line in told[:6] + told[7:]:
            self.assertIn(plain(line), known)
        self.assertIn(unwritten(told[6]).rsplit(",", 1)[0], [unwritten(line).rsplit(",", 1)[0] for line in log if "array (" in line])


class Tracebacks(Files):
    def test_each_stands_once_in_the_campaign_folder_and_the_message_names_its_line(self):
        (self.cwd / "neighbour.py").write_text("def check(lk):\n    if lk > 20:\n        raise ValueError(f'{lk} keys')\n")
        (self.cwd / "kernels.py").write_text(
            "import attest\nimport neighbour\n\n@attest.subject(dtypes=['float32'])\ndef mine(q, k, v):\n"
            "    if k.shape[2] == 1:\n        raise KeyError(f'a single key of {q.shape}')\n"
            "    neighbour.check(k.shape[2])\n    raise attest.Unsupported('no')\n")
        done = self.attest("fuzz", "kernels.py", "--seed", 1, "--cases", 40, "--jobs", 2, "--shrink-budget", 5,
                           "-v", "-o", "out")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        texts = {path.name: path.read_text() for path in (self.cwd / "out/logs").glob("traceback-*.txt")}
        self.assertEqual(len(texts), 2, texts)
        for name, text in texts.items():
            self.assertTrue(text.startswith("Traceback (most recent call last):"), text)
            line = "kernels.py:7" if "KeyError" in text else "neighbour.py:3"
            self.assertIn(f"(at {line}, traceback in out/logs/{name})", done.stdout)
        # Where it was raised is no part of what the failure is.
        for bucket in ("guards/error/keyerror:external:kernels:", "guards/error/valueerror-keys:external:kernels:"):
            self.assertIn(bucket, done.stdout)


if __name__ == "__main__":
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
