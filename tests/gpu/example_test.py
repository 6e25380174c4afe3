#!/usr/bin/env python3
"""examples/cuda where there is no GPU: compiled for the host by host/bin/nvcc, it holds, and its planted faults are found.

Usage: example_test.py ATTEST CLASS [unittest option...]
"""
import json
import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from faults import FAULTS, KERNEL, planted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ATTEST = None
ON_HOST = {**os.environ, "PATH": f"{HERE}/host/bin:{os.environ['PATH']}"}
# Problems that this host, whose every exchange between threads is a call, does in seconds.
SMALL = "b*hq<=32 && lq<=64 && lk<=200"


class Built(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def build(self, name, kernel):
        """The plug-in with that kernel, by the command that its head prints."""
        source = self.folder / f"{name}.cu"
        source.write_text(kernel)
        library = self.folder / f"{name}.so"
        command = ["nvcc", "-std=c++17", "-O3", "-arch=native", "-Xcompiler", "-fPIC", "-shared", "-I", ROOT / "include",
                   "-I", ROOT / "examples/cuda", "-o", library, ROOT / "examples/cuda/plugin.cu", source]
        done = subprocess.run([*map(str, command)], env=ON_HOST, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return library

    def asked(self, subject, *words):
        """The report of `attest check`, which ends with 0 or 1."""
        done = subprocess.run([ATTEST, "check", *map(str, (subject, *words)), "--json", "-"], cwd=self.folder, capture_output=True,
                              text=True, timeout=500)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)


class Clean(Built):
    def test_holds(self):
        library = self.build("clean", KERNEL.read_text())
        for subject, cases in (("fused", 150), ("tf32", 40)):
            report = self.asked(f"{library}:{subject}", "--cases", cases, "--assume", SMALL)
            self.assertEqual(report["findings"], [], subject)
            self.assertGreater(report["judged"], 0.9 * cases, subject)
        far = self.asked(f"{library}:far", "--cases", 3, "--assume", SMALL + " && v_layout==far")
        self.assertEqual((far["findings"], far["judged"]), ([], 3))

    def test_a_wrong_one_does_not(self):
        fault = next(fault for fault in FAULTS if fault.name == "split-count")
        report = self.asked(f"{self.build('wrong', planted(fault))}:fused", "--cases", 100, "--assume", SMALL)
        self.assertTrue(report["findings"])


class Faults(Built):
    def test_each_is_one_place(self):
        for fault in FAULTS:
            self.assertNotEqual(planted(fault), KERNEL.read_text())


class Found(Built):
    """Each fault, but the one that takes a device's memory to show."""

    def test_each_is_found(self):
        for fault in FAULTS:
            with self.subTest(fault.name):
                where = {"batch-limit": "b>65535", "misaligned-loads": SMALL + " && (d==4 || d==8 || d==16 || d==32 || d==64)"}.get(fault.name, SMALL)
                library = self.build(fault.name, planted(fault))
                words = ("--cases", 5, "--assume", SMALL + " && v_layout==far") if fault.subject == "far" else \
                    ("--cases", 400, "--assume", where)
                report = self.asked(f"{library}:{fault.subject}", *words, "--shrink-budget", 20)
                self.assertTrue(report["findings"])
                if fault.name == "wrong-stream":
                    self.assertIn("does-not", report["findings"][0]["bucket"])


class Script(Built):
    def test_says_what_is_missing(self):
        done = subprocess.run([sys.executable, HERE / "run.py", self.folder / "none"], capture_output=True, text=True,
                              env={"PATH": "/nowhere", "ATTEST": ATTEST})
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("nvcc is not here", done.stderr)

    def test_runs(self):
        done = subprocess.run([sys.executable, HERE / "run.py", self.folder / "run", "--time", "10", "--elements", "1000", "--calls", "20",
                               "--only", "growth,clean", "--assume", SMALL], capture_output=True, text=True,
                              env={**ON_HOST, "ATTEST": ATTEST}, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for word in ("f16", "bf16", "f32", "tf32", "no memory was taken", "all as it should be"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    if platform.machine() != "x86_64":
        print("skipped: the host's fibres are written for x86-64 alone", file=sys.stderr)
        sys.exit(125)
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
