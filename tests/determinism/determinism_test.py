#!/usr/bin/env python3
"""Same seed, same problem, same bits: over optimisation levels, thread counts and shards.

Usage: determinism_test.py ATTEST BITS_O0 BITS_O3 [unittest option...]
"""
import json
import os
import subprocess
import sys
import unittest

ATTEST = BITS = None


def findings(subject, *words):
    """The findings of a campaign, without the parts that may differ from run to run."""
    done = subprocess.run([ATTEST, "check", subject, "--continue-after-failure", "--json", "-", *words],
                          capture_output=True, text=True, timeout=280)
    summary = json.loads(done.stdout)
    for told in summary["findings"] + summary["defects"]:
        del told["seconds_to_first"]
    for key in ("seconds", "seconds_in", "shard"):
        del summary[key]
    return summary


class Determinism(unittest.TestCase):
    def test_optimisation_levels(self):
        outputs = [subprocess.run([program], capture_output=True, text=True, check=True).stdout for program in BITS]
        self.assertGreater(outputs[0].count(" fail "), 50)
        self.assertGreater(outputs[0].count(" pass "), 50)
        self.assertEqual(outputs[0].splitlines(), outputs[1].splitlines())

    def test_jobs(self):
        for subject in ("fault:scale-twice", "fault:batch-leak"):
            runs = [findings(subject, "--cases", "120", "--seed", "7", "--jobs", jobs) for jobs in ("1", "2", "8")]
            self.assertTrue(runs[0]["findings"])
            self.assertEqual(runs[0], runs[1])
            self.assertEqual(runs[0], runs[2])

    def test_seeds_differ(self):
        one, two = (findings("fault:scale-twice", "--cases", "20", "--seed", seed) for seed in ("1", "2"))
        self.assertNotEqual([f["original"] for f in one["findings"]], [f["original"] for f in two["findings"]])

    def test_shards_add_up(self):
        whole = findings("builtin:fused", "--cases", "200")
        parts = [findings("builtin:fused", "--cases", "200", "--shard", f"{i}/3") for i in (1, 2, 3)]
        for count in ("cases", "executed", "judged", "elements"):
            self.assertEqual(whole[count], sum(part[count] for part in parts))


if __name__ == "__main__":
    ATTEST, *BITS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    unittest.main()
