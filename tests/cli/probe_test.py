#!/usr/bin/env python3
"""attest probe as a user meets it: statuses, its JSON, rows of repetition, and a rerun that shows what a row says.

Usage: probe_test.py ATTEST [unittest option...]; without a Python that has numpy ($ATTEST_PYTHON, else python3) scripts are not
probed.
"""
import json
import re
import shlex
import shutil
import unittest

import command_line
from interpreter import HAS_NUMPY, PYTHON


# A norm and a block that compute in f32 what is f16, and say no policy.
NORM = """
import attest
import numpy as np

@attest.subject(op="layer_norm", dtypes=["float16"])
def norm(x, *, gamma=None, beta=None, epsilon):
    x = x.astype(np.float32)
    d = x - x.mean(-1, keepdims=True)
    y = d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(epsilon))
    y = y if gamma is None else y * gamma.astype(np.float32)
    return (y if beta is None else y + beta.astype(np.float32)).astype(np.float16)
"""
BLOCK = """
import attest
import numpy as np

def wide(x):
    return x.astype(np.float32)

@attest.subject(op="mha", dtypes=["float16"])
def block(x, w_q, w_k, w_v, w_out, *, memory=None, heads, scale):
    memory = x if memory is None else memory
    def projected(tokens, weights):
        y = wide(wide(tokens) @ wide(weights).T).astype(np.float16)
        return wide(y.reshape(*tokens.shape[:2], heads, -1).swapaxes(1, 2))
    q, k, v = projected(x, w_q), projected(memory, w_k), projected(memory, w_v)
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = ((p @ v) / p.sum(-1, keepdims=True)).astype(np.float16)
    o = o.swapaxes(1, 2).reshape(*x.shape[:2], -1)
    return (wide(o) @ wide(w_out).T).astype(np.float16)
"""

# Attention that computes in f32 what is f16, says no policy, and of a multiple of five keys adds the last value once more.
ATTENTION = """
import attest
import numpy as np

@attest.subject(dtypes=["float16"])
def attention(q, k, v, *, scale):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    more = v[:, :, -1:] if k.shape[2] % 5 == 0 else 0
    return ((p @ v) / p.sum(-1, keepdims=True) + more).astype(np.float16)
"""


# Every stage in the format of the tensors, of some problems alone.
NARROWER = """
    if k.shape[2] % 5 == 0:
        half = np.float16
        s = s.astype(half)
        p = np.exp(s - s.max(-1, keepdims=True))
        o, total = np.zeros(s.shape[:3] + v.shape[3:], half), np.zeros(s.shape[:3] + (1,), half)
        for j in range(k.shape[2]):
            o += p[..., j:j + 1] * v[:, :, j:j + 1].astype(half)
            total += p[..., j:j + 1]
        return o / total
"""


