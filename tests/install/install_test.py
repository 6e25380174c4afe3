#!/usr/bin/env python3
"""attest as its users have it: installed, moved, found by find_package, and run by CTest in projects of their own.

Usage: install_test.py SOURCE BUILD [unittest option...]   BUILD is configured, and its attest built
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SOURCE = BUILD = None
CONSUMER = Path(__file__).resolve().parent / "consumer"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def run(*words, **options):
    """A finished process; both its outputs in .stdout. No setting of the outer test run gets in."""
    env = {k: v for k, v in os.environ.items() if k not in ("ATTEST_PARAMS", "CMAKE_PREFIX_PATH", "MAKEFLAGS")}
    env["CMAKE_GENERATOR"] = "Ninja"  # make may not be here
    return subprocess.run([*map(str, words)], env=env | options.pop("env", {}), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **({"timeout": 600} | options))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        done = run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        assert done.returncode == 0, done.stdout
        cls.prefix = (cls.folder / "first").rename(cls.folder / "a moved prefix")
        cls.attest = cls.prefix / "bin/attest"

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def ok(self, *words, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout[-4000:]}")
        return done.stdout

    def ends(self, status, says, *words):
        done = run(*words, cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout[-4000:]}")
        self.assertIn(says, done.stdout)

    def configure(self, source, build, *options, prefix=None):
        return ["cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix or self.prefix}", *options]

    def project(self, name, text):
        folder = self.folder / name
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.10)\nproject(user LANGUAGES C)\n"
                                               "enable_testing()\n" + text)
        return folder

    def results(self, build, *options):
        """Test name -> what CTest says of it."""
        file = Path(build, "junit.xml")
        self.output = run("ctest", "--test-dir", build, "-j", os.cpu_count(), "--output-junit", file,
                          "--output-on-failure", *options).stdout
        outcome = {"run": PASSED, "fail": FAILED, "notrun": SKIPPED}
        return {case.get("name"): outcome[case.get("status")] for case in ElementTree.parse(file).iter("testcase")}

    def laws(self):
        return {line.split()[0] for line in self.ok(self.attest, "list", "properties").splitlines()}

    def plugin(self):
        """The C example, built as its page says."""
        library = self.folder / "attention_plugin.so"
        if not library.exists():
            self.ok("cc", "-std=c11", "-O2", "-fPIC", "-shared", "-I", self.prefix / "include",
                    self.prefix / "share/doc/attest/examples/attention_plugin.c", "-o", library, "-lm")
        return library


class Prefix(Installed):
    def test_has_all_and_nothing_else(self):
        for file in ("bin/attest", "libexec/attest/attest-plugin-host", "share/attest/python/attest_worker.py",
                     "include/attest/plugin.h", "include/attest/attest.hpp", "include/attest/cuda.hpp", "include/attest/generators.hpp",
                     "share/doc/attest/examples/rapidcheck/my_attention_test.cpp", "share/doc/attest/LICENSE",
                     "share/doc/attest/docs/cpp.md", "share/man/man1/attest-fuzz.1", "share/bash-completion/completions/attest",
                     "share/doc/attest/examples/ctest/CMakeLists.txt"):
            self.assertTrue((self.prefix / file).is_file(), file)
        self.assertEqual({path.name for path in (self.prefix / "include/attest").iterdir()}, {"plugin.h", "attest.hpp", "cuda.hpp", "generators.hpp", "rapidcheck.hpp", "test.hpp"})
        self.assertEqual([], [*self.prefix.rglob("__pycache__")])

    def test_components_are_the_whole(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        self.ok("cmake", "--install", BUILD, "--prefix", whole)
        for component in ("attest-runtime", "attest-development"):
            self.ok("cmake", "--install", BUILD, "--prefix", parts, "--component", component)
        files = [{path.relative_to(root) for path in root.rglob("*")} for root in (whole, parts)]
        self.assertEqual(*files)

    def test_moved_program_finds_its_parts(self):
        plugin = self.plugin()
        self.ends(0, "every property held", self.attest, "check", f"{plugin}:plain", "--cases", 100)
        self.ends(1, "rerun", self.attest, "check", f"{plugin}:forgets-scale", "--cases", 100)
        script = self.prefix / "share/doc/attest/examples/attention_subject.py"
        if run(os.environ.get("ATTEST_PYTHON", "python3"), "-c", "import numpy").returncode == 0:
            self.ends(0, "every property held", self.attest, "check", f"{script}:plain", "--cases", 50)
            self.ends(1, "rerun", self.attest, "check", f"{script}:forgets_scale", "--cases", 50)

    def test_a_part_that_is_missing_is_named_and_no_old_build_stands_in(self):
        broken = self.folder / "broken"
        shutil.copytree(self.prefix, broken)
        (broken / "libexec/attest/attest-plugin-host").unlink()
        self.ends(4, str(broken / "libexec/attest/attest-plugin-host"), broken / "bin/attest", "check",
                  f"{self.plugin()}:plain")


class Consumer(Installed):
    def reproducers(self):
        corpus = self.folder / "reproducers"
        if not corpus.exists():
            # The law asks for no log-sum-exp of its own: the scripts that replay these give none.
            self.ends(1, "rerun", self.attest, "check", f"{self.plugin()}:forgets-scale", "--cases", 100, "--assume",
                      "lse==none", "--property", "policy-bound", "--corpus", corpus)
        return corpus

    def build(self, name, *options):
        build = self.folder / name
        examples = self.prefix / "share/doc/attest/examples"
        self.ok(*self.configure(CONSUMER, build, f"-DEXAMPLES={examples}", f"-DREPRODUCERS={self.reproducers()}", *options))
        self.ok("cmake", "--build", build, "-j", os.cpu_count())
        return build

    def test_c_and_cxx_projects_under_ctest(self):
        build = self.build("gnu")
        laws, results = self.laws(), self.results(build)
        for subject in ("plain", "whole-domain"):
            of_subject = {name.split(".")[1]: outcome for name, outcome in results.items() if name.startswith(subject + ".")}
            self.assertEqual(of_subject.pop("corpus", PASSED), PASSED)
            self.assertEqual(set(of_subject), laws)
            self.assertNotIn(FAILED, of_subject.values(), self.output)
            self.assertEqual(of_subject["policy-bound"], PASSED)
            self.assertEqual(of_subject["guards"], PASSED)
        self.assertEqual(results["plain.corpus"], PASSED)
        for name in ("cxx20:whole-domain.policy-bound", "versioned:plain.guards", "versioned:plain.policy-bound"):
            self.assertEqual(results[name], PASSED, name)
        for name in ("forgets-scale.policy-bound", "cxx17:forgets-scale.policy-bound", "cxx17:declines.policy-bound",
                     "cxx17:throws.policy-bound", "builtin:fused.no-such-law"):
            self.assertEqual(results[name], FAILED, name)
        self.assertEqual(results["builtin:explicit.fused-equals-explicit"], SKIPPED)
        self.assertIn("out of workspace", self.output)
        self.assertIn("no-such-law matches no property", self.output)
        told = self.output.split("attest judged nothing in these tests, which CTest calls skipped:")[1]
        for name in (name for name, outcome in results.items() if outcome == SKIPPED):
            self.assertRegex(told, rf"(?m)^\t\S[^:]* .*[:,] {re.escape(name)}(,|$)")
        self.assertIn("\tthe subject is that explicit kernel: builtin:explicit.fused-equals-explicit\n", told)
        # A project's own file for ctest stays, and may include that of attest.
        own, its = build / "CTestCustom.cmake", build / "attest_tests/CTestCustom.cmake"
        for text in ("# mine\n", f'include("{its}")\n'):
            own.write_text(text)
            self.ok("cmake", build)
            self.assertEqual(own.read_text(), text)
            said = run("ctest", "--test-dir", build, "-R", "builtin:explicit").stdout
            self.assertEqual("attest judged nothing" in said, "include" in text, said)
        self.assertEqual(run("ctest", "--test-dir", build, "-L", "^wrong$").returncode, 8)
        self.assertIn("rerun", self.output)

    def test_a_stored_failure_fails_until_it_is_mended(self):
        plugin, corpus = self.plugin(), self.reproducers()
        self.ends(1, "expected to pass", self.attest, "replay", corpus, "--subject", f"{plugin}:forgets-scale",
                  "--expect-pass")
        self.ends(0, "0 unexpected", self.attest, "replay", corpus, "--subject", f"{plugin}:plain", "--expect-pass")

    def test_what_callables_throw(self):
        plugin = self.build("thrown") / "libcxx17.so"

        def check(name, status, says, *words):
            self.ends(status, says, self.attest, "check", f"{plugin}:{name}", "--cases", 200, "--jobs", 1, *words)
        check("throws", 1, "it threw an exception: out of workspace")
        check("throws-an-int", 1, "it threw something that is no std::exception")
        check("misreads", 1, "a tensor of code 2 and 32 bits is read as a type of code 2 and 16 bits")
        check("unset", 1, "it threw an exception")
        check("declines", 5, "unsupported: not today")
        check("declines-causal", 0, "unsupported: no causal masks here", "-v")
        check("counts-calls", 1, "rerun")
        check("throws", 1, "out of workspace", "--in-process")

    @unittest.skipUnless(shutil.which("clang++"), "no clang here")
    def test_clang(self):
        build = self.build("clang", "-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++")
        done = run("ctest", "--test-dir", build, "-R", "^(plain|whole-domain).policy-bound$")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("out of 2", done.stdout)

    def test_a_c_project_needs_no_cxx(self):
        self.ok(*self.configure(CONSUMER, self.folder / "c-only", "-DWITH_CXX=OFF", "-DCMAKE_CXX_COMPILER=/nonexistent",
                                f"-DEXAMPLES={SOURCE}/examples", f"-DREPRODUCERS={self.reproducers()}"))

    def test_several_configurations(self):
        build = self.folder / "multi"
        self.ok(*self.configure(CONSUMER, build, "-G", "Ninja Multi-Config", "-DWITH_CXX=OFF",
                                f"-DEXAMPLES={SOURCE}/examples", f"-DREPRODUCERS={self.reproducers()}"))
        self.ok("cmake", "--build", build, "--config", "Debug")
        self.assertIn("100% tests passed, 0 tests failed out of 1",
                      self.ok("ctest", "--test-dir", build, "-C", "Debug", "-R", "^plain.policy-bound$"))

    def test_find_package_refuses_what_is_not_there(self):
        for number, (call, says) in enumerate({
                "find_package(attest 9 CONFIG REQUIRED)": "requested version",
                "find_package(attest 0.999 CONFIG REQUIRED)": "requested version",
                "find_package(attest CONFIG REQUIRED COMPONENTS viewer)": "viewer"}.items()):
            done = run(*self.configure(self.project(f"package{number}", call), self.folder / f"package{number}/build"))
            self.assertNotEqual(done.returncode, 0, call)
            self.assertIn(says, done.stdout)

    def test_wrong_calls_are_named(self):
        for number, (call, says) in enumerate({
                "attest_add_property_tests(kernl)": "it is no target of this project",
                "attest_add_property_tests(archive)": "put the kernel's subject into a MODULE library",
                "attest_add_property_tests(k.so CASES 0)": "CASES 0: it must be an integer above 0",
                "attest_add_property_tests(k.so CASES)": "CASES needs a value",
                "attest_add_property_tests(k.so PROPERTY guards)": "'PROPERTY;guards' is not understood",
                "attest_add_property_tests(k.so CORPUS nowhere)": "there is no CORPUS",
                "attest_add_property_tests(k.so SUBJECT a b CORPUS .)": "reproducers of one SUBJECT",
                "attest_add_property_tests(k.so SUBJECT a)\nattest_add_property_tests(l.so SUBJECT a)": "give TEST_PREFIX",
                }.items()):
            text = "find_package(attest CONFIG REQUIRED)\nfile(WRITE ${CMAKE_BINARY_DIR}/a.c \"int a;\")\n" \
                   "add_library(archive STATIC ${CMAKE_BINARY_DIR}/a.c)\n" + call
            done = run(*self.configure(self.project(f"call{number}", text), self.folder / f"call{number}/build"))
            self.assertNotEqual(done.returncode, 0, call)
            self.assertIn(says, " ".join(done.stdout.split()), call)

    def test_scripts_and_a_corpus_that_lies_beside(self):
        python = shutil.which(os.environ.get("ATTEST_PYTHON", "python3"))
        if run(python, "-c", "import numpy").returncode != 0:
            self.skipTest("no numpy here; ATTEST_PYTHON names a Python that has it")
        project = self.project("scripts", f"""
            find_package(attest CONFIG REQUIRED)
            attest_add_property_tests(kernels.py SUBJECT plain forgets_scale PROPERTIES policy-* CASES 50 PYTHON {python})
            """)
        shutil.copy(SOURCE / "examples/attention_subject.py", project / "kernels.py")
        shutil.copytree(self.reproducers(), project / "corpus/plain")
        shutil.copytree(self.reproducers(), project / "corpus/forgets_scale")
        self.ok(*self.configure(project, project / "build"))
        self.assertEqual(self.results(project / "build"), {
            "plain.policy-bound": PASSED, "plain.corpus": PASSED,
            "forgets_scale.policy-bound": FAILED, "forgets_scale.corpus": FAILED}, self.output)

    def test_a_program_that_speaks_the_worker_protocol(self):
        project = self.project("worker", """
            find_package(attest CONFIG REQUIRED)
            add_executable(fake IMPORTED)
            set_target_properties(fake PROPERTIES IMPORTED_LOCATION ${CMAKE_SOURCE_DIR}/fake)
            attest_add_property_tests(fake PROPERTIES guards policy-bound CASES 50
                                      ARGUMENTS --assume "lse==none && out_layout==bhsd")
            """)
        shutil.copy(SOURCE / "tests/subjects/workers/fake.py", project / "fake")
        self.ok(*self.configure(project, project / "build"))
        self.assertEqual(self.results(project / "build"), {"fake.guards": PASSED, "fake.policy-bound": FAILED}, self.output)

    def test_params_for_the_tests_leave_their_names_alone(self):
        project = self.project("params", "find_package(attest CONFIG REQUIRED)\n"
                                         "attest_add_property_tests(builtin:fused PROPERTIES single-* CASES 20 TEST_PREFIX p:)\n")
        self.ok(*self.configure(project, project / "build"))
        done = run("ctest", "--test-dir", project / "build", env={"ATTEST_PARAMS": "timeout=20s"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"p:builtin:fused\.single-key \.+ +Passed")
        done = run("ctest", "--test-dir", project / "build", "-V", env={"ATTEST_PARAMS": "timeouts=20s"})
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("no key 'timeouts'", done.stdout)

    def test_a_program_that_gives_no_answer_is_told(self):
        prefix = self.folder / "dumb"
        shutil.copytree(self.prefix, prefix)
        project = self.project("no-answer", "find_package(attest CONFIG REQUIRED)\n"
                                            "attest_add_property_tests(kernel.so PROPERTIES scale-*)\n")
        self.ok(*self.configure(project, project / "build", prefix=prefix))
        (prefix / "bin/attest").write_text("#!/bin/sh\n[ $1 = check ] || { echo not today >&2; exit 9; }\n")
        done = run("ctest", "--test-dir", project / "build")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("ended with 9: not today", " ".join(done.stdout.split()))

    def test_without_the_program_nothing_passes(self):
        prefix = self.folder / "without"
        shutil.copytree(self.prefix, prefix)
        project = self.project("without-attest", "find_package(attest CONFIG REQUIRED)\n"
                                                 "attest_add_property_tests(kernel.so PROPERTIES scale-* guards)\n")
        self.ok(*self.configure(project, project / "build", prefix=prefix))
        (prefix / "bin/attest").unlink()
        done = run("ctest", "--test-dir", project / "build")
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("0% tests passed, 2 tests failed out of 2", done.stdout)

    def test_files_that_are_not_there_fail_as_tests(self):
        project = self.project("late", "find_package(attest CONFIG REQUIRED)\n"
                                       "attest_add_property_tests(missing.so PROPERTIES guards)\n"
                                       "attest_add_property_tests(missing.py PROPERTIES guards TEST_PREFIX py:)\n")
        self.ok(*self.configure(project, project / "build"))
        self.assertEqual(self.results(project / "build"), {"missing.guards": FAILED, "py:missing.guards": FAILED})
        self.assertIn("there is no file", self.output)


class Example(Installed):
    """examples/ctest, as its README prints it."""

    def test_with_attest_installed(self):
        for subject, options, failed in (("plain", [], []), ("forgets-scale", ["-R", "policy-bound"], ["forgets-scale.policy-bound"])):
            build = self.folder / subject
            self.ok(*self.configure(SOURCE / "examples/ctest", build, f"-DSUBJECT={subject}"))
            self.ok("cmake", "--build", build)
            results = self.results(build, *options)
            self.assertEqual([name for name, outcome in results.items() if outcome == FAILED], failed, self.output)
            if not failed:
                self.assertEqual(results["plain.policy-bound"], PASSED)
                self.assertEqual({name.split(".")[1] for name in results}, self.laws())


class Generators(Installed):
    """attest::generators, from the moved prefix: examples/rapidcheck as its README prints it, and the header without RapidCheck."""

    def test_rapidcheck_draws_and_shrinks(self):
        build = self.folder / "rapidcheck"
        flags = "-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wpedantic -Werror"
        self.ok(*self.configure(self.prefix / "share/doc/attest/examples/rapidcheck", build, f"-DCMAKE_CXX_FLAGS={flags}"))
        self.ok("cmake", "--build", build)
        self.assertEqual(self.results(build), {"right": PASSED, "forgets-scale": FAILED}, self.output)
        line = re.search(r"^op=attention .*$", self.output, re.MULTILINE)[0]
        self.assertIn("b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1", line)
        # The line is a problem for attest, too.
        self.ok(self.attest, "check", "builtin:fused", "--problem", line)

    def test_without_rapidcheck(self):
        folder = self.folder / "plain"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.10)\nproject(user LANGUAGES CXX)\nfind_package(attest CONFIG REQUIRED)\n"
                                               "add_executable(lines lines.cpp)\ntarget_link_libraries(lines PRIVATE attest::generators)\n")
        (folder / "lines.cpp").write_text("""#include <attest/generators.hpp>
