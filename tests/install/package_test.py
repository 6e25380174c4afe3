#!/usr/bin/env python3
"""The Debian package that cpack makes, unpacked; and what examples/github runs, in a repository as it describes.

Usage: package_test.py SOURCE BUILD [unittest option...]   BUILD is configured, and its attest built. Skipped aloud (125) without Debian's tools.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SOURCE = BUILD = None


def run(*words, **options):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("ATTEST_PARAMS", "CMAKE_PREFIX_PATH"))}
    return subprocess.run([*map(str, words)], env=env | options.pop("env", {}), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=600, **options)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        done = run("cpack", "-G", "DEB", "-B", cls.folder, "--config", Path(BUILD) / "CPackConfig.cmake", cwd=BUILD)
        assert done.returncode == 0, done.stdout
        cls.deb, = cls.folder.glob("*.deb")
        cls.root = cls.folder / "root"
        assert run("dpkg-deb", "-x", cls.deb, cls.root).returncode == 0
        cls.attest = cls.root / "usr/bin/attest"

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def ok(self, *words, status=0, **options):
        done = run(*words, **options)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout[-3000:]}")
        return done.stdout

    def test_what_it_says_of_itself(self):
        version = re.search(r"project\(attest VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual(self.ok("dpkg-deb", "-f", self.deb, "Version").strip(), version)
        needs = self.ok("dpkg-deb", "-f", self.deb, "Depends")
        for library in ("libfmt", "libflint", "zlib1g", "libgomp1", "libc6"):
            self.assertIn(library, needs)
        files = self.ok("dpkg-deb", "-c", self.deb)
        self.assertNotRegex(files, r"__pycache__|\.pyc|_cache|\.json\n.*findings")

    def test_it_runs_from_where_it_is_unpacked(self):
        self.assertIn("every property held", self.ok(self.attest, "check", "builtin:fused", "--cases", 20))
        plugin = self.folder / "plugin.so"
        self.ok("cc", "-O2", "-fPIC", "-shared", "-I", self.root / "usr/include", SOURCE / "examples/attention_plugin.c", "-o", plugin, "-lm")
        self.assertIn("every property held", self.ok(self.attest, "check", f"{plugin}:plain", "--cases", 20))

    def test_its_programs_have_no_symbols_left(self):
        self.assertIn("stripped", self.ok("file", "-b", self.attest) if shutil.which("file") else "stripped")

    def test_find_package(self):
        project = self.folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\nenable_testing()\n"
                                                "find_package(attest 0.2 CONFIG REQUIRED)\n"
                                                "attest_add_property_tests(builtin:fused PROPERTIES guards CASES 20)\n")
        self.ok("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.root}/usr")
        self.assertIn("100% tests passed, 0 tests failed out of 1", self.ok("ctest", "--test-dir", project / "build"))

    def test_the_workflow(self):
        """Its commands, in a repository with a kernel that holds and in one with a kernel that does not."""
        python = shutil.which(os.environ.get("ATTEST_PYTHON", "python3"))
        if run(python, "-c", "import numpy").returncode != 0:
            self.skipTest("no numpy here; ATTEST_PYTHON names a Python that has it")
        workflow = (SOURCE / "examples/github/attest.yml").read_text()
        commands = re.findall(r"^        run: (.*attest (?:replay|check|fuzz|report) .*)$", workflow, re.MULTILINE)
        self.assertEqual(len(commands), 4)
        replay, check, night, report = commands
        night = night.replace("${{ github.run_number }}", "7").replace("30m", "5s")
        for name, kernel, status in (("right", "plain", 0), ("wrong", "forgets_scale", 1)):
            house = self.folder / name
            (house / "kernels").mkdir(parents=True)
            shutil.copy(SOURCE / "examples/attention_subject.py", house / "kernels/my_kernel.py")
            env = {"SUBJECT": f"kernels/my_kernel.py:{kernel}", "ATTEST_PYTHON": python, "PATH": f"{self.attest.parent}:{os.environ['PATH']}",
                   "XDG_STATE_HOME": str(house / "state")}
            for command in (check, night):
                shutil.rmtree(house / "campaign", ignore_errors=True)
                self.ok("bash", "-e", "-c", command, status=status, cwd=house, env=env)
                self.assertEqual(ElementTree.parse(house / "attest.xml").getroot().get("failures") == "0", status == 0)
                self.assertTrue((house / "attest.sarif").stat().st_size)
                self.ok("bash", "-e", "-c", report, cwd=house, env=env)
                self.assertIn("</html>", (house / "attest.html").read_text())
            if status:
                shutil.copytree(house / "campaign/corpus", house / "corpus")
                self.ok("bash", "-e", "-c", replay, status=1, cwd=house, env=env)
                # An entry in known/ fails nothing.
                (house / "corpus").rename(house / "known")
                shutil.rmtree(house / "campaign")
                self.assertIn("known", self.ok("bash", "-e", "-c", check, cwd=house, env=env))


if __name__ == "__main__":
    SOURCE, BUILD = Path(sys.argv.pop(1)), sys.argv.pop(1)
    missing = [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "cc") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)} here")
        sys.exit(125)
    unittest.main()
