"""A folder to run attest in, and what its answers must look like."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Cli(unittest.TestCase):
    program = None  # the attest under test

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cwd = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def attest(self, *words, params=None, timeout=600):
        folders = {f"XDG_{kind}_HOME": str(self.cwd / kind.lower()) for kind in ("STATE", "CACHE")}
        env = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"} | folders
        if params is not None:
            env["ATTEST_PARAMS"] = params
        return subprocess.run([self.program, *map(str, words)], cwd=self.cwd, env=env, capture_output=True, text=True,
                              timeout=timeout)

    def refused(self, *words, status=2, says=(), params=None):
        """The command ends with `status` and one short sentence on stderr that says all of `says`."""
        done = self.attest(*words, params=params)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        self.assertTrue(done.stderr.startswith("attest: "), done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 8, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        return done

    def reproducer(self, fault="scale-twice"):
        done = self.attest("check", f"fault:{fault}", "--cases", 300, "--jobs", 1, "--corpus", "corpus")
        self.assertEqual(done.returncode, 1, done.stderr)
        return next(self.cwd.glob("corpus/*/*.json"))


class Aloud(unittest.TextTestResult):
    """Says what is skipped, and why."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"skipped: {test.id()}: {reason}", flush=True)


class Runner(unittest.TextTestRunner):
    resultclass = Aloud


def run():
    """The tests of the main program, whose first argument is the attest to test."""
    Cli.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(testRunner=Runner)
