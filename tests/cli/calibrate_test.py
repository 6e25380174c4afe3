#!/usr/bin/env python3
"""attest calibrate as a user meets it: its table, its file, what --calibration makes of it, and words that it refuses.

Usage: calibrate_test.py ATTEST [unittest option...]
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ATTEST = None
SMALL = ("--kernels", 8, "--cases", 45, "--jobs", 2)
ODD = "f32,weights=f16"  # no named policy


def run(*words):
    return subprocess.run([ATTEST, *map(str, words)], capture_output=True, text=True, timeout=240)


def aggregated(*words):
    done = run("check", "builtin:fused", "--policy", ODD, "--property", "aggregate-error", "--cases", 1500, "--json", "-",
               *words)
    return done.returncode, json.loads(done.stdout)["verdicts"]["aggregate-error"]


class Calibrate(unittest.TestCase):
    def test_a_policy_of_ones_own(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mine.json"
            done = run("calibrate", "--policy", ODD, *SMALL, "--out", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no element needs more than lambda", done.stdout)
            data = json.loads(file.read_text())
            self.assertEqual(list(data["policies"]), [ODD])
            self.assertEqual(run("calibrate", "--policy", ODD, *SMALL, "--out", "-").stdout, file.read_text())

            status, silent = aggregated()
            self.assertEqual(status, 3)  # it applied nowhere, and says why
            self.assertTrue(any(why.startswith("not calibrated: " + ODD) for why in silent["skip"]), silent)
            status, asked = aggregated("--calibration", file)
            self.assertEqual((status, asked["fail"]), (0, 0))
            self.assertGreater(asked["pass"], 20)

            # Thresholds are read from the file: under larger ones a fault passes.
            fault = ("check", "fault:softmax-f16", "--policy", "f16", "--property", "aggregate-error", "--cases", 1500)
            self.assertEqual(run(*fault).returncode, 1)
            for cell in data["policies"][ODD]["classes"].values():
                cell["t"] = 1e9
            data["policies"] = {"f16": {"share": 0.5, "classes": data["policies"][ODD]["classes"]}}
            file.write_text(json.dumps(data))
            self.assertEqual(run(*fault, "--calibration", file).returncode, 0)

    def test_words_that_it_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            damaged = Path(folder) / "damaged.json"
            damaged.write_text('{"format": 1}')
            for words, sentence in (
                    (("calibrate", "--policy", "f17"), "f17"),
                    (("calibrate", "--kernels", 0), "--kernels"),
                    (("calibrate", "--out", Path(folder) / "no" / "x.json"), "--out"),
                    (("check", "builtin:fused", "--calibration", damaged), "damaged.json has no object 'policies'"),
                    (("replay", folder, "--calibration", Path(folder) / "missing"), "missing")):
                done = run(*words)
                self.assertEqual(done.returncode, 2, words)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    ATTEST = sys.argv.pop(1)
    unittest.main()
