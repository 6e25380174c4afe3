#!/usr/bin/env python3
"""Plug-ins and scripts on the command line: right ones, wrong ones, and those that die or hang.

Usage: subjects_test.py ATTEST [unittest option...]
"""
import json
import os
import shutil
import subprocess

from command_line import ROOT, Cli, run


class Subjects(Cli):
    """Plug-ins and scripts, by the commands that the documents and examples give."""

    def plugin(self):
        source = ROOT / "examples/attention_plugin.c"
        subprocess.run(["cc", "-std=c11", "-O2", "-fPIC", "-shared", "-I", ROOT / "include", source, "-o",
                        self.cwd / "attention_plugin.so", "-lm"], check=True)

    def python_with_numpy(self):
        python = os.environ.get("ATTEST_PYTHON", "python3")
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest(f"{python} has no numpy")
        return python

    def test_a_right_plugin_holds_and_a_wrong_one_is_found(self):
        self.plugin()
        for words in ((), ("--in-process",)):
            right = self.attest("check", "./attention_plugin.so:plain", "--cases", 150, *words)
            self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        wrong = self.attest("check", "./attention_plugin.so:forgets-scale", "-v", "--corpus", "corpus")
        self.assertEqual(wrong.returncode, 1, wrong.stdout + wrong.stderr)
        self.assertIn("1-minimal", wrong.stdout)
        replayed = self.attest("replay", "corpus", "--subject", "./attention_plugin.so:forgets-scale")
        self.assertEqual(replayed.returncode, 0, replayed.stdout)
        found = self.attest("replay", "corpus")
        self.assertEqual(found.returncode, 0, "what was run by name runs again: " + found.stdout)
        shutil.rmtree(self.cwd / "state")
        refused = self.attest("replay", "corpus")
        self.assertEqual(refused.returncode, 4, "a file starts nothing: " + refused.stdout)
        self.refused("check", "./attention_plugin.so", says=["plain", "forgets-scale"])

    def test_a_subject_that_dies_now_and_then_ends_with_its_summary(self):
        (self.cwd / "dies.py").write_text(
            "import os, attest\n"
            "calls = 0\n"
            "@attest.subject(dtypes=['float32'])\n"
            "def kernel(q, k, v, *, scale):\n"
            "    global calls\n"
            "    calls += 1\n"
            "    if calls % 100 == 0: os.kill(os.getpid(), 11)\n"
            "    s = scale * q @ k.swapaxes(-1, -2)\n"
            "    w = __import__('numpy').exp(s - s.max(-1, keepdims=True))\n"
            "    return w / w.sum(-1, keepdims=True) @ v\n")
        # More workers would keep each from its hundredth call.
        done = self.attest("check", "dies.py", "--cases", 300, "--jobs", 2, "--continue-after-failure", "--python",
                           self.python_with_numpy(), "--json", "out.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        summary = json.loads((self.cwd / "out.json").read_text())
        self.assertEqual(summary["cases"], 300)
        kinds = {kind for counts in summary["verdicts"].values() for kind in counts if counts[kind]}
        self.assertTrue(kinds & {"crash", "flaky"}, kinds)
        self.assertIn("SIGSEGV", done.stdout)

    def test_a_subject_that_hangs_is_a_timeout(self):
        (self.cwd / "hangs.py").write_text(
            "import time, attest\n"
            "@attest.subject(dtypes=['float32'])\n"
            "def kernel(q, k, v, *, scale):\n"
            "    time.sleep(60)\n")
        done = self.attest("check", "hangs.py", "--cases", 3, "--timeout", "0.2s", "--shrink-budget", 3, "--python",
                           self.python_with_numpy())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("timeout", done.stdout)

    def test_plans_are_kept_and_take_no_part_of_the_time_limit(self):
        (self.cwd / "plans.py").write_text(
            "import time, attest, numpy as np\n"
            "plans = set()\n"
            "@attest.subject(dtypes=['float32'], plan_ms=300, warm_up_ms=400)\n"
            "def kernel(q, k, v, *, scale):\n"
            "    time.sleep(0.4 if not plans else 0)\n"
            "    plan = (q.shape, k.shape, v.shape, q.strides, k.strides, v.strides, scale)\n"
            "    time.sleep(0 if plan in plans else 0.3)\n"
            "    plans.add(plan)\n"
            "    s = np.float32(scale) * q @ k.swapaxes(-1, -2)\n"
            "    w = np.exp(s - s.max(-1, keepdims=True))\n"
            "    return w / w.sum(-1, keepdims=True) @ v\n")
        words = ["check", "plans.py", "--cases", 24, "--laws", 0, "--jobs", 1, "--timeout", "0.1s", "--json", "out.json",
                 "--python", self.python_with_numpy()]
        done = self.attest(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = json.loads((self.cwd / "out.json").read_text())
        self.assertEqual(summary["slow"], 0)
        self.assertGreater(summary["repeat"], 1)
        self.assertIn(f"each plan for {summary['repeat']} problems", done.stdout)
        kept = summary["seconds_in"]["subject"]
        self.attest(*words, "--repeat", 1)
        summary = json.loads((self.cwd / "out.json").read_text())
        self.assertEqual(summary["repeat"], 1)
        self.assertGreater(summary["seconds_in"]["subject"], 2 * kept)

    def test_the_python_example(self):
        python = self.python_with_numpy()
        example = ROOT / "examples/attention_subject.py"
        for name, status in (("plain", 0), ("forgets_scale", 1)):
            done = self.attest("check", f"{example}:{name}", "--cases", 200, "--python", python)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)


if __name__ == "__main__":
    run()
