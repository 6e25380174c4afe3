#!/usr/bin/env python3
"""Plug-ins of layer_norm, in C and in C++: right ones hold, wrong ones are found, one with two operations is asked either.

Usage: layer_norm_plugin_test.py ATTEST C_PLUGIN CPP_PLUGIN
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ATTEST, C_PLUGIN, CPP_PLUGIN = sys.argv[1:4]


def attest(*words):
    return subprocess.run([ATTEST, *words], capture_output=True, text=True, check=False)


def check(subject, *words):
    done = attest("check", subject, "--json", "-", *words)
    return done.returncode, json.loads(done.stdout)


class Right(unittest.TestCase):
    def test_holds_over_a_thousand_problems(self):
        for subject in (f"{C_PLUGIN}:right", f"{CPP_PLUGIN}:plain"):
            status, summary = check(subject)
            self.assertEqual((status, summary["findings"]), (0, []), subject)
            self.assertEqual(summary["cases"], 1000)
            self.assertGreater(summary["judged"], 900)
            self.assertTrue(summary["policy_declared"])
            self.assertIn("row-alone" if subject == f"{CPP_PLUGIN}:plain" else "negated", summary["verdicts"])

    def test_holds_in_process_too(self):
        status, summary = check(f"{C_PLUGIN}:right", "--in-process", "--cases", "300")
        self.assertEqual((status, summary["findings"]), (0, []))


class Wrong(unittest.TestCase):
    def test_epsilon_outside_the_root_is_found(self):
        for subject in (f"{C_PLUGIN}:epsilon-outside", f"{CPP_PLUGIN}:eps-outside"):
            status, summary = check(subject, "--cases", "200")
            self.assertEqual(status, 1, subject)
            finding = summary["findings"][0]
            self.assertEqual(finding["property"], "policy-bound")
            self.assertTrue(finding["problem"].startswith("op=layer_norm rows=1 hidden=2 "), finding["problem"])

    def test_a_reproducer_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            subject = f"{C_PLUGIN}:epsilon-outside"
            self.assertEqual(attest("fuzz", subject, "--cases", "30", "--seed", "1", "-o", folder).returncode, 1)
            done = attest("replay", str(Path(folder) / "corpus"), "--subject", subject)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = attest("replay", str(Path(folder) / "corpus"), "--subject", f"{C_PLUGIN}:right", "--expect-pass")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Both(unittest.TestCase):
    subject = f"{C_PLUGIN}:both"  # its layer_norm forgets gamma in its last column

    def test_op_says_which_is_asked(self):
        for words in ((), ("--op", "attention")):
            status, summary = check(self.subject, "--cases", "200", *words)
            self.assertEqual((status, summary["findings"]), (0, []), words)
            self.assertIn("value-linearity", summary["verdicts"])
        status, summary = check(self.subject, "--cases", "200", "--op", "layer_norm")
        self.assertEqual(status, 1)
        self.assertIn("op=layer_norm", summary["findings"][0]["problem"])
        self.assertIn("gamma", summary["findings"][0]["bucket"])

    def test_each_operation_has_its_own_contract(self):
        self.assertTrue(check(self.subject, "--cases", "20", "--op", "layer_norm")[1]["policy_declared"])
        self.assertFalse(check(self.subject, "--cases", "20", "--op", "attention")[1]["policy_declared"])  # none of bf16


class Refused(unittest.TestCase):
    def test_in_one_sentence(self):
        for words, status, sentence in (
                ((f"{C_PLUGIN}:right", "--op", "attention"), 2, "right does not offer the operation attention"),
                ((f"{C_PLUGIN}:empty",), 4, "its describe offers layer_norm, and the function is NULL"),
                ((C_PLUGIN,), 2, "right, epsilon-outside, both, empty")):
            done = attest("check", *words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
