#!/usr/bin/env python3
"""The replay of fuzz inputs tells findings from refusals, and never passes on nothing.

Usage: replay_test.py PLANTED [unittest option...]
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLANTED = None


def replay(*inputs):
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(inputs):
            (Path(folder) / str(number)).write_text(text)
        done = subprocess.run([PLANTED, folder, folder + "/absent"], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


class Replay(unittest.TestCase):
    def test_accepted_and_refused_inputs_are_no_findings(self):
        status, text = replay("accepted", "refused", "")
        self.assertEqual(status, 0, text)
        self.assertIn("3 inputs, 0 findings", text)

    def test_each_kind_of_finding(self):
        for text, words in (("throws", "not an Error"), ("blames itself", "attest blames itself"),
                            ("says nothing", "a refusal of 0 bytes"), ("does not come back", "does not come back")):
            with self.subTest(text):
                status, said = replay("accepted", text, "refused")
                self.assertEqual(status, 1, said)
                self.assertRegex(said, f"/1: .*{words}")
                self.assertIn("3 inputs, 1 findings", said)

    def test_nothing_is_no_success(self):
        self.assertEqual(replay()[0], 2)


if __name__ == "__main__":
    PLANTED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