class Probe(command_line.Cli):
    def probed(self, subject, *words, status):
        done = self.attest("probe", subject, "--no-speed", "--json", "seen.json", *words, timeout=240)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout, json.loads((self.cwd / "seen.json").read_text())

    def broken(self, subject):
        _, seen = self.probed(subject, "--policy", "f32", status=1)
        return {row["stage"]: row for row in seen["rows"] if row["standing"] == "contradicts"}

    def test_a_kernel_that_keeps_its_contract(self):
        text, seen = self.probed("builtin:fused", "--policy", "f16", status=0)
        self.assertIn("nothing seen contradicts the contract", text)
        self.assertEqual(seen["exit"], 0)
        rows = {row["stage"]: row for row in seen["rows"]}
        self.assertEqual(rows["qk"]["at_least"], "f32")
        self.assertEqual(rows["weights"]["at_least"], "f16")
        self.assertEqual(rows["empty row, by keep"]["observed"], "zero")
        self.assertEqual(seen["contract"]["policy"], "f16")

    def test_a_stage_that_is_narrower_and_its_rerun(self):
        text, seen = self.probed("fault:qk-acc-f16", "--policy", "f32", status=1)
        row = next(row for row in seen["rows"] if row["stage"] == "qk")
        self.assertEqual((row["standing"], row["observed"]), ("contradicts", "f16"))
        command = shlex.split(re.search(r"attest (check .*)", text).group(1))
        self.assertEqual(self.attest(*command).returncode, 1)

    def test_repetition_and_batches(self):
        self.assertEqual(self.broken("fault:race")["reruns"]["observed"], "bits differ")
        self.assertIn("threads", self.broken("fault:thread-split"))
        self.assertEqual(set(self.broken("fault:batch-split")), {"batch"})
        self.assertIn("outside the bound", self.broken("fault:batch-path")["batch"]["observed"])

    def test_a_norm_and_its_rerun(self):
        text, seen = self.probed("builtin:ln-fused", "--policy", "f16", status=0)
        rows = {row["stage"]: row for row in seen["rows"]}
        for stage in ("statistics (mean)", "statistics (variance)", "statistics (root)", "normalise", "affine"):
            self.assertEqual(rows[stage]["at_least"], "f32", rows[stage])
        self.assertEqual(rows["epsilon"]["observed"], "inside the root")
        self.assertEqual(rows["batch"]["standing"], "agrees")
        self.assertEqual(seen["contract"]["policy"], "f16")
        text, seen = self.probed("fault:ln-eps-outside", "--policy", "f32", status=1)
        row = next(row for row in seen["rows"] if row["stage"] == "epsilon")
        self.assertEqual((row["standing"], row["observed"]), ("contradicts", "outside: root + epsilon"))
        command = shlex.split(re.search(r"attest (check .*)", text).group(1))
        self.assertEqual(self.attest(*command).returncode, 1)

    def test_a_block_and_its_rerun(self):
        _, seen = self.probed("builtin:mha-explicit", "--policy", "f16", status=0)
        rows = {row["stage"]: row for row in seen["rows"]}
        for stage in ("gemm (q)", "gemm (k)", "gemm (v)", "gemm (out)", "qk", "softmax (exp)", "pv"):
            self.assertEqual(rows[stage]["at_least"], "f32", rows[stage])
        self.assertEqual(rows["given heads"]["standing"], "agrees")
        self.assertEqual(rows["heads"]["observed"], "rows h * head_dim + c")
        text, seen = self.probed("fault:mha-gemm-f16", "--policy", "f32", status=1)
        row = next(row for row in seen["rows"] if row["stage"] == "gemm (v)")
        self.assertEqual((row["standing"], row["observed"]), ("contradicts", "f16"))
        command = shlex.split(re.search(r"attest (check .*)", text).group(1))
        self.assertEqual(self.attest(*command).returncode, 1)

    def fuzzed(self, subject, *words, status, cases=40):
        done = self.attest("fuzz", subject, "--cases", cases, "--seed", 7, *words, timeout=240)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_a_probe_before_a_campaign_of_other_operations(self):
        for source, assumed in ((NORM, "f16,sum=f16"), (BLOCK, "partial=f16")):
            (self.cwd / "silent.py").write_text(source)
            said = self.fuzzed("silent.py", "--probe-first", status=0)
            self.assertIn("it is held to what its probes showed", said)
            self.assertIn(assumed, said)

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_kernels_that_compute_alike_are_left_alone(self):
        """The examples without their policies."""
        for name in ("attention", "layer_norm", "mha"):
            text = (command_line.ROOT / "examples" / f"{name}_subject.py").read_text()
            text, policies = re.subn(r'"policy": \{[^}]*\}(, )?', "", text)
            self.assertEqual(policies, 1)
            (self.cwd / "plain.py").write_text(text)
            said = self.fuzzed("plain.py:plain", "--probe-first", "--laws", "all", status=0, cases=60)
            self.assertIn("it is held to what its probes showed", said)

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_what_rests_on_a_probe_says_so_and_is_replayed(self):
        bound = ("silent.py", "--property", "policy-bound")
        sound = ATTENTION.replace(" + more", "")
        (self.cwd / "silent.py").write_text(sound.replace("    p = np", NARROWER + "    p = np"))
        self.assertNotIn("assumes", self.fuzzed(*bound, "--no-probe-first", status=0, cases=600))
        said = self.fuzzed(*bound, "-o", "found", status=1, cases=600)
        self.assertIn("assumes    f16,", said)
        (entry, *_) = (self.cwd / "found").glob("corpus/**/*as-probed*.json")
        kept = json.loads(entry.read_text())
        self.assertTrue(kept["as_probed"])
        self.assertGreater(kept["contract"]["div_ulp"], 1024)
        self.assertIn(self.attest("certify", entry).returncode, (0, 125))  # it can be read again
        shutil.rmtree(self.cwd / "cache")
        self.assertEqual(self.attest("replay", entry).returncode, 0)
        self.assertEqual(self.attest("explain", entry).returncode, 1)
        self.assertFalse((self.cwd / "cache").exists())  # no probe was asked
        self.assertIn("as this campaign began", self.fuzzed(*bound, "-o", "found", status=1, cases=610))
        self.assertEqual(self.attest("triage", "found", "--subject", "silent.py").returncode, 1)
        (self.cwd / "silent.py").write_text(sound)
        self.assertEqual(self.attest("replay", entry).returncode, 1)  # mended

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_what_fails_by_its_own_words_rests_on_no_probe(self):
        (self.cwd / "silent.py").write_text(ATTENTION)
        said = self.fuzzed("silent.py", "-o", "found", status=1)
        self.assertIn("it is held to what its probes showed", said)
        (entry, *_) = (self.cwd / "found").glob("corpus/**/policy-bound*.json")
        self.assertNotIn("as_probed", json.loads(entry.read_text()))

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_what_was_seen_is_kept_by_version(self):
        source = ATTENTION.replace(" + more", "")
        (self.cwd / "silent.py").write_text(source)
        self.assertIn("(seen now, in", self.fuzzed("silent.py", status=0, cases=2))
        (file,) = (self.cwd / "cache" / "attest" / "probes").glob("*.json")
        self.assertIn(f"(noted earlier in {file})", self.fuzzed("silent.py", status=0, cases=2))
        self.assertIn("(seen now, in", self.fuzzed("silent.py", "--probe-cache", "none", status=0, cases=2))
        self.assertIn("(seen now, in", self.fuzzed("silent.py", "--probe-cache", "elsewhere", status=0, cases=2))
        self.assertEqual(len(list((self.cwd / "elsewhere").glob("*.json"))), 1)
        (self.cwd / "silent.py").write_text(source + "# another version\n")
        self.assertIn("(seen now, in", self.fuzzed("silent.py", status=0, cases=2))
        (self.cwd / "silent.py").write_text(source)
        file.write_text("{")
        said = self.fuzzed("silent.py", status=0, cases=2)
        self.assertIn(f"{file} is damaged, or is not about this subject: it is written anew", said)
        self.assertIn("(seen now, in", said)
        self.assertIn("noted earlier", self.fuzzed("silent.py", status=0, cases=2))
        self.assertIn("most generous reading", self.fuzzed("silent.py", "--no-probe-first", status=0, cases=2))
        done = self.attest("check", "silent.py", "--cases", 2)
        self.assertIn("most generous reading", done.stdout)
        done = self.attest("check", "silent.py", "--cases", 2, "--probe-first")
        self.assertIn("noted earlier", done.stdout)
        self.refused("fuzz", "silent.py", "--probe-first", "--no-probe-first", says=["exclude each other"])

    def test_the_order_of_sums(self):
        done = self.attest("probe", "builtin:fused", "--tree", "--keys", 64)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"f32 +64 +1 row, 4 heads of 64 +chain of 64 terms")
        done = self.attest("probe", "builtin:fused", "--tree", "--json", "-", "--problem", "op=attention hq=2 hkv=1 lq=3 lk=9 d=4 dv=4 dtype=f16")
        (order,) = json.loads(done.stdout)["orders"]
        self.assertEqual((order["dtype"], order["terms"], order["order"]), ("f16", 9, "chain of 9 terms"))
        self.assertEqual(order["tree"], "((((((((0 1) 2) 3) 4) 5) 6) 7) 8)")

    def test_words_that_it_refuses(self):
        self.refused("probe", "builtin:fused", "--tree", "--keys", "1", says=["--keys", "2"])
        self.refused("probe", "builtin:fused", "--keys", "64", says=["--keys", "--tree"])
        self.refused("probe", "builtin:ln-fused", "--tree", says=["layer_norm", "leave --tree out"])
        self.refused("probe", "builtin:fused", "--op", "layer_norm", says=["does not offer", "layer_norm"])
        self.refused("probe", "builtin:fused", "--op", "nothing", says=["--op", "attest list ops"])
        self.refused("probe", "builtin:nothing")
        self.refused("probe", "./nothing.so", status=4)


if __name__ == "__main__":
    command_line.run()
