#!/usr/bin/env python3
"""attest.check() in anybody's test: what it returns, raises and says, of functions in files, in packages and of text.

Usage: test_check.py ATTEST [unittest option...]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import ROOT as SOURCE, need

KERNEL = """
import numpy as np

def attention(q, k, v, scale):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)
"""
SUBJECTS = """
import attest
from {where} import attention

@attest.subject(dtypes=["float32"], contract={{"policy": "f32"}})
def right(q, k, v, *, scale):
    return attention(q, k, v, scale)

@attest.subject(name="renamed", dtypes=["float32"], contract={{"policy": "f32"}})
def wrong(q, k, v, *, scale):
    return attention(q, k, v, 1)

def plain(q, k, v, *, scale):
    return attention(q, k, v, scale)

def plain_wrong(q, k, v, *, scale):
    return attention(q, k, v, 1)

@attest.subject
def dies(q, k, v, *, scale):
    import os
    os.abort()

def helper(q, extra):
    return q

class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def kernel(self, q, k, v, *, scale):
        return attention(q, k, v, scale * self.factor)

def make(factor, declare):
    helper = lambda scale: scale * factor

    @declare
    def inner(q, k, v, *, scale):
        return attention(q, k, v, helper(scale)) if factor else inner(q, k, v)  # itself in its closure
    return inner

def with_factor(q, k, v, factor, *, scale):
    return attention(q, k, v, scale * factor)

def by_keyword(q, k, v, *, scale, factor=2):
    return attention(q, k, v, scale * factor)
