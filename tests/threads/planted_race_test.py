#!/usr/bin/env python3
"""ThreadSanitizer sees a race in an OpenMP loop, and none where there is none.

Usage: planted_race_test.py PLANTED_RACE [unittest option...]
"""
import os
import subprocess
import sys
import unittest

PLANTED_RACE = None


class PlantedRace(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([PLANTED_RACE, *words], capture_output=True, text=True, timeout=100)

    def test_a_race_is_reported(self):
        done = self.run_it("race")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ThreadSanitizer: data race", done.stderr)

    def test_a_loop_without_one_is_not(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("ThreadSanitizer", done.stderr)


if __name__ == "__main__":
    PLANTED_RACE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
