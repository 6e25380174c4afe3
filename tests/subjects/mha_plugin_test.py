#!/usr/bin/env python3
"""Plug-ins of mha: the right one holds, by host process and in process, the wrong one is found and where it goes wrong is told.

Usage: mha_plugin_test.py ATTEST PLUGIN. The plug-in is examples/mha.cpp.
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ATTEST, PLUGIN = sys.argv[1:3]


def attest(*words):
    return subprocess.run([ATTEST, *words], capture_output=True, text=True, check=False)


def check(subject, *words):
    done = attest("check", subject, "--jobs", "1", "--json", "-", *words)
    return done.returncode, json.loads(done.stdout)


class Right(unittest.TestCase):
    def test_holds_over_a_thousand_problems(self):
        status, summary = check(f"{PLUGIN}:plain")
        self.assertEqual((status, summary["findings"]), (0, []))
        self.assertEqual(summary["cases"], 1000)
        self.assertGreater(summary["judged"], 800)
        self.assertTrue(summary["policy_declared"])
        for law in ("block-value-sign", "stage-bound", "block-uniform", "block-selection"):
            self.assertGreater(summary["verdicts"][law]["pass"], 20, law)

    def test_holds_in_process_too(self):
        status, summary = check(f"{PLUGIN}:plain", "--in-process", "--cases", "300")
        self.assertEqual((status, summary["findings"]), (0, []))


class Wrong(unittest.TestCase):
    subject = f"{PLUGIN}:no-transpose"

    def test_is_found(self):
        status, summary = check(self.subject, "--cases", "300")
        self.assertEqual(status, 1)
        self.assertIn("op=mha", summary["findings"][0]["problem"])

    def test_its_first_wrong_stage_is_told(self):
        status, summary = check(self.subject, "--property", "stage-bound", "--cases", "300")
        self.assertEqual(status, 1)
        finding = summary["findings"][0]
        self.assertEqual(finding["witness"]["tensor"], "heads", finding)

    def test_a_reproducer_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(attest("fuzz", self.subject, "--cases", "60", "--seed", "1", "-o", folder).returncode, 1)
            done = attest("replay", str(Path(folder) / "corpus"), "--subject", self.subject)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = attest("replay", str(Path(folder) / "corpus"), "--subject", f"{PLUGIN}:plain", "--expect-pass")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Refused(unittest.TestCase):
    def test_in_one_sentence(self):
        for words, status, sentence in (
                ((f"{PLUGIN}:plain", "--op", "attention"), 2, "plain does not offer the operation attention"),
                ((f"{PLUGIN}:plain", "--policy", "f16,gemms=f16"), 2, "gemms"),
                ((PLUGIN,), 2, "plain, no-transpose")):
            done = attest("check", *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
