#!/usr/bin/env python3
"""attest grade as a user meets it: its tables, its JSON, its picture, its statuses, and words that it refuses.

Usage: grade_test.py ATTEST [unittest option...]
"""
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ATTEST = None
SMALL = ("--seeds", 1, "--cases", 300, "--paired", 10, "--clean", 1, "--jobs", 1)
RULES = ["attest", "assert_close", "2x", "fudge", "nmse", "1e-2", "polygraphy"]


def grade(*words, folder=None):
    return subprocess.run([ATTEST, "grade", *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=240)


class Grade(unittest.TestCase):
    def test_tables_json_and_picture_of_one_run(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            done = grade("--faults", "scale-t*", *SMALL, "--json", "grade.json", "--svg", "grade.svg", folder=folder)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            told = json.loads((folder / "grade.json").read_text())
            picture = ElementTree.parse(folder / "grade.svg").getroot()
        self.assertIn("1 of 1 faults found from every seed", done.stdout)
        self.assertIn("Conforming kernels: 0 false alarms in ", done.stdout)

        self.assertEqual((told["format"], told["verb"], told["exit"], told["missed"]), (1, "grade", 0, []))
        self.assertEqual((told["seeds"], told["cases"], told["paired"], told["clean"]), (1, 300, 10, 1))
        fault = told["faults"][0]
        self.assertEqual((fault["name"], fault["parent"]), ("fault:scale-twice", "builtin:fused"))
        self.assertTrue(fault["report"])
        hunt = fault["campaigns"][0]
        self.assertTrue(hunt["found"] and hunt["minimal"])
        self.assertLessEqual(hunt["problems"], 300)
        self.assertGreater(hunt["subject_calls"], 0)
        self.assertTrue(hunt["problem"].startswith("op=attention "))
        laws = {law["law"]: law for law in fault["laws"]}
        self.assertGreaterEqual(len(laws), 39)
        bound = laws["policy-bound"]
        self.assertGreater(bound["failed"], 0)
        self.assertEqual(bound["failed"], bound["beyond_bound"])  # the bound's detections are its own
        for law in laws.values():
            self.assertLessEqual(law["beyond_bound"], law["failed"])
            self.assertLessEqual(law["failed"], law["judged"])
            self.assertLessEqual(law["judged"], 10)
        self.assertEqual([table["set"] for table in told["rules"]], ["plain", "domain"])
        for table in told["rules"]:
            self.assertEqual([column["name"] for column in table["columns"]], RULES)
            self.assertEqual([column["own"] for column in table["columns"]], [True] + [False] * 6)
            self.assertEqual((table["columns"][0]["false_alarms"], table["alarms"]), (0, []))
            self.assertGreater(table["emulated_cases"], 16)
            self.assertEqual(table["emulated_cases"] % 16, 0)  # so many on each problem that is small enough
            self.assertGreater(table["conforming_cases"], table["emulated_cases"])
            self.assertIn(f"{table['emulated_cases']:,} results of emulated kernels", done.stdout)
            for case in table["faults"][0]["beyond"]:
                self.assertTrue(case["problem"].startswith("op=attention ") and case["rules"])
            acts = table["faults"][0]["acts"]
            for power in table["faults"][0]["columns"]:
                self.assertLessEqual(power["detected_at_zero"], acts)
        conforming = told["conforming"]
        self.assertEqual(conforming["problems"], conforming["campaigns"])
        self.assertGreater(conforming["campaigns"], 100)  # every kernel under every named policy
        self.assertEqual(conforming["alarms"], [])

        self.assertEqual(picture.tag, "{http://www.w3.org/2000/svg}svg")
        texts = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("scale-twice", "policy-bound", "assert_close", "polygraphy", "never"):
            self.assertIn(word, texts)

    def test_the_same_words_give_the_same_figures(self):
        words = ("--faults", "batch-leak", "--seeds", 2, "--cases", 300, "--paired", 5, "--clean", 0, "--json", "-")
        one, two = (json.loads(grade(*words, "--jobs", jobs).stdout) for jobs in (1, 2))
        for told in (one, two):
            del told["seconds"], told["jobs"]
            for campaign in told["faults"][0]["campaigns"]:
                del campaign["seconds"]
        self.assertEqual(one, two)

    def test_a_fault_that_is_not_found_is_status_1(self):
        # Accumulating weights times values in f16 is what f16-acc16 promises.
        done = grade("--faults", "pv-acc-f16", "--policy", "f16-acc16", "--seeds", 1, "--cases", 50, "--paired", 0,
                     "--clean", 0)
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertIn("NOT FOUND", done.stdout)
        self.assertIn("Not found from every seed: fault:pv-acc-f16", done.stdout)

    def test_words_that_it_refuses(self):
        for words, says in (
            (("--faults", "bird*"), ["--faults bird*", "attest list faults"]),
            (("--seeds", 0), ["--seeds"]),
            (("--cases", 0), ["--cases"]),
            (("--jobs", 0), ["--jobs"]),
            (("--paired", -1), ["--paired"]),
            (("--emulated", -1), ["--emulated"]),
            (("--policy", "f17"), ["f17"]),
            (("--property", "bird*"), ["bird*"]),
            (("--svg", "nowhere/x.svg"), ["--svg nowhere/x.svg"]),
            (("--json", "nowhere/x.json"), ["--json nowhere/x.json"]),
            (("--json", "-", "--svg", "-"), ["--json -", "--svg -"]),
            (("--speed", 9), ["--speed"]),
        ):
            done = grade(*words)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stderr}")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            for word in says:
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    ATTEST = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
