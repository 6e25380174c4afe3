"""layer_norm through the Python worker: by its pipe, by @attest.subject, and in campaigns of attest.

Usage: test_layer_norm.py ATTEST. Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where numpy is not installed
there.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import need

ATTEST = os.path.abspath(sys.argv[1])
need("numpy", "./run installs it")

import numpy as np  # noqa: E402

from worker_pipe import ROOT, Worker, tensor  # noqa: E402

SCRIPT = ROOT / "tests" / "subjects" / "scripts" / "layer_norms.py"
EXAMPLE = ROOT / "examples" / "layer_norm_subject.py"

from attest import function  # noqa: E402


class Protocol(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.worker = Worker(SCRIPT, self.folder.name)
        self.arena = self.worker.arena
        self.arena[:64] = np.arange(64)
        self.call = {"op": "layer_norm", "x": tensor(0, 2, 8, strides=[16, 2]), "out": tensor(100, 2, 8), "epsilon": 0.25,
                     "rms": True, "threads": 3}

    def tearDown(self):
        self.worker.end()
        self.folder.cleanup()

    def test_a_call_has_all_that_the_page_says(self):
        given = {"residual": tensor(32, 2, 8), "gamma": tensor(8, 8), "sum_out": tensor(200, 2, 8)}
        answer = self.worker.run("facts", **self.call, **given)
        self.assertEqual(answer["status"], "ok", answer)
        self.assertEqual(self.arena[100:108].tolist(), [0.25, 1, 1, 3, 0, 9, 1, 2])
        x, residual = self.arena[:32].reshape(2, 16)[:, ::2], self.arena[32:48].reshape(2, 8)
        self.assertEqual(self.arena[200:216].tolist(), (x + residual).ravel().tolist())

    def test_out_may_be_written(self):
        self.assertEqual(self.worker.run("writes_out", **self.call)["status"], "ok")
        self.assertTrue((self.arena[100:116] == 2).all())

    def test_what_a_subject_does_not_do_is_unsupported(self):
        for subject, op in (("attention", "layer_norm"), ("facts", "convolution")):
            answer = self.worker.run(subject, **{**self.call, "op": op})
            self.assertEqual((answer["status"], answer["text"]), ("unsupported", f"operation {op}"))

    def test_a_sum_that_was_asked_for_is_missed(self):
        answer = self.worker.run("forgets_the_sum", **self.call, residual=tensor(32, 2, 8), sum_out=tensor(200, 2, 8))
        self.assertEqual((answer["status"], answer["text"]), (
            "error", "TypeError: forgets_the_sum was asked for sum_out and did not return (out, sum_out)"))

    def test_supports_are_read_off_the_signature(self):
        told = self.worker.described
        self.assertEqual(told["facts"]["ops"], ["layer_norm"])
        self.assertEqual(told["facts"]["supports"], {"norms": ["layer", "rms"], "residual": True, "sum_out": True, "gamma": True,
                                                     "beta": True})
        self.assertEqual(told["writes_out"]["supports"], {"norms": ["layer"], "residual": False, "sum_out": False,
                                                          "gamma": False, "beta": False})
        self.assertEqual(told["root_mean_square"]["supports"]["norms"], ["rms"])
        self.assertEqual(told["attention"]["ops"], ["attention"])


class Signatures(unittest.TestCase):
    def refused(self, error, words, f, op="layer_norm"):
        with self.assertRaisesRegex(error, words):
            function.subject(f, op=op)

    def test_functions_that_no_call_could_satisfy(self):
        self.refused(TypeError, "must take x first, and takes q", lambda q, *, epsilon: q)
        self.refused(TypeError, "must take epsilon: every call has its own", lambda x, *, gamma: x)
        self.refused(TypeError, "takes sum_out without a residual", lambda x, *, epsilon, sum_out: x)
        self.refused(TypeError, "takes 'gama', which no call has: did you mean 'gamma'", lambda x, *, epsilon, gama: x)
        self.refused(TypeError, "takes 'causal', which no call has; calls have residual, gamma", lambda x, *, epsilon, causal: x)
        self.refused(ValueError, "no operation 'softmax': op is one of attention, layer_norm, mha", lambda x, *, epsilon: x, "softmax")


class Campaigns(unittest.TestCase):
    def ends(self, status, subject, cases, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, "check", subject, "--python", sys.executable, "--cases", str(cases), "--jobs", "1",
                                   "--corpus", folder, *words], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stdout[-4000:] + done.stderr)
        return done.stdout

    def test_a_right_one_holds(self):
        self.assertIn("500 problems", self.ends(0, f"{EXAMPLE}:plain", 500))

    # The script of a reproducer shows the number that was seen, and what it should have been, without attest.
    def test_an_export_shows_it(self):
        for norm in ("layer", "rms"):
            with self.subTest(norm), tempfile.TemporaryDirectory() as folder:
                attest = lambda *words: subprocess.run([ATTEST, *words, "--python", sys.executable], capture_output=True, text=True,
                                                       timeout=240, cwd=folder)
                subject = f"{EXAMPLE}:epsilon_outside"
                found = attest("check", subject, "--cases", "200", "--jobs", "1", "--corpus", "c", "--property", "policy-bound",
                               "--assume", f"norm=={norm} && param_type==same && dtype==f32")
                self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
                file = next(Path(folder).glob("c/*/*.json"))
                seen = json.loads(file.read_text())["seen"]["witness"]
                done = attest("export", str(file), "--to", "python", "--subject", subject, "-o", "script.py")
                self.assertEqual(done.returncode, 0, done.stderr)
                shown = subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=600).stdout
                got = dict(line.split(" ", 1) for line in shown.splitlines() if line.startswith(("expected", "got")))
                self.assertAlmostEqual(float(got["got"]), float(seen["got"]), delta=1e-6 * abs(float(seen["got"])))
                self.assertFalse(seen["lo"] <= float(got["got"]) <= seen["hi"])
                self.assertTrue(seen["lo"] <= float(got["expected"]) <= seen["hi"], shown)

    def test_the_types_and_norms_of_another(self):
        self.ends(0, f"{SCRIPT}:root_mean_square", 200)

    def test_a_residual_that_has_to_be_there_is_there(self):
        """Every problem that is drawn has it, and those that shrinking and explaining try."""
        self.assertNotIn("unsupported", self.ends(0, f"{SCRIPT}:always_skips", 300))
        text = self.ends(1, f"{SCRIPT}:skips_twice", 100, "-v")
        self.assertIn("1-minimal", text)
        self.assertRegex(text, r"problem +op=layer_norm rows=1 hidden=[1-4] .*residual=")
        self.assertNotIn("guards/error", text)

    def test_epsilon_outside_the_root_is_found_and_shrunk(self):
        text = self.ends(1, f"{EXAMPLE}:epsilon_outside", 100, "-v")
        self.assertIn("1-minimal", text)
        self.assertRegex(text, r"problem +op=layer_norm rows=1 hidden=[1-4] ")


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
