#!/usr/bin/env python3
"""attest compare: two subjects, or one and what was saved, from the command line.

Usage: compare_test.py ATTEST; ATTEST_PYTHON names a Python that has numpy, without which the tests of scripts are skipped.
"""
import json
import os
import re
import signal
import subprocess
import time
import unittest

import saved_tensors
from command_line import Cli, run
from interpreter import HAS_NUMPY, PYTHON


KERNEL = """\
import attest
import numpy as np

@attest.subject(name="mine", version="%s", dtypes=["float32"], contract={"policy": "f32"})
def mine(q, k, v, *, scale, causal=None):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(%s)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
        %s
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)
"""


class Drawn(Cli):
    campaigns = 0

    def summary(self, *words, status, **how):
        self.campaigns += 1  # two of one second and seed would share a folder
        done = self.attest("compare", *words, "-o", f"campaign-{self.campaigns}", "--json", "-", **how)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_conforming_kernels_do_not_differ(self):
        summary = self.summary("builtin:fused-tile16", "builtin:fused-split", "--seed", 3, "--cases", 200, status=0)
        self.assertEqual((summary["verb"], summary["subject"], summary["subject_b"]),
                         ("compare", "builtin:fused-tile16", "builtin:fused-split"))
        self.assertEqual(summary["findings"], [])
        self.assertGreater(summary["judged"], 180)
        self.assertEqual(set(summary["verdicts"]), {"compare-bound"})

    def test_a_fault_is_found_its_side_named_and_replayed(self):
        for words, side in ((("fault:scale-twice", "builtin:fused"), "a"), (("builtin:fused", "fault:scale-twice"), "b")):
            with self.subTest(side):
                done = self.attest("compare", *words, "--seed", 1, "--cases", 80, "-v", "-o", f"out-{side}")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"compare-bound/fail/finite-of-{side}:", done.stdout)
                self.assertRegex(done.stdout, rf"witness    \S+: A = \S+, B = \S+, .* apart, .* x what both bounds allow; "
                                              rf"{side.upper()} is outside its own bound")
                self.assertRegex(done.stdout, rf"\n     {side.upper()}          \S+: outside its bound, .* x the radius ")
                self.assertRegex(done.stdout, r"\n     [AB]          \S+: within its bound, ")
                self.assertIn("1-minimal", done.stdout)
                rerun = re.search(r"rerun +attest (replay \S+)\n", done.stdout).group(1)
                again = self.attest(*rerun.split())
                self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
                self.assertIn("1 as expected", again.stdout)
                # On the clean kernel in both places nothing differs any more.
                place = "--subject" if side == "a" else "--subject-b"
                mended = self.attest(*rerun.split(), place, "builtin:fused-split")
                self.assertEqual((mended.returncode, "1 mended" in mended.stdout), (1, True), mended.stdout)
        entry = next(self.cwd.glob("out-b/corpus/*/compare-bound*.json"))
        stored = json.loads(entry.read_text())
        self.assertEqual((stored["subject"], stored["subject_b"]["subject"]), ("builtin:fused", "fault:scale-twice"))
        self.assertEqual([side["outside"] for side in stored["seen"]["witness"]["sides"]], [False, True])
        self.refused("export", entry, "--to", "python", says=["two subjects", "attest check"])
        self.assertIn("two subjects", self.attest("certify", entry).stdout)
        self.assertEqual(self.attest("shrink", entry).returncode, 1)
        self.refused("triage", "out-b", says=["two subjects", "attest compare"])
        self.refused("fuzz", "builtin:fused", "--seed", 1, "--cases", 3, "-o", "out-b", says=["two subjects"])

    def test_one_problem(self):
        words = ("compare", "builtin:fused", "fault:scale-twice", "--problem")
        problem = "op=attention b=1 hq=1 hkv=1 lq=1 lk=3 d=2 dv=1 dtype=f32 scale=0x1p-1 values=normal:1 seed=1"
        done = self.attest(*words, problem)
        self.assertEqual(done.returncode, 1, done.stderr)
        rerun = re.search(r"rerun +attest (compare .*)\n", done.stdout).group(1)
        self.assertEqual(rerun, f"compare builtin:fused fault:scale-twice --problem '{problem}'")
        self.assertEqual(self.attest(*words, problem.replace("0x1p-1", "0x1p+0")).returncode, 0)
        stored = self.attest(*words, problem, "--corpus", "corpus")
        self.assertIn("attest replay corpus/", stored.stdout)
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        self.refused(*words, problem, "--seed", 3, says=["--seed", "--problem"])
        self.refused(*words, "lk=two", says=["lk"])

    def test_bits_are_asked_by_name(self):
        words = ("builtin:fused", "builtin:fused-split", "--policy", "f16", "--seed", 1, "--cases", 100)
        self.summary(*words, status=0)
        summary = self.summary(*words, "--bits", status=1)
        self.assertEqual({finding["property"] for finding in summary["findings"]}, {"compare-bits"})
        self.assertEqual(summary["verdicts"]["compare-bound"]["fail"], 0)
        self.summary("builtin:fused", "builtin:fused", "--bits", "--seed", 1, "--cases", 60, status=0)

    def test_the_number_of_jobs_decides_nothing(self):
        facts = []
        for jobs in (1, 4):
            summary = self.summary("builtin:fused", "fault:causal-off-by-one", "--seed", 5, "--cases", 120, "--jobs", jobs,
                                   status=1)
            facts.append((summary["verdicts"], [(f["bucket"], f["problem"], f["case"]) for f in summary["findings"]]))
        self.assertEqual(*facts)

    def test_settings_of_the_verb(self):
        (self.cwd / "attest.toml").write_text("[compare]\nseed = 7\ncases = 9\n")
        summary = self.summary("builtin:fused", "builtin:explicit", status=0)
        self.assertEqual((summary["seed"], summary["cases"]), (7, 9))

    def test_an_interrupt_ends_with_the_summary(self):
        process = subprocess.Popen([self.program, "compare", "builtin:fused", "builtin:explicit", "--forever", "--seed", "1"],
                                   cwd=self.cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted", out)
        self.assertIn("no difference beyond both bounds", out)

    def test_bad_input(self):
        self.refused("compare", says=["A"])
        self.refused("compare", "builtin:fused", says=["B"])
        self.refused("compare", "builtin:fused", "builtin:fusd", says=["builtin:fused"])
        self.refused("compare", "builtin:fused", "./missing.so", status=4, says=["./missing.so"])
        self.refused("compare", "builtin:fused", "builtin:explicit", "--policy", "f17", says=["f17"])
        self.refused("compare", "builtin:fused", "builtin:explicit", "--laws", 2, says=["--laws"])
        self.refused("compare", "builtin:fused", "builtin:explicit", "--causal", says=["--causal", "folder"])
        self.refused("compare", "builtin:fused", "builtin:explicit", "--jobs", 0, says=["--jobs"])
        self.refused("compare", "builtin:fused", "builtin:explicit", "--problem", "lk=1", "--time", "1s", says=["--time"])


@unittest.skipUnless(HAS_NUMPY, f"{PYTHON} has no numpy")
class Versions(Cli):
    """Two versions of one script, each with an interpreter of its own."""

    def write(self, file, version="1", factor="scale", then="pass"):
        (self.cwd / file).write_text(KERNEL % (version, factor, then))

    def compare(self, *words):
        return self.attest("compare", "old.py", "new.py", "--python", PYTHON, "--seed", 1, "--cases", 40, "--jobs", 1,
                           "-o", "out", *words)

    def test_equal_versions(self):
        self.write("old.py")
        self.write("new.py", "2")
        done = self.compare()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_has_its_own_interpreter(self):
        self.write("old.py")
        self.write("new.py", "2")
        broken = self.cwd / "no-such-python"
        self.refused("compare", "old.py", "new.py", "--python", PYTHON, "--python-b", broken, "--cases", 3, status=4,
                     says=["no-such-python"])
        done = self.attest("compare", "old.py", "builtin:fused", "--python", PYTHON, "--python-b", broken, "--seed", 1,
                           "--cases", 20)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_regression_is_stored_and_replayed_by_name(self):
        self.write("old.py")
        self.write("new.py", "2", "1 / np.sqrt(q.shape[-1])")  # forgets a scale that is given
        done = self.compare()
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("compare-bound_fail_finite-of-b_external_old_", done.stdout)
        self.assertIn("--subject old.py --subject-b new.py", done.stdout)
        entry = next(self.cwd.glob("out/corpus/*/*.json"))
        self.assertEqual(json.loads(entry.read_text())["subject_b"]["subject_name"], "mine")
        # Both files were started by name before, so that the entry alone is enough.
        again = self.attest("replay", "--python", PYTHON, entry)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        (self.cwd / "new.py").unlink()
        gone = self.attest("replay", "--python", PYTHON, entry)
        self.assertEqual(gone.returncode, 4)
        self.assertIn("--subject-b", gone.stdout)

    def test_a_subject_that_dies(self):
        self.write("old.py")
        self.write("new.py", "2", then="import os; os._exit(3)")
        done = self.compare("--cases", 12, "--shrink-budget", 10, "--json", "out.json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        findings = json.loads((self.cwd / "out.json").read_text())["findings"]
        self.assertEqual({finding["verdict"] for finding in findings}, {"crash"})
        for finding in findings:
            self.assertTrue(finding["reason"].startswith("B: "), finding["reason"])
            self.assertIn("causal=1", finding["problem"])


class Saved(Cli):
    """One side is a folder of saved calls."""

    def setUp(self):
        super().setUp()
        entry = self.reproducer()  # fault:scale-twice: its outputs are saved beside its inputs
        (self.cwd / "saved").mkdir()
        self.export(entry, "fault:scale-twice", "wrong")
        self.export(entry, "builtin:fused", "right")
        self.problem = json.loads(entry.read_text())["problem"]
        self.options = ["--policy", json.loads(entry.read_text())["contract"]["policy"]]
        if "scale" in self.problem:
            self.options += ["--scale", str(float.fromhex(self.problem["scale"]))]

    def export(self, entry, subject, name):
        done = self.attest("export", entry, "--subject", subject, "--to", "npz", "-o", f"saved/{name}.npz")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_which_call_differs_and_who_is_wrong(self):
        for words, side in ((("saved", "builtin:explicit"), "A"), (("builtin:explicit", "saved"), "B")):
            done = self.attest("compare", *words, *self.options, "--json", "report.json")
            self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
            self.assertRegex(done.stdout, r"held     saved/right.npz\n")
            self.assertRegex(done.stdout, rf"differs  saved/wrong.npz\n.*{side} is outside its own bound\n")
            report = json.loads((self.cwd / "report.json").read_text())
            self.assertEqual([call["verdict"] for call in report["calls"]], ["pass", "fail"])
            self.assertEqual((report["saved"], report["exit"]), (side, 1))

    def test_what_is_saved_right_holds(self):
        (self.cwd / "saved/wrong.npz").unlink()
        done = self.attest("compare", "saved", "builtin:explicit", *self.options)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("1 saved calls: 1 held", done.stdout)

    def test_inputs_and_outputs_in_files_of_their_own(self):
        folder = self.cwd / "pairs"
        folder.mkdir()
        call = saved_tensors.Call()
        saved_tensors.write_polygraphy_inputs(folder / "a.inputs.json", call.arrays())
        saved_tensors.write_polygraphy_outputs(folder / "a.outputs.json", mine={"out": call.out_in_single()})
        saved_tensors.write_npz(folder / "b.inputs.npz", **call.arrays())
        saved_tensors.write_npz(folder / "b.outputs.npz", out=call.out(scale=1))
        done = self.attest("compare", "builtin:fused", "pairs", "--policy", "f32")
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertRegex(done.stdout, r"held     pairs/a.inputs.json\ndiffers  pairs/b.inputs.npz\n")

    def test_bad_input(self):
        self.refused("compare", "saved", "saved", says=["folders"])
        self.refused("compare", "saved", "builtin:fused", says=["--policy"])
        self.refused("compare", "saved", "builtin:fused", "--policy", "f32", "--seed", 3, says=["--seed"])
        (self.cwd / "empty").mkdir()
        self.refused("compare", "empty", "builtin:fused", "--policy", "f32", says=["NAME.npz"])
        (self.cwd / "saved/x.inputs.npz").write_bytes(b"x")
        self.refused("compare", "saved", "builtin:fused", *self.options, says=["x.outputs.npz"])
        (self.cwd / "saved/x.inputs.npz").unlink()
        (self.cwd / "saved/wrong.npz").write_bytes(b"nonsense")
        done = self.refused("compare", "saved", "builtin:fused", *self.options, says=["wrong.npz"])
        self.assertIn("1 held", done.stdout)


if __name__ == "__main__":
    run()