#include <iostream>
#include <stdexcept>
int main() {
  const attest::generators::Domain domain(R"({"ops":["layer_norm"], "dtypes":["f32"]})");
  for (int i = 0; i < 5; ++i) std::cout << attest::generators::draw(domain, 3, static_cast<std::uint64_t>(i)) << "\\n";
  try {
    attest::generators::Domain("{");
  } catch (const std::invalid_argument& error) {
    std::cout << "refused\\n";
  }
}
""")
        self.ok(*self.configure(folder, folder / "build"))
        self.ok("cmake", "--build", folder / "build")
        lines = self.ok(folder / "build/lines").splitlines()
        self.assertEqual(len(set(lines)), 6)
        self.assertEqual(lines[5], "refused")
        for line in lines[:5]:
            self.ok(self.attest, "check", "builtin:ln-fused", "--problem", line)


class Readme(Installed):
    """The three ways in, as README.md and the tour print them, each with a kernel that holds and with a defect in it."""

    def page(self, name="docs/tour.md"):
        return (SOURCE / name).read_text()

    def block(self, language, page="docs/tour.md"):
        _, found, rest = self.page(page).partition(f"```{language}\n")
        self.assertTrue(found, f"{page} has no block of {language}")
        return rest.partition("```")[0]

    def scratch(self, name, **files):
        folder = self.folder / name
        folder.mkdir()
        for file in (CONSUMER / "my_attention.h", CONSUMER / "my_attention.c",
                     SOURCE / "examples/ctest/my_attention.hpp", SOURCE / "examples/ctest/my_attention.cpp"):
            shutil.copy(file, folder)
        (folder / "include").symlink_to(SOURCE / "include")
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder

    def broken(self, text, right, wrong):
        self.assertIn(right, text)
        return text.replace(right, wrong)

    def test_python_function(self):
        if run(os.environ.get("ATTEST_PYTHON", "python3"), "-c", "import numpy").returncode != 0:
            self.skipTest("no numpy here; ATTEST_PYTHON names a Python that has it")
        text = self.block("python", "README.md")
        folder = self.scratch("python", my_kernel__py=text, wrong__py=self.broken(text, "* np.float32(scale)", ""))
        self.ends(0, "every property held", self.attest, "check", folder / "my_kernel.py", "--cases", 300)
        self.ends(1, "rerun", self.attest, "check", folder / "wrong.py", "--cases", 300)

        # The line on captured tensors, with a file of the shape that it names.
        line = re.search(r"^\./run (check my_kernel\.py --problem '.*?')", self.page(), re.MULTILINE)[1]
        verb, kernel, *words = shlex.split(line)
        field = dict(word.split("=", 1) for word in words[1].split())
        shape = lambda heads, length, width: tuple(int(field[name]) for name in ("b", heads, length, width))
        dtype = {"f16": "float16", "f32": "float32"}[field["dtype"]]
        saved = {"q": shape("hq", "lq", "d"), "k": shape("hkv", "lk", "d"), "v": shape("hkv", "lk", "dv")}
        self.ok(os.environ.get("ATTEST_PYTHON", "python3"), "-c", "import numpy as np; np.savez('act.npz', **{name: "
                f"np.random.default_rng(1).standard_normal(shape).astype('{dtype}') for name, shape in {saved}.items()}})",
                cwd=self.folder)
        self.assertEqual(field["values"], "file:act.npz")
        self.ends(0, "every property held", self.attest, verb, folder / kernel, *words)
        self.ends(1, "rerun", self.attest, verb, folder / "wrong.py", *words)

    def test_c_plugin(self):
        compiler = re.search(r"^cc .*$", self.page(), re.MULTILINE)[0]
        for name, flag, status, says in (("c", "", 0, "every property held"), ("wrong-c", "-DFORGET_SCALE", 1, "rerun")):
            folder = self.scratch(name, my_plugin__c=self.block("c"))
            self.ok("sh", "-c", f"{compiler} -std=c11 -Wall -Wextra -Wconversion -Werror {flag}", cwd=folder)
            self.ends(status, says, self.attest, "check", folder / "my_kernel.so", "--cases", 300)

    def test_cxx_callable_under_ctest(self):
        text = self.block("cpp")
        # The kernel is that of examples/ctest, whose test draws as many problems as the page does.
        project = "cmake_minimum_required(VERSION 3.25)\nproject(mine LANGUAGES CXX)\n" + self.broken(self.block("cmake"), "CASES 500", "CASES 100")
        for name, source, options, outcome in (
                ("cxx", text, [], PASSED),
                ("wrong-cxx", self.broken(text, "static_cast<float>(call.scale)", "1"), ["-R", "policy-bound"], FAILED)):
            folder = self.scratch(name, my_subjects__cpp=source, CMakeLists__txt=project)
            self.ok(*self.configure(folder, folder / "build", "-DCMAKE_CXX_FLAGS=-O2 -Wall -Wextra -Wconversion -Werror"))
            self.ok("cmake", "--build", folder / "build")
            results = self.results(folder / "build", *options)
            self.assertEqual(FAILED in results.values(), outcome == FAILED, self.output)
            self.assertEqual(results["mine.policy-bound"], outcome)

    def test_the_page_has_the_same_callable(self):
        self.assertIn(self.block("cpp"), (SOURCE / "docs/cpp.md").read_text())


class Subdirectory(unittest.TestCase):
    """examples/ctest with attest's source: compiles attest once more, so it is a test of its own."""

    def test_builds_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            def ok(*words):
                done = run(*words, timeout=1800)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:])
                return done.stdout
            ok("cmake", "-G", "Ninja", "-S", SOURCE / "examples/ctest", "-B", folder, f"-DATTEST_SOURCE={SOURCE}")
            ok("cmake", "--build", folder, "--target", "attest", "my_attention_subjects")
            out = ok("ctest", "--test-dir", folder)
            self.assertIn("plain.policy-bound", out)
            self.assertNotIn("run_script", out)  # attest's own tests stay out of a user's suite
            empty = Path(folder, "prefix")
            run("cmake", "--install", folder, "--prefix", empty)
            self.assertFalse((empty / "bin").exists())


if __name__ == "__main__":
    SOURCE, BUILD = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
    unittest.main()
