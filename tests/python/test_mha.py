"""mha through the Python worker: by its pipe, by @attest.subject, and in campaigns of attest.

Usage: test_mha.py ATTEST. Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where numpy is not installed there.
"""
import os
import subprocess
import sys
import tempfile
import unittest

from need_package import need

ATTEST = os.path.abspath(sys.argv[1])
need("numpy", "./run installs it")

import numpy as np  # noqa: E402

from worker_pipe import ROOT, Worker, tensor  # noqa: E402

SCRIPT = ROOT / "tests" / "subjects" / "scripts" / "mhas.py"
EXAMPLE = ROOT / "examples" / "mha_subject.py"

from attest import function  # noqa: E402


class Protocol(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.worker = Worker(SCRIPT, self.folder.name)
        self.arena = self.worker.arena
        self.arena[:1000] = np.arange(1000)
        # x [1,2,12], two heads of 3 over one key/value head; w_q, w_k and w_v are views of one buffer at 100.
        self.call = {"op": "mha", "x": tensor(0, 1, 2, 12), "w_q": tensor(100, 6, 12), "w_k": tensor(172, 3, 12),
                     "w_v": tensor(208, 3, 12), "w_out": tensor(300, 12, 6), "out": tensor(1000, 1, 2, 12), "scale": 0.5,
                     "scale_is_default": False, "heads": 2, "kv_heads": 1, "head_dim": 3, "causal": True, "align": 0, "threads": 4}

    def tearDown(self):
        self.worker.end()
        self.folder.cleanup()

    def test_a_call_has_all_that_the_page_says(self):
        answer = self.worker.run("facts", **self.call, b_out=tensor(400, 12))
        self.assertEqual(answer["status"], "ok", answer)
        self.assertEqual(self.arena[1000:1012].tolist(), [2, 1, 3, 0.5, 1, 0, 4, 1, 0, 208 + 12 + 2, 1, 12])

    def test_stages_are_given_where_they_are_asked_for(self):
        given = {"q": tensor(1100, 1, 2, 2, 3), "heads_out": tensor(1200, 1, 2, 6)}
        answer = self.worker.run("facts", **self.call, **given)
        self.assertEqual(answer["status"], "ok", answer)
        self.assertTrue((self.arena[1100:1112] == 7).all() and (self.arena[1200:1212] == 7).all())
        answer = self.worker.run("forgets_a_stage", **self.call, **given)
        self.assertEqual((answer["status"], answer["text"]), (
            "error", "TypeError: forgets_a_stage was asked for q, heads and did not return heads, q"))

    def test_out_may_be_written(self):
        self.assertEqual(self.worker.run("writes_out", **{**self.call, "causal": False})["status"], "ok")
        self.assertTrue((self.arena[1000:1024] == 2).all())

    def test_what_a_subject_does_not_do_is_unsupported(self):
        answer = self.worker.run("attention", **self.call)
        self.assertEqual((answer["status"], answer["text"]), ("unsupported", "operation mha"))
        # The corner that a diagonal starts from matters where there are more keys than queries.
        answer = self.worker.run("writes_out", **{**self.call, "memory": tensor(500, 1, 3, 12)})
        self.assertEqual(answer["status"], "unsupported")
        self.assertIn("which corner", answer["text"])

    def test_supports_are_read_off_the_signature(self):
        told = self.worker.described
        self.assertEqual(told["facts"]["ops"], ["mha"])
        self.assertEqual(told["facts"]["supports"], {
            "causal": True, "bias": True, "keep": True, "kv_lengths": True, "memory": ["self", "cross"], "in_biases": True,
            "out_bias": True, "gqa": True, "scale": "any", "stages": ["q", "k", "v", "heads"], "align": ["top_left"]})
        self.assertEqual(told["writes_out"]["supports"], {
            "causal": False, "bias": False, "keep": False, "kv_lengths": False, "memory": ["self"], "in_biases": False,
            "out_bias": False, "gqa": False, "scale": "default", "stages": []})


class Signatures(unittest.TestCase):
    def refused(self, error, words, f, op="mha"):
        with self.assertRaisesRegex(error, words):
            function.subject(f, op=op)

    def test_functions_that_no_call_could_satisfy(self):
        self.refused(TypeError, "must take x, w_q, w_k, w_v, w_out first, and takes q", lambda q, *, heads: q)
        self.refused(TypeError, "must take heads: no tensor shows", lambda x, w_q, w_k, w_v, w_out: x)
        self.refused(TypeError, "takes b_k, b_q of b_q, b_k and b_v", lambda x, w_q, w_k, w_v, w_out, *, heads, b_q, b_k: x)
        self.refused(TypeError, "takes 'kv_head', which no call has: did you mean 'kv_heads'",
                     lambda x, w_q, w_k, w_v, w_out, *, heads, kv_head: x)
        self.refused(ValueError, "no operation 'rope': op is one of attention, layer_norm, mha", lambda x: x, "rope")


class Campaigns(unittest.TestCase):
    def ends(self, status, subject, cases, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, "check", subject, "--python", sys.executable, "--cases", str(cases), "--jobs", "1",
                                   "--corpus", folder, *words], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stdout[-4000:] + done.stderr)
        return done.stdout

    def test_a_right_one_holds(self):
        self.assertIn("500 problems", self.ends(0, f"{EXAMPLE}:plain", 500))

    def test_a_packed_projection_is_three_views_of_one_buffer(self):
        self.ends(0, f"{SCRIPT}:one_buffer", 100, "--property", "guards", "--assume", "packed==1")
        self.assertIn("is not behind", self.ends(1, f"{SCRIPT}:one_buffer", 100, "--property", "guards", "--assume", "packed==0"))

    def test_heads_that_are_not_transposed_are_found_and_told(self):
        text = self.ends(1, f"{EXAMPLE}:heads_transposed", 100, "-v")
        self.assertIn("1-minimal", text)
        self.assertRegex(text, r"problem +op=mha ")
        self.assertRegex(self.ends(1, f"{EXAMPLE}:heads_transposed", 200, "--property", "stage-bound"), r"witness +heads\[")


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