"""


class Check(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        (cls.folder / "home_kernel.py").write_text(KERNEL)
        (cls.folder / "home_subjects.py").write_text(SUBJECTS.format(where="home_kernel"))
        package = cls.folder / "home_package" / "inner"
        package.mkdir(parents=True)
        for each in (package.parent, package):
            (each / "__init__.py").write_text("")
        (package.parent / "kernel.py").write_text(KERNEL)
        (package / "subjects.py").write_text(SUBJECTS.format(where="..kernel"))
        sys.path.insert(0, str(cls.folder))
        import home_package.inner.subjects as packaged
        import home_subjects as loose
        cls.loose, cls.packaged = loose, packaged

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_what_holds_gives_its_report(self):
        for module in (self.loose, self.packaged):  # the latter imports relative to its package
            report = attest.check(module.right, cases=60)
            self.assertEqual((report["exit"], report["cases"], report["seed"]), (0, 60, 1))
            self.assertTrue(report["policy_declared"])
            self.assertGreater(report["elements"], 0)

    def test_what_fails_raises_what_the_terminal_shows(self):
        for module in (self.loose, self.packaged):
            with self.assertRaises(AssertionError) as caught:
                attest.check(module.wrong, cases=60, property="policy-bound")
            self.assertIsInstance(caught.exception, attest.Failure)
            text = str(caught.exception)
            for words in ("where", "witness", "rerun      attest check", ":renamed --property policy-bound --problem"):
                self.assertIn(words, text)
            self.assertEqual(caught.exception.report["exit"], 1)
            self.assertIn(caught.exception.report["findings"][0]["problem"], text)

    def test_the_same_seed_draws_the_same(self):
        def problem(seed):
            with self.assertRaises(attest.Failure) as caught:
                attest.check(self.loose.wrong, cases=60, seed=seed)
            return caught.exception.report["findings"][0]["original"]
        self.assertEqual(problem(5), problem(5))
        self.assertNotEqual(problem(5), problem(6))

    def test_a_function_that_declares_nothing(self):
        report = attest.check(self.loose.plain, cases=40)
        self.assertFalse(report["policy_declared"])
        with self.assertRaises(attest.Failure):
            attest.check(self.packaged.plain_wrong, cases=40)
        with self.assertRaisesRegex(attest.NotTested, "must take q, k, v first") as caught:
            attest.check(self.loose.helper, cases=5)
        self.assertEqual(caught.exception.status, 4)

    def test_a_death_is_a_failure_and_not_the_end_of_the_test(self):
        with self.assertRaisesRegex(attest.Failure, "SIGABRT"):
            attest.check(self.loose.dies, cases=5)

    def test_functions_without_a_name_at_the_top_level(self):
        from functools import partial
        module = self.loose
        plain, declared = lambda f: f, attest.subject(dtypes=["float32"], contract={"policy": "f32"})
        for made in (lambda factor: module.make(factor, plain), lambda factor: module.make(factor, declared),
                     lambda factor: lambda q, k, v, *, scale: module.attention(q, k, v, scale * factor),
                     lambda factor: partial(module.by_keyword, factor=factor), lambda factor: module.Scaled(factor).kernel):
            report = attest.check(made(1), cases=20)
            self.assertEqual((report["exit"], report["cases"]), (0, 20))
            with self.assertRaises(attest.Failure) as caught:
                attest.check(made(1.5), cases=60, property="policy-bound")
            self.assertRegex(str(caught.exception), r"^policy-bound: out\[")
        self.assertTrue(attest.check(module.make(1, declared), cases=5)["policy_declared"])

    def test_what_a_closure_fails_is_asked_again_in_python(self):
        wrong, corpus = self.loose.make(1.5, lambda f: f), self.folder / "of-closures"
        with self.assertRaises(attest.Failure) as caught:
            attest.check(wrong, cases=60, property="policy-bound")
        again = caught.exception.report["findings"][0]["rerun"]
        self.assertIn(f"rerun      {again}", str(caught.exception))
        self.assertNotIn("function.pickle", str(caught.exception))
        self.assertNotRegex(str(caught.exception), r"/attest-\w+/")
        with self.assertRaises(attest.Failure):
            eval(again, {"attest": attest, "make_inner": wrong})
        for _ in range(2):  # found, and asked first
            with self.assertRaises(attest.Failure) as caught:
                attest.check(wrong, cases=60, property="policy-bound", corpus=corpus)
        self.assertEqual(caught.exception.report["entries"], 1)
        self.assertEqual(attest.check(self.loose.make(1, lambda f: f), cases=5, corpus=corpus)["exit"], 0)

    def test_what_cannot_be_handed_to_another_process_is_told(self):
        import threading
        lock = threading.Lock()
        def holds(q, k, v, *, scale):
            with lock:
                return v
        with self.assertRaisesRegex(ValueError, "holds cannot be handed .*lock.* top level"):
            attest.check(holds)
        with self.assertRaisesRegex(attest.NotTested, "must take q, k, v first"):
            attest.check(len, cases=5)

    def test_a_profile_says_what_a_call_does_not(self):
        home = os.getcwd()
        self.addCleanup(os.chdir, home)
        self.addCleanup(os.environ.pop, "ATTEST_PROFILE", None)
        os.chdir(self.folder)
        self.addCleanup((self.folder / "pyproject.toml").unlink)
        (self.folder / "pyproject.toml").write_text('[project]\nname = "mine"\n[tool.attest]\nseed = 4\n[tool.attest.profiles.ci]\ncases = 7\nseed = 6\n')
        asked = lambda **words: [attest.check("builtin:fused", **words)[key] for key in ("cases", "seed")]
        self.assertEqual(asked(cases=3), [3, 4])
        os.environ["ATTEST_PROFILE"] = "ci"
        self.assertEqual(asked(), [7, 6])
        self.assertEqual(asked(cases=3), [3, 6])
        os.environ["ATTEST_PROFILE"] = "nightly"
        with self.assertRaisesRegex(attest.NotTested, r"profiles\.nightly"):
            attest.check("builtin:fused")

    def test_text_and_paths(self):
        self.assertEqual(attest.check("builtin:fused", cases=30, op="attention", policy="f16", laws=0)["policy"], "f16")
        self.assertEqual(attest.check(self.folder / "home_subjects.py:right", cases=5)["cases"], 5)

    def test_no_verdict_is_no_failure(self):
        for words, status, says in (({"property": "no-such-law"}, 2, "no-such-law"), ({"seed": -1}, 2, "seed"),
                                    ({"property": "window-mask"}, 5, "no property applied to any")):
            with self.assertRaisesRegex(attest.NotTested, says) as caught:
                attest.check(self.loose.right, cases=5, **words)
            self.assertEqual(caught.exception.status, status)
        with self.assertRaises(attest.NotTested) as caught:
            attest.check("./no-such-kernel.so")
        self.assertEqual(caught.exception.status, 4)

    def test_reproducers_are_kept_where_it_is_asked(self):
        corpus = self.folder / "corpus"
        with self.assertRaises(attest.Failure):
            attest.check(self.loose.wrong, cases=30, corpus=corpus)
        self.assertTrue(list(corpus.rglob("*.json")))

    def test_the_first_line_is_the_wrong_element_in_words(self):
        for subject, says in ((self.loose.wrong, r"^policy-bound: out\[\d,\d,\d,\d\] is \S+, where a correct kernel gives \S+ to \S+"),
                              (self.loose.dies, r"^guards: the worker was killed by SIGABRT")):
            with self.assertRaises(attest.Failure) as caught:
                attest.check(subject, cases=60, property="policy-bound" if subject is self.loose.wrong else None)
            self.assertRegex(str(caught.exception), says)

    def test_a_report_prints_what_the_terminal_shows(self):
        report = attest.check(self.loose.right, cases=20)
        self.assertIsInstance(report, dict)
        self.assertIn("20 problems", repr(report))

    def test_one_problem(self):
        problem = "op=attention b=1 hq=1 hkv=1 lq=3 lk=5 d=8 dv=8 dtype=f32 values=normal:1 seed=7"
        self.assertEqual(attest.check(self.loose.right, problem=problem)["cases"], 1)
        with self.assertRaises(attest.Failure) as caught:
            attest.check(self.loose.wrong, problem=problem, property="policy-bound")
        self.assertEqual(caught.exception.report["cases"], 1)
        with self.assertRaises(attest.NotTested) as caught:
            attest.check(self.loose.right, problem="b=1 lq=many")
        self.assertEqual(caught.exception.status, 2)

    def test_what_the_corpus_holds_is_asked_first(self):
        corpus = self.folder / "asked-first"
        for subject in (self.loose.wrong, self.loose.plain_wrong):  # two subjects share a corpus
            with self.assertRaises(attest.Failure):
                attest.check(subject, cases=60, property="policy-bound", corpus=corpus)
        (corpus / "a-note.json").write_text("[]")
        for words in ({}, {"property": "policy-*"}, {"op": "attention"}):
            with self.assertRaises(attest.Failure) as caught:
                attest.check(self.loose.wrong, cases=1, corpus=corpus, **words)
            text = str(caught.exception)
            self.assertEqual(caught.exception.report["entries"], 1, text)
            self.assertRegex(text, r"^policy-bound: out\[0,0,0,0\] is")
            self.assertIn("rerun        attest replay --expect-pass", text)
        self.assertEqual(attest.check(self.loose.right, cases=5, corpus=corpus)["cases"], 5)  # none of its own
        (corpus / "a-note.json").unlink()
        # A law that is not asked, and failures that are known, do not fail the check.
        self.assertEqual(attest.check(self.loose.wrong, cases=5, corpus=corpus, property="guards")["cases"], 5)
        self.assertEqual(attest.check(self.loose.wrong, cases=10, corpus=corpus, known=corpus, property="policy-bound")["exit"], 0)

    def test_version_and_names(self):
        self.assertRegex(attest.__version__, r"^\d+\.\d+\.\d+$")
        self.assertLessEqual({"check", "judge", "bound", "explain", "replay", "subject", "Failure", "__version__"}, set(dir(attest)))
        for name in attest.__all__:
            self.assertTrue(hasattr(attest, name), name)
        self.assertFalse(hasattr(attest, "no_such_name"))

    def test_further_words(self):
        with self.assertRaises(attest.Failure) as caught:
            attest.check(self.loose.wrong, cases=60, arguments=["--assume", "lk==3"])
        self.assertIn("lk=3", caught.exception.report["findings"][0]["original"])

    def test_without_the_program_it_says_so(self):
        named, path = os.environ.pop("ATTEST_PROGRAM"), os.environ["PATH"]
        os.environ["PATH"] = str(self.folder)
        try:
            with self.assertRaisesRegex(FileNotFoundError, "ATTEST_PROGRAM"):
                attest.check("builtin:fused")
            vars(attest).pop("__version__", None)
            with self.assertRaisesRegex(AttributeError, "ATTEST_PROGRAM"):
                attest.__version__
        finally:
            os.environ["ATTEST_PROGRAM"], os.environ["PATH"] = named, path


class OtherDistribution(unittest.TestCase):
    """`attest` on PyPI is another project, whose module has the same name."""

    def asked(self, files):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            shutil.copytree(SOURCE / "subjects/python/attest", site / "attest")
            info = site / "attest-0.5.3.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: attest\nVersion: 0.5.3\n")
            (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
            return subprocess.run([sys.executable, "-c", "from attest.program import main; main()", "list", "ops"], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(site)}, timeout=60)

    def test_of_one_folder_is_named(self):
        done = self.asked(["attest/__init__.py", "attest/assertions.py"])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"^attest: the distribution attest 0\.5\.3 lies in the same folder, .*`pip uninstall attest`")

    def test_elsewhere_is_no_harm(self):
        self.assertEqual(self.asked(["elsewhere/__init__.py"]).returncode, 0)


if __name__ == "__main__":
    need("numpy", "install it")
    os.environ["ATTEST_PROGRAM"] = sys.argv.pop(1)
    import attest
    unittest.main()
