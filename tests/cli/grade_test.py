#!/usr/bin/env python3
"""attest grade as a user meets it: its tables, its JSON, its picture, its statuses, and words that it refuses.

Usage: grade_test.py ATTEST [unittest option...]
"""
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ATTEST = None
SMALL = ("--seeds", 1, "--cases", 300, "--paired", 10, "--clean", 1, "--jobs", 1)
RULES = ["attest", "assert_close", "2x", "fudge", "nmse", "1e-2", "polygraphy"]


def grade(*words, folder=None):
    return subprocess.run([ATTEST, "grade", *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=240)


def start(*words, folder):
    return subprocess.Popen([ATTEST, "grade", *map(str, words)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def interrupt(process, line, *signals, wait=0.0):
    """Sends the signals (SIGINT) `wait` seconds after stderr has told `line`. Returns the status, stdout and what stderr still told."""
    while line not in (told := process.stderr.readline()):
        assert told, f"it ended before '{line}'"
    time.sleep(wait)
    for which in signals or (signal.SIGINT,):
        process.send_signal(which)
        time.sleep(0.001)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


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

    def test_each_operation_alone(self):
        for op, fault, key in (("layer_norm", "ln-tail", "elements"), ("mha", "mha-qkv-order", "multiply_adds")):
            words = ("--faults", fault, *SMALL, "--json", "-")
            told = json.loads(grade(*words, "--op", op).stdout)
            self.assertEqual((told["format"], told["op"], told["exit"], told["missed"]), (1, op, 0, []))
            self.assertEqual([row["name"] for row in told["faults"]], ["fault:" + fault])
            hunt = told["faults"][0]["campaigns"][0]
            self.assertTrue(hunt["found"] and hunt["problem"].startswith(f"op={op} "))
            self.assertGreater(hunt[key], 0)
            laws = [law["law"] for law in told["faults"][0]["laws"]]
            self.assertIn("policy-bound", laws)
            self.assertEqual(len(laws), len(set(laws)))
            for table in told["rules"]:
                self.assertEqual([column["name"] for column in table["columns"]], RULES)
                self.assertEqual((table["columns"][0]["false_alarms"], table["alarms"]), (0, []))
                self.assertGreater(table["emulated_cases"], 16)
            self.assertEqual(told["conforming"]["alarms"], [])
            self.assertGreater(told["conforming"]["campaigns"], 30)
            without = json.loads(grade(*words).stdout)  # the name says which operation
            del told["seconds"], without["seconds"]
            for one in (told, without):
                del one["faults"][0]["campaigns"][0]["seconds"]
            self.assertEqual(told, without)

    def test_faults_of_several_operations(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            done = grade("--faults", "*tail", "--seeds", 1, "--cases", 100, "--paired", 4, "--clean", 0, "--json", "g.json",
                         "--svg", "g.svg", folder=folder)
            told = json.loads((folder / "g.json").read_text())
            picture = ElementTree.parse(folder / "g.svg").getroot()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([part.get("op", "attention") for part in told["operations"]], ["attention", "layer_norm"])
        self.assertEqual((told["exit"], told["interrupted"]), (0, False))
        self.assertEqual([part["exit"] for part in told["operations"]], [0, 0])
        self.assertIn("==== attention\n", done.stdout)
        self.assertIn("==== layer_norm\n", done.stdout)
        places = {"".join(text.itertext()): float(text.get("y") or "nan")
                  for text in picture.iter("{http://www.w3.org/2000/svg}text")}
        self.assertLess(places["rescale-tail"], places["ln-tail"])  # one block below the other
        self.assertTrue(places["rescale-tail"] < places["layer_norm"] < places["ln-tail"])
        self.assertLess(places["ln-tail"], float(picture.get("height")))

        refused = grade("--faults", "*tail", "--policy", "f16-acc16")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("give --op", refused.stderr)

    def test_an_interrupt_keeps_the_faults_that_are_whole(self):
        words = ("--seeds", 1, "--cases", 300, "--paired", 20, "--clean", 0, "--jobs", 1)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            running = start(*words, "--faults", "scale-*", "--json", "g.json", "--svg", "g.svg", folder=folder)
            status, out, _ = interrupt(running, "(3 of ")
            told = json.loads((folder / "g.json").read_text())
            picture = (folder / "g.svg").read_text()
        self.assertEqual((status, told["exit"]), (130, 130), out)
        self.assertTrue(told["interrupted"])
        whole, asked = len(told["faults"]), told["faults_asked"]
        self.assertTrue(2 <= whole < asked, f"{whole} of {asked}")
        sentence = f"INTERRUPTED: {whole} of {asked} faults graded; rules on 0 of 20 plain problems"
        self.assertTrue(out.startswith(sentence), out)
        self.assertIn(f"{whole} of {whole} faults found from every seed", out)
        self.assertIn(f"{asked - whole} more", out)
        self.assertEqual(told["rules"], [])
        ElementTree.fromstring(picture)
        self.assertIn(sentence, picture)
        # The picture has the figures that an uninterrupted run has for these faults.
        for fault in told["faults"][:2]:
            alone = json.loads(grade(*words, "--faults", fault["name"].removeprefix("fault:"), "--json", "-").stdout)
            self.assertFalse(alone["interrupted"])
            for row in (fault, alone["faults"][0]):
                for campaign in row["campaigns"]:
                    del campaign["seconds"]
            self.assertEqual(fault, alone["faults"][0])

    def test_an_interrupt_keeps_the_first_paired_problems(self):
        words = ("--faults", "scale-twice", "--seeds", 1, "--cases", 300, "--clean", 1, "--jobs", 2)
        with tempfile.TemporaryDirectory() as name:
            for wait in (0.5, 4, 30):  # on a busy machine the first problem may take that long
                running = start(*words, "--paired", 400, "--json", "g.json", folder=name)
                status, out, _ = interrupt(running, "grading rules (1 of 2)", signal.SIGTERM, wait=wait)
                told = json.loads((Path(name) / "g.json").read_text())
                if told["rules"]:
                    break
        self.assertEqual(status, 130, out)
        problems = told["rules"][0]["problems"]
        self.assertTrue(0 < problems < 400, problems)
        self.assertIn(f"rules on {problems} of 400 plain problems and 0 of 400 of the domain", out)
        self.assertIn(f"Rules, plain cases: {problems} of 400 problems", out)
        self.assertEqual((told["conforming"]["campaigns"], len(told["rules"])), (0, 1))
        self.assertGreater(told["conforming"]["asked"], 100)
        self.assertIn("in 0 of ", out)
        fewer = grade(*words, "--clean", 0, "--paired", problems, "--json", "-")
        self.assertEqual(json.loads(fewer.stdout)["rules"][0], told["rules"][0])

    def test_an_interrupt_before_the_first_fault_is_whole_is_no_result(self):
        with tempfile.TemporaryDirectory() as name:
            running = start("--faults", "scale-*", "--paired", 5000, "--json", "g.json", "--svg", "g.svg", folder=name)
            status, out, err = interrupt(running, "(1 of ")
            told = json.loads((Path(name) / "g.json").read_text())
            ElementTree.parse(Path(name) / "g.svg")
        self.assertEqual((status, out), (130, ""))
        self.assertEqual(err, "attest: interrupted before all of one fault was measured: there is nothing to report\n")
        self.assertEqual((told["faults"], told["interrupted"], told["worst_problems"], told["exit"]), ([], True, "nan", 130))

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
            (("--op", "bird"), ["--op bird"]),
            (("--op", "mha", "--faults", "ln-*"), ["--faults ln-*", "no fault of mha"]),
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
