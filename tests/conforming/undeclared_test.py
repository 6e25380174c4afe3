#!/usr/bin/env python3
"""A subject that declares nothing is judged by the most generous reading of its dtype, aloud, and by nothing it did not say.

Usage: undeclared_test.py ATTEST. The same kernel, declared more narrowly in one word, is found wrong by it.
"""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ATTEST = sys.argv.pop(1)
SUBJECTS = Path(__file__).with_name("undeclared.py")
PYTHON = os.environ.get("ATTEST_PYTHON", "python3")


def attest(*words):
    return subprocess.run([ATTEST, *map(str, words)], capture_output=True, text=True, timeout=300)


def check(name, *words):
    done = attest("check", f"{SUBJECTS}:{name}", "--cases", 250, "--laws", "all", "--jobs", 2, "--python", PYTHON,
                  "--shrink-budget", 20, "--json", "summary.json", *words)
    return done, json.loads(Path("summary.json").read_text())


class Undeclared(unittest.TestCase):
    def test_nothing_declared_is_held_to_the_most_generous_reading_and_says_so(self):
        done, summary = check("nothing")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = "it declares no policy: each dtype is held to its most generous reading"
        self.assertEqual((done.stdout + done.stderr).count(said), 1)
        self.assertIs(summary["policy_declared"], False)
        self.assertEqual(summary["policy"], "")
        self.assertGreater(summary["judged"], 150)
        self.assertEqual(summary["findings"], [])

    def test_a_policy_on_the_command_line_is_one(self):
        done, summary = check("nothing", "--policy", "f16-all")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("declares no policy", done.stdout + done.stderr)
        self.assertIs(summary["policy_declared"], True)

    def test_each_word_declared_is_judged(self):
        for name in ("policy", "empty_row", "deterministic"):
            with self.subTest(name):
                done, summary = check(name)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertIs(summary["policy_declared"], name == "policy")

    def test_the_list_says_what_stands_in_for_a_policy(self):
        rows = {row["name"]: row["doc"] for row in json.loads(attest("list", "policies", "--json", "-").stdout)}
        self.assertIn("where no policy is declared", rows["f32"])
        for name in ("f16-all", "bf16-all", "f64"):
            self.assertIn("likewise", rows[name])


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
        print(f"skipped: {PYTHON} has no numpy")
        sys.exit(125)
    unittest.main()
