#!/usr/bin/env python3
"""cmake/release.sh in a repository of its own: what it refuses, and the tag that it makes.

Usage: release_test.py SOURCE [unittest option...]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = None


class Release(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.house = Path(self.holder.name)
        for folder in ("cmake", "docs"):
            (self.house / folder).mkdir()
        shutil.copy(SOURCE / "cmake/release.sh", self.house / "cmake")
        self.write("CMakeLists.txt", 'project(attest VERSION 1.2.0 LANGUAGES C\n        DESCRIPTION "")\n')
        self.write("CHANGELOG.md", "# Changelog\n\n## 1.2.0\n\n- A note.\n\n## 1.1.0\n\n- An old one.\n")
        self.write("docs/cpp.md", "find_package(attest 1.2 CONFIG REQUIRED)\n")
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        (self.house / name).write_text(text)

    def git(self, *words):
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER")
                                                                for what in ("NAME", "EMAIL")}}
        done = subprocess.run(["git", *words], cwd=self.house, env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "state")

    def release(self, word, status=0, says=""):
        env = {**os.environ, "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
        done = subprocess.run([self.house / "cmake/release.sh", word], env=env, text=True, capture_output=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(says, done.stdout + done.stderr)

    def test_a_release_is_tagged_once_with_its_notes(self):
        self.release("check", says="1.2.0: the tree is clean")
        self.assertEqual(self.git("tag"), "")
        self.release("tag", says="tagged v1.2.0")
        message = self.git("tag", "-l", "--format=%(contents)", "v1.2.0")
        self.assertIn("- A note.", message)
        self.assertNotIn("An old one", message)
        self.release("tag", 1, "v1.2.0 is tagged already")

    def test_what_is_refused(self):
        changelog = (self.house / "CHANGELOG.md").read_text()
        for name, text, says in (("CHANGELOG.md", changelog.replace("1.2.0", "Unreleased"), "begins with 'Unreleased'"),
                                 ("CHANGELOG.md", changelog.replace("- A note.\n", ""), "says nothing of 1.2.0"),
                                 ("docs/cpp.md", "find_package(attest 1.1 CONFIG REQUIRED)\n", "another version is asked for in docs/cpp.md"),
                                 ("CMakeLists.txt", "project(attest)\n", "has no project(attest VERSION")):
            with self.subTest(says):
                before = (self.house / name).read_text()
                self.write(name, text)
                self.commit()
                self.release("tag", 1, says)
                self.write(name, before)
                self.commit()
        self.write("new.txt", "")
        self.release("tag", 1, "the tree is not clean")
        self.release("other", 1, "say check, tag or wheel")
        self.assertEqual(self.git("tag"), "")


if __name__ == "__main__":
    SOURCE = Path(sys.argv.pop(1))
    if shutil.which("git") is None:
        print("skipped: no git here")
        sys.exit(125)
    unittest.main()
