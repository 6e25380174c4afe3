#!/usr/bin/env python3
"""attest calibrate as a user meets it: its table, its file, what --calibration makes of it, and words that it refuses.

Usage: calibrate_test.py ATTEST [unittest option...]
"""
import json
import signal
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
            self.assertEqual(status, 5)  # it applied nowhere, and says why
            self.assertTrue(any(why.startswith("not calibrated: " + ODD) for why in silent["skip"]), silent)
            status, asked = aggregated("--calibration", file)
            self.assertEqual((status, asked["fail"], asked["warn"]), (0, 0, 0))
            self.assertGreater(asked["pass"], 20)

            # Thresholds are read from the file: under larger ones nothing is said of a fault.
            fault = ("check", "fault:softmax-f16", "--policy", "f16", "--property", "aggregate-error", "--cases", 1500, "--json", "-")
            warnings = lambda *words: json.loads(run(*fault, *words).stdout)["verdicts"]["aggregate-error"]["warn"]
            self.assertGreater(warnings(), 0)
            for cell in data["policies"][ODD]["classes"].values():
                cell["t"] = 1e9
            data["policies"] = {"f16": {"share": 0.5, "classes": data["policies"][ODD]["classes"]}}
            file.write_text(json.dumps(data))
            self.assertEqual(warnings("--calibration", file), 0)

    def test_of_layer_norm(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "norm.json"
            words = ("--op", "layer_norm", "--policy", "f32", "--kernels", 12, "--cases", 60, "--jobs", 2)
            done = run("calibrate", *words, "--out", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            data = json.loads(file.read_text())
            self.assertEqual((data["op"], list(data["policies"])), ("layer_norm", ["f32"]))
            classes = data["policies"]["f32"]["classes"]
            self.assertGreater(classes["normal+rows1"]["results"], 100)
            self.assertNotIn("integers+rows1", classes)  # the tiers do not speak of them

            # Its thresholds are what a campaign of layer_norm asks, and no other's.
            asked = ("builtin:ln-fused", "--policy", "f32", "--property", "aggregate-error", "--cases", 300,
                     "--assume", "values==normal && offset==0 && rows<4")
            check = ("check", *asked, "--json", "-")
            verdict = json.loads(run(*check, "--calibration", file).stdout)["verdicts"]["aggregate-error"]
            self.assertEqual(verdict["warn"], 0)
            self.assertGreater(verdict["pass"], 50)
            for cell in classes.values():
                cell["t"] = 0  # the least threshold is 1
                cell["results"] = 10
            file.write_text(json.dumps(data))
            silent = run(*check, "--calibration", file)
            self.assertEqual(silent.returncode, 5)  # too few results give no threshold
            self.assertIn("not calibrated: f32, normal+rows1", silent.stdout)
            refused = run("check", "builtin:fused", "--cases", 5, "--calibration", file)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--calibration is of layer_norm, and the problems are of attention", refused.stderr)

    def test_of_mha(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "block.json"
            words = ("--op", "mha", "--policy", "f16", "--kernels", 10, "--cases", 40, "--jobs", 2)
            done = run("calibrate", *words, "--out", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            data = json.loads(file.read_text())
            self.assertEqual((data["op"], list(data["policies"])), ("mha", ["f16"]))
            classes = data["policies"]["f16"]["classes"]
            self.assertGreater(classes["dense+rows1"]["results"], 100)
            self.assertNotIn("one_hot", classes)  # the tiers do not speak of them
            for cell in classes.values():
                cell["results"] = 10
            file.write_text(json.dumps(data))
            silent = run("check", "builtin:mha-fused", "--policy", "f16", "--property", "aggregate-error", "--cases", 60, "--assume",
                         "weights==dense && amplitude==1", "--json", "-", "--calibration", file)
            self.assertIn("not calibrated: f16, dense", silent.stdout)  # too few results give no threshold

    def interrupted(self, words, line, which, out):
        """Of a calibration that gets the signal when stderr has told `line`: status, stdout, the rest of stderr."""
        process = subprocess.Popen([ATTEST, "calibrate", *map(str, words), "--out", out], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        while line not in (told := process.stderr.readline()):
            self.assertTrue(told, f"it ended before '{line}'")
        process.send_signal(which)
        told, err = process.communicate(timeout=240)
        return process.returncode, told, err

    def test_an_interrupt_keeps_the_policies_that_are_complete(self):
        words = ("--kernels", 2, "--cases", 8, "--jobs", 1)
        named = [row["name"] for row in json.loads(run("list", "policies", "--json", "-").stdout)]
        with tempfile.TemporaryDirectory() as folder:
            file, alone = Path(folder) / "some.json", Path(folder) / "alone.json"
            status, told, _ = self.interrupted(words, f"calibrating {named[2]}\n", signal.SIGTERM, file)
            self.assertEqual(status, 0, told)
            data = json.loads(file.read_text())
            complete = len(data["policies"])
            self.assertTrue(2 <= complete < len(named), complete)
            self.assertEqual(set(data["policies"]), set(named[:complete]))
            self.assertTrue(data["interrupted"])
            self.assertIn(f"INTERRUPTED: {complete} of {len(named)} policies calibrated; there are no data for "
                          + " ".join(named[complete:]), told)
            # The first policy is as it is in a run that has no other.
            self.assertEqual(run("calibrate", *words, "--policy", named[0], "--out", alone).returncode, 0)
            whole = json.loads(alone.read_text())
            self.assertEqual(data["policies"][named[0]], whole["policies"][named[0]])
            self.assertNotIn("interrupted", whole)
            self.assertEqual(run("check", "builtin:fused", "--cases", 5, "--calibration", file).returncode, 0)

    def test_an_interrupt_before_the_first_policy_is_complete_leaves_the_file_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            there, missing = Path(folder) / "there.json", Path(folder) / "missing.json"
            there.write_text("what it held")
            for file in (there, missing):
                status, told, err = self.interrupted(("--policy", "f32", "--cases", 5000), "calibrating f32", signal.SIGINT,
                                                     file)
                self.assertEqual((status, told), (3, ""))
                self.assertEqual(err, "attest: interrupted before a policy was complete: there are no data, and none were "
                                 "written\n")
            self.assertEqual(there.read_text(), "what it held")
            self.assertFalse(missing.exists())

    def test_words_that_it_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            damaged = Path(folder) / "damaged.json"
            damaged.write_text('{"format": 1}')
            for words, sentence in (
                    (("calibrate", "--policy", "f17"), "f17"),
                    (("calibrate", "--kernels", 0), "--kernels"),
                    (("calibrate", "--op", "mha", "--policy", "f64"), "the reference of projections is of float64 itself"),
                    (("calibrate", "--op", "layer_norm", "--policy", "f64"), "several times what independent roundings do"),
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
