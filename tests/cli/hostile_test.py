#!/usr/bin/env python3
"""Bytes that are no text, control characters and absurd lengths in every word of the command line: refused in one line each,
or taken for what they are; never an internal error.

Usage: hostile_test.py ATTEST PLUGIN_WORKER [unittest option...]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ATTEST = WORKER = None
BYTES = "\udcff\udcfe"  # \xff\xfe on the command line
HOSTILE = {"bytes": BYTES, "control": "x\x1b[31m\n\r\tx", "long": "9" * 100000, "quotes": "'\"`$(x)\\", "empty": ""}


class Hostile(unittest.TestCase):
    def setUp(self):
        self.cwd = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.cwd, True)

    def attest(self, *words, **environment):
        return subprocess.run([ATTEST, *words], capture_output=True, cwd=self.cwd, timeout=60,
                              env={**os.environ, **environment})

    def refused(self, *words, **environment):
        done = self.attest(*words, **environment)
        self.assertIn(done.returncode, (2, 4), done.stderr[:600])
        line = done.stderr
        self.assertTrue(line.startswith(b"attest: ") and line.endswith(b"\n"), line[:600])
        self.assertFalse([byte for byte in line[:-1] if byte < 32 or byte == 127], line[:600])
        self.assertLess(len(line), 3000)

    def test_words(self):
        words = (["check", "builtin:{}"], ["check", "fault:{}"], ["check", "./{}.so"], ["check", "{}.py:k"],
                 ["check", "builtin:fused", "--policy", "{}"], ["check", "builtin:fused", "--assume", "{}"],
                 ["check", "builtin:fused", "--problem", "{}"], ["check", "builtin:fused", "--property", "{}"],
                 ["check", "builtin:fused", "--seed", "{}"], ["check", "builtin:fused", "--cases", "{}"],
                 ["check", "builtin:fused", "--shard", "{}"], ["check", "builtin:fused", "--known", "{}"],
                 ["fuzz", "builtin:fused", "--time", "{}"], ["check", "builtin:fused", "--x{}"], ["{}"],
                 ["replay", "{}"], ["shrink", "{}"], ["export", "{}", "--to", "python"], ["list", "{}"])
        for name, hostile in HOSTILE.items():
            for line in words:
                with self.subTest(f"{name}: {' '.join(line)}"):
                    self.refused(*(word.replace("{}", hostile) for word in line))

    def test_environment(self):
        for name, hostile in HOSTILE.items():
            if hostile:
                with self.subTest(name):
                    self.refused("check", "builtin:fused", ATTEST_PARAMS=hostile)

    def test_names_asked_of_a_worker(self):
        for name in ("bytes", "control", "quotes"):
            with self.subTest(name):
                self.refused("check", f"{WORKER}:{HOSTILE[name]}")

    def test_a_subject_that_answers_no_call_has_failed(self):
        with open(os.path.join(self.cwd, "dies"), "w") as script:
            script.write(f"#!/bin/sh\nexec {sys.executable} {WORKER} wrong-status\n")
        os.chmod(script.name, 0o755)
        done = self.attest("check", "./dies", "--cases", "3", "--jobs", "1")
        self.assertEqual(done.returncode, 1, done.stderr[-600:])
        self.assertIn(b"./dies: FAILED, 1 defect; nothing else was tested", done.stdout)

    def test_files_whose_names_are_no_text(self):
        words = ("fault:scale-twice", "--seed", "1", "--cases", "20", "--jobs", "1")
        for run in range(2):  # the second goes on with the folder of the first
            done = self.attest("fuzz", *words, "-o", f"out{BYTES}")
            self.assertEqual(done.returncode, 1, done.stderr[-600:])
        done = self.attest("check", *words, "--corpus", f"corpus{BYTES}", "--json", f"json{BYTES}", "--events",
                           f"events{BYTES}")
        self.assertEqual(done.returncode, 1, done.stderr[-600:])
        self.assertEqual(self.attest("replay", f"corpus{BYTES}").returncode, 0)


if __name__ == "__main__":
    ATTEST, WORKER = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
