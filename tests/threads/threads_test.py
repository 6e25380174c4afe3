#!/usr/bin/env python3
"""Campaigns on eight threads end as they should; under the preset `tsan`, without a race.

Usage: threads_test.py ATTEST [unittest option...]
"""
import os
import subprocess
import sys
import tempfile
import unittest

ATTEST = None


class Threads(unittest.TestCase):
    def run_it(self, status, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, *words, "--jobs", "8"], capture_output=True, text=True, cwd=folder, timeout=500)
        self.assertNotIn("ThreadSanitizer", done.stderr, done.stderr[:5000])
        self.assertEqual(done.returncode, status, done.stderr[-2000:])

    def test_a_conforming_kernel(self):
        self.run_it(0, "check", "builtin:fused", "--cases", "300", "--laws", "all")

    def test_failures_are_shrunk_while_others_run(self):
        self.run_it(1, "check", "fault:scale-twice", "--cases", "150", "--continue-after-failure")

    def test_a_campaign_folder(self):
        self.run_it(1, "fuzz", "fault:batch-leak", "--seed", "3", "--cases", "150", "-o", "out")

    def test_a_kernel_with_threads_of_its_own(self):
        self.run_it(0, "check", "builtin:fused", "--cases", "60", "--assume", "threads==4 && lk>=64")


if __name__ == "__main__":
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
