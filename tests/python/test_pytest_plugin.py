#!/usr/bin/env python3
"""pytest --attest: a test for each law of each subject, one campaign of one process, one red test for a defect; with and without pytest-xdist.

Usage: test_pytest_plugin.py ATTEST [unittest option...]
"""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from need_package import need

SOURCE = Path(__file__).resolve().parents[2]
KERNELS = '''
import attest
import numpy as np

print("a script may print")
with open(__file__ + ".imports", "a") as log:
    log.write(__name__ + " ")

def attention(q, k, v, scale):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)

@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def right(q, k, v, *, scale):
    return attention(q, k, v, scale)

@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def wrong(q, k, v, *, scale):
    return attention(q, k, v, 1)
'''
TWO_DEFECTS = KERNELS + '''
@attest.subject(dtypes=["float32"], contract={"policy": "f32"}, supports={"align": ["top_left"]})
def twice_wrong(q, k, v, *, scale, causal=False):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale if causal else 1)
    if causal:  # off by one
        s = np.where(np.tri(*s.shape[-2:], k=1, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)
'''
LAWS = ("guards", "policy-bound", "window-mask")
ATTEST = None


class Plugin(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def write(self, **files):
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)

    def imports(self, name="kernels"):
        """How often processes have imported a script since the last time."""
        log = self.folder / f"{name}.py.imports"
        count = len(log.read_text().split()) if log.is_file() else 0
        log.unlink(missing_ok=True)
        return count

    def pytest(self, *words, cache=("-p", "no:cacheprovider"), where="."):
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        env |= {"ATTEST_PROGRAM": ATTEST, "PYTHONPATH": str(SOURCE / "subjects/python"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "attest.pytest_plugin", *cache, "--basetemp",
                               self.folder / "temporary", "--junitxml", self.folder / "junit.xml", "-rA", *map(str, words), where],
                              cwd=self.folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.output = done.stdout
        return done.returncode

    def results(self):
        """Test -> what JUnit's file says of it."""
        said = {}
        for case in ElementTree.parse(self.folder / "junit.xml").iter("testcase"):
            outcome = [child.tag for child in case if child.tag in ("failure", "error", "skipped")] or ["passed"]
            said[f"{case.get('classname')}::{case.get('name')}"] = outcome[0]
        return said

    def test_a_test_for_each_law_of_each_subject(self):
        self.write(kernels=KERNELS, other="import kernels\n# attest.subject: declares none of its own\n")
        laws = [law["name"] for law in json.loads(subprocess.run([ATTEST, "list", "properties", "--json", "-"], check=True,
                                                                 capture_output=True).stdout) if law["kind"] != "statistical"]
        self.assertEqual(self.pytest("--attest", "--collect-only", "-q"), 0, self.output)
        found = re.findall(r"^kernels.py::(\w+)::(\S+)$", self.output, re.MULTILINE)
        self.assertEqual(found, [(subject, law) for subject in ("right", "wrong") for law in laws])

        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "-k", "policy-bound or guards or window-mask"), 1, self.output)
        self.assertEqual(self.results(), {
            f"kernels.{subject}::{law}": "failure" if (subject, law) == ("wrong", "policy-bound") else
            "skipped" if law == "window-mask" else "passed" for subject in ("right", "wrong") for law in LAWS})
        self.assertIn("attest: seed 1, 20 problems for each subject", self.output)
        self.assertRegex(self.output, r"\n_+ policy-bound _+\npolicy-bound: out\[\d,\d,\d,\d\] is \S+, where a correct kernel gives \S+ to \S+")
        self.assertRegex(self.output, r"FAILED kernels.py::wrong::policy-bound - policy-bound: out\[")
        self.assertRegex(self.output, r"\n  rerun +attest check \S+kernels.py:wrong --property policy-bound --problem 'op=")
        self.assertIn("SKIPPED [2]", self.output)
        self.assertIn("it judged nothing: neither causal nor a window", self.output)
        self.assertNotIn("Traceback", self.output)
        properties = {p.get("name"): p.get("value") for p in ElementTree.parse(self.folder / "junit.xml").iter("property")}
        self.assertEqual(properties["attest seed"], "1")

    def test_one_defect_is_one_failure_that_names_the_other_laws(self):
        self.write(kernels=KERNELS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 60, "-k", "wrong"), 1, self.output)
        failed = [name for name, outcome in self.results().items() if outcome == "failure"]
        self.assertEqual(len(failed), 1, self.output)
        law = failed[0].rpartition("::")[2]
        seen = re.search(r"\n  seen by +(.*), too\n", self.output)[1].split(", ")
        self.assertGreater(len(seen), 3)
        self.assertIn(f"SKIPPED [{len(seen)}]", self.output)
        self.assertIn(f"it saw a defect that {law} tells", self.output)
        self.assertNotIn(law, seen)

    def test_two_defects_are_two_failures(self):
        self.write(kernels=TWO_DEFECTS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 100, "-k", "twice_wrong and policy-bound"), 1, self.output)
        self.assertRegex(self.output, r"\n=+ 2 failed")
        told = re.findall(r"^policy-bound: out\[.*\n  problem +(.*)$", self.output, re.MULTILINE)
        self.assertEqual(["causal=1" in problem for problem in sorted(told, key=lambda problem: "causal=1" in problem)], [False, True], self.output)

    def test_a_subject_is_imported_as_often_for_all_laws_as_for_one(self):
        self.write(kernels=KERNELS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "right and guards"), 0, self.output)
        for_one = self.imports()
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "right"), 0, self.output)
        self.assertLessEqual(self.imports(), for_one)
        self.assertEqual(for_one, 1)  # by the process that jobs are forked from
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "right and guards", where="kernels.py"), 0, self.output)
        self.assertEqual(self.imports(), 1)  # pytest itself does not import a file that is named
        self.write(kernels=KERNELS + "\ndef test_mine():\n    pass\n")
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "(right and guards) or test_mine", where="kernels.py"), 0, self.output)
        self.assertEqual(self.results(), {"kernels.right::guards": "passed", "kernels::test_mine": "passed"})

    def test_traceback_styles_and_options_of_pytest(self):
        self.write(kernels=KERNELS, test_mine=KERNELS + "\ndef test_wrong():\n    attest.check(wrong, cases=20)\n")
        line = KERNELS.count("\n", 0, KERNELS.index("@attest.subject", KERNELS.index("def right"))) + 1
        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "--tb=line", "-k", "kernels and wrong and policy-bound"), 1, self.output)
        self.assertRegex(self.output, rf"\n\S*kernels.py:{line}: policy-bound: out\[.*\n-")
        self.assertNotIn("looks like", self.output)
        mine = KERNELS.count("\n") + 3  # attest.check() is no part of the traceback
        self.assertEqual(self.pytest("--tb=short", "-k", "test_wrong"), 1, self.output)
        self.assertNotIn("checking.py", self.output)
        self.assertRegex(self.output, rf"test_mine.py:{mine}: in test_wrong\n    attest.check\(wrong, cases=20\)\nE +attest.Failure: \S+: out\[")
        self.assertEqual(self.pytest("--attest", "--attest-cases", 60, "-x", "-k", "kernels and wrong and not test_wrong"), 1, self.output)
        self.assertEqual([outcome for outcome in self.results().values() if outcome == "failure"], ["failure"])
        self.assertIn("stopping after 1 failures", self.output)

    def test_last_failed(self):
        self.write(kernels=KERNELS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "-k", "policy-bound or guards", cache=()), 1, self.output)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "--lf", cache=()), 1, self.output)
        self.assertEqual(self.results(), {"kernels.wrong::policy-bound": "failure"})

    def test_laws_that_wait_for_a_promise_are_named_in_a_line(self):
        promised = KERNELS.replace('contract={"policy": "f32"}', 'contract={"policy": "f32", "deterministic": "rerun"}')
        for text, waits in ((KERNELS, True), (promised, False)):
            self.write(kernels=text)
            self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "right and (guards or repeat or kept-state)"), 0, self.output)
            self.assertEqual("kernels.py::right: the subject does not claim to be deterministic: kept-state, repeat\n" in self.output, waits, self.output)
            self.assertEqual(self.results()["kernels.right::repeat"], "skipped" if waits else "passed")

    def test_no_verdict_is_one_failure(self):
        self.write(kernels="import attest\n@attest.subject(op='layer_norm')\ndef f(x, *, epsilon):\n    raise attest.Unsupported('not today')\n")
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5), 1, self.output)
        results = list(self.results().values())
        self.assertEqual((results.count("failure"), set(results)), (1, {"failure", "skipped"}), self.output)
        self.assertIn("not today", self.output)
        # Laws that apply and judge nothing are an error, though guards hold.
        self.write(kernels=KERNELS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 3, "-k", "right and (guards or policy-bound)", "--attest-arguments",
                                     "--assume 'values==huge_scores && lk>8 && d>8'"), 1, self.output)
        self.assertEqual(self.results(), {"kernels.right::guards": "passed", "kernels.right::policy-bound": "failure"}, self.output)
        self.assertIn("nothing judged", self.output)

    def test_one_test_alone_as_the_summary_names_it(self):
        self.write(kernels=KERNELS)
        done = self.pytest("--attest", "--attest-cases", 20, "--deselect", "kernels.py::right", "kernels.py::wrong::guards")
        self.assertEqual(done, 1, self.output)
        self.write(kernels=KERNELS)
        env = {**os.environ, "ATTEST_PROGRAM": ATTEST, "PYTHONPATH": str(SOURCE / "subjects/python"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        alone = subprocess.run([sys.executable, "-m", "pytest", "-p", "attest.pytest_plugin", "--attest", "-q", "-p",
                                "no:cacheprovider", "kernels.py::wrong::guards"], cwd=self.folder, env=env, capture_output=True, text=True)
        self.assertEqual(alone.returncode, 0, alone.stdout)
        self.assertIn("1 passed", alone.stdout)

    def test_without_the_option_nothing_is_collected(self):
        self.write(kernels=KERNELS, test_mine=KERNELS + "\ndef test_mine():\n    pass\n")
        self.assertEqual(self.pytest(), 0, self.output)
        self.assertEqual(self.results(), {"test_mine::test_mine": "passed"})

    def test_a_test_file_keeps_its_own_tests(self):
        self.write(test_mine=KERNELS + "\ndef test_mine():\n    attest.check(right, cases=20)\n"
                                       "\ndef test_wrong():\n    attest.check(wrong, cases=20)\n")
        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "--attest-property", "guards"), 1, self.output)
        self.assertEqual(self.results(), {"test_mine::test_mine": "passed", "test_mine::test_wrong": "failure",
                                          "test_mine.right::guards": "passed", "test_mine.wrong::guards": "passed"})

    def test_files_that_cannot_be_imported(self):
        self.write(broken="import attest\n@attest.subject\ndef f(q, k, v): pass\nimport no_such_module_anywhere\n",
                   dies="import attest, os\n@attest.subject\ndef f(q, k, v): pass\nos._exit(7)\n",
                   elsewhere="import attest\nraise attest.Unsupported('needs a GPU')\n@attest.subject\ndef f(q, k, v): pass\n")
        self.assertEqual(self.pytest("--attest"), 1, self.output)
        self.assertEqual(self.results(), {"broken::import": "failure", "dies::import": "failure", "elsewhere::import": "skipped"})
        for words in ("no_such_module_anywhere", "ended the process with 7", "needs a GPU"):
            self.assertIn(words, self.output)

    def test_what_the_text_of_a_file_does_not_show_is_learned_by_importing_it(self):
        hidden = KERNELS + "\nfor factor in (1, 2):\n    attest.subject(name=f'times_{factor}')(lambda q, k, v: v)\n"
        self.write(kernels=hidden, quiet="import attest\n@attest.subject\ndef f(q, k, v): pass\nattest.no_such_name\n",
                   away="import attest, helper\n@attest.subject\ndef f(q, k, v): pass\n",
                   helper="import attest\ndef need(): raise attest.Unsupported('needs two GPUs')\nneed()\n")
        self.assertEqual(self.pytest("--attest", "--collect-only", "-q", "kernels.py"), 0, self.output)
        self.assertIn("kernels.py::times_2::guards\n", self.output)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "-k", "f and guards"), 1, self.output)
        self.assertEqual(self.results(), {"quiet.f::guards": "failure", "away.f::guards": "skipped"}, self.output)
        for words in ("no_such_name", "needs two GPUs"):
            self.assertIn(words, self.output)

    def test_seeds(self):
        self.write(kernels=KERNELS)
        seeds = set()
        for _ in range(2):
            self.assertEqual(self.pytest("--attest", "--attest-cases", 5, "--attest-seed", "random", "-k", "right and guards"), 0)
            seeds.add(re.search(r"attest: seed (\d+), 5 problems", self.output)[1])
        self.assertEqual(len(seeds), 2)
        for words in (("--attest-seed", "-1"), ("--attest-seed", str(2**64)), ("--attest-cases", "0")):
            self.assertEqual(self.pytest("--attest", *words), 4, self.output)

    def test_profiles(self):
        self.write(kernels=KERNELS, test_mine="import attest, kernels\n\ndef test_mine():\n    print(attest.check(kernels.right)['cases'], 'of ci')\n")
        (self.folder / "pyproject.toml").write_text("[tool.attest.profiles.ci]\ncases = 6\nseed = 9\n")
        self.assertEqual(self.pytest("--attest", "--attest-profile", "ci", "-k", "(right and guards) or test_mine"), 0, self.output)
        self.assertIn("attest: profile ci\n", self.output)
        self.assertIn("6 of ci", self.output)
        properties = {p.get("name"): p.get("value") for p in ElementTree.parse(self.folder / "junit.xml").iter("property")}
        self.assertEqual(properties["attest seed"], "9")
        self.assertEqual(self.pytest("--attest", "--attest-profile", "night", "-k", "right and guards"), 2, self.output)
        self.assertNotIn("Traceback", self.output)
        self.assertNotIn("pytest_plugin.py", self.output)
        self.assertIn("tool.attest.profiles.night", self.output)

    def test_fixtures_and_parametrised_kernels(self):
        self.write(kernels=KERNELS, test_mine="""
import functools
import attest, kernels, pytest

@pytest.fixture
def kernel():
    weights = {"factor": 1}
    def inner(q, k, v, *, scale):
        assert q.ndim == 4, "rewritten by pytest"
        return kernels.attention(q, k, v, scale * weights["factor"])
    return inner

def test_fixture(kernel):
    attest.check(kernel, cases=20)

def scaled(q, k, v, *, scale, factor=1):
    return kernels.attention(q, k, v, scale * factor)

@pytest.mark.parametrize("factor", [1, 1.5])
def test_parametrised(factor):
    attest.check(functools.partial(scaled, factor=factor), cases=60)
""")
        self.assertEqual(self.pytest(), 1, self.output)
        self.assertEqual(self.results(), {"test_mine::test_fixture": "passed", "test_mine::test_parametrised[1]": "passed",
                                          "test_mine::test_parametrised[1.5]": "failure"})
        self.assertRegex(self.output, r"E +rerun +attest.check\(scaled, property=")

    def test_reproducers_are_kept_where_it_is_asked(self):
        self.write(kernels=KERNELS)
        self.assertEqual(self.pytest("--attest", "--attest-cases", 20, "--attest-corpus", self.folder / "kept", "-k", "wrong and policy-bound",
                                     "--attest-arguments", "--assume 'lk==3'"), 1, self.output)
        self.assertEqual(len(list((self.folder / "kept").rglob("*.json"))), 1)

    def test_workers_of_xdist_share_a_campaign_and_a_seed(self):
        if importlib.util.find_spec("xdist") is None:
            self.skipTest("no pytest-xdist here")
        self.write(kernels=KERNELS)
        # The first ten problems of a random seed may all hide a wrong scale: one key, one channel, no key open.
        self.assertEqual(self.pytest("-p", "xdist", "-n", 2, "--attest", "--attest-cases", 100, "--attest-seed", "random",
                                     "--attest-property", "[gphb]*"), 1, self.output)
        results = self.results()
        self.assertEqual(list(results.values()).count("failure"), 1, self.output)
        self.assertEqual(results["kernels.right::policy-bound"], "passed")
        self.assertNotIn("error", results.values())
        self.assertEqual({name for name, outcome in results.items() if outcome == "failure" and ".right::" in name}, set())
        self.assertEqual(len(list((self.folder / "temporary").glob("attest-*.json"))), 2)  # a campaign of each subject
        self.assertLessEqual(self.imports(), 3 * 1 + 2)  # each process of pytest lists, one of them asks a subject


if __name__ == "__main__":
    need("pytest", "install it")
    need("numpy", "install it")
    ATTEST = sys.argv.pop(1)
    unittest.main()
