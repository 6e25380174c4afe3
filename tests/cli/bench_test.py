#!/usr/bin/env python3
"""attest bench as a user meets it: a line for every size, its JSON, what is not asked, and what is refused.

Usage: bench_test.py ATTEST [unittest option...]
"""
import json
import unittest

import command_line
from interpreter import HAS_NUMPY, PYTHON


SMALL = "op=attention b=1 hq=2 hkv=2 lq=8 lk=16 d=8 dv=8 dtype=f32 values=normal seed=1"
# It takes a while for each call.
SLOW = """
import time
import attest
import numpy as np

@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def slow(q, k, v, *, scale):
    time.sleep(0.03)
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)
"""


class Bench(command_line.Cli):
    def told(self, *words):
        done = self.attest("bench", *words, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_usual_size_has_costs_of_both(self):
        for op, subject in (("attention", "builtin:explicit"), ("layer_norm", "builtin:ln-explicit")):
            told = self.told(subject, "--op", op)
            self.assertEqual((told["verb"], told["subject"], told["op"]), ("bench", subject, op))
            self.assertGreaterEqual(len(told["sizes"]), 4)
            works = [size["work"] for size in told["sizes"]]
            self.assertGreater(max(works), 1000 * min(works))
            for size in told["sizes"]:
                self.assertTrue(size["held"], size)
                for who in ("subject", "beside"):
                    cost = size[who]
                    self.assertGreaterEqual(cost["repeats"], 3, size)
                    self.assertGreater(cost["call_seconds"], 0, size)
                    self.assertGreater(cost["problem_seconds"], cost["call_seconds"], size)
            # A size that has a hundred thousand times the work takes longer.
            least, most = works.index(min(works)), works.index(max(works))
            self.assertGreater(told["sizes"][most]["subject"]["call_seconds"],
                               10 * told["sizes"][least]["subject"]["call_seconds"])

    def test_one_problem_beside_another_subject_in_words(self):
        done = self.attest("bench", "builtin:fused", "--problem", SMALL, "--beside", "builtin:explicit")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("builtin:fused compared with builtin:explicit"), done.stdout)
        self.assertIn("GFLOP/s", done.stdout)
        lines = [line for line in done.stdout.splitlines() if "op=attention" in line]
        self.assertEqual(len(lines), 1, done.stdout)
        for number in (lines[0].split()[index] for index in (0, 2, 4, 6, 7)):
            self.assertGreater(float(number), 0, done.stdout)

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed for ATTEST_PYTHON")
    def test_percentiles_show_calls_that_are_slow_now_and_then(self):
        """Each seventh call sleeps: a median does not show it, and the 90th percentile does."""
        (self.cwd / "slow.py").write_text(SLOW.replace("import time\n", "import itertools\nimport time\n", 1)
                                          .replace("@attest", "calls = itertools.count()\n\n@attest")
                                          .replace("time.sleep(0.03)", "time.sleep(0.03 if next(calls) % 7 == 6 else 0)"))
        cost = self.told("slow.py", "--problem", SMALL)["sizes"][0]["subject"]
        self.assertLess(cost["call_seconds"], 0.02, cost)
        self.assertGreater(cost["call_p90_seconds"], 0.03, cost)
        self.assertGreaterEqual(cost["call_p99_seconds"], cost["call_p90_seconds"], cost)

    def test_policy_gives_the_dtype(self):
        told = self.told("builtin:ln-fused", "--policy", "bf16")
        self.assertTrue(all("dtype=bf16" in size["problem"] for size in told["sizes"]), told)

    def test_a_result_outside_its_bound_is_said(self):
        told = self.told("fault:scale-twice", "--problem", SMALL.replace("d=8 dv=8", "d=8 dv=8 scale=0x1p-2"))
        self.assertIs(told["sizes"][0]["held"], False)
        self.assertGreater(told["sizes"][0]["subject"]["call_seconds"], 0)

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_what_a_subject_does_not_take_is_not_asked(self):
        (self.cwd / "slow.py").write_text(SLOW)
        told = self.told("slow.py", "--problem", SMALL.replace("dtype=f32", "dtype=f32 causal=1"))
        self.assertIn("causal", told["sizes"][0]["skipped"])
        self.assertNotIn("subject", told["sizes"][0])

    @unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
    def test_a_slow_subject_is_seen_to_be_slow(self):
        (self.cwd / "slow.py").write_text(SLOW)
        size = self.told("slow.py", "--problem", SMALL)["sizes"][0]
        self.assertGreaterEqual(size["subject"]["call_seconds"], 0.03)
        self.assertLess(size["beside"]["call_seconds"], 0.03)

    def test_refusals(self):
        self.refused("bench", "builtin:fused", "--problem", "lq=", says=("lq",))
        self.refused("bench", "builtin:fused", "--problem", "op=layer_norm rows=1 hidden=2 dtype=f32", says=("layer_norm",))
        self.refused("bench", "builtin:fused", "--op", "layer_norm", says=("layer_norm",))
        self.refused("bench", "builtin:nothing", says=("builtin:nothing",))


if __name__ == "__main__":
    command_line.run()
