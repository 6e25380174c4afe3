#!/usr/bin/env python3
"""The same bits from other compilers, optimisation levels and instruction sets.

Usage: compilers_test.py SOURCE_FOLDER BUILD_FOLDER BITS [unittest option...]
Exits with 125 where a compiler is missing and nothing failed.
"""
import os
import shutil
import subprocess
import sys
import unittest

SOURCE = BUILD = BITS = None

# Compiler -> builds of it: a name, and the options that make it.
BUILDS = {
    "g++": [("native", ["-DCMAKE_BUILD_TYPE=Release", "-DATTEST_NATIVE=ON"])],
    "clang++": [("O0", ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O0"]),
                ("O2", ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O2"])],
}


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Compilers(unittest.TestCase):
    def configure(self, compiler, *options):
        try:
            run("cmake", *options)
        except AssertionError as failure:
            if "Could NOT find OpenMP" not in str(failure):
                raise
            self.skipTest(f"{compiler} has no OpenMP here (Debian: libomp-dev): its bits are not compared")

    def compare(self, compiler):
        if shutil.which(compiler) is None:
            self.skipTest(f"there is no {compiler} here: its bits are not compared")
        expected = run(BITS).splitlines()
        self.assertGreater(len(expected), 500)
        for name, options in BUILDS[compiler]:
            with self.subTest(f"{compiler} {name}"):
                folder = os.path.join(BUILD, f"{compiler}-{name}")
                self.configure(compiler, "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
                    "-DATTEST_ROOMS=core;oracle;kernels;generators", *options)
                run("ninja", "-C", folder, "determinism_bits")
                got = run(os.path.join(folder, "bin", "determinism_bits")).splitlines()
                self.assertEqual(len(got), len(expected))
                for number, (one, other) in enumerate(zip(got, expected), 1):
                    self.assertEqual(one, other, f"line {number}")

    def test_native_instructions(self):
        self.compare("g++")

    def test_clang(self):
        self.compare("clang++")


class Missing(unittest.TestCase):
    def test_a_compiler_that_is_missing_is_no_pass(self):
        for test in ("native_instructions", "clang"):
            done = subprocess.run([sys.executable, __file__, SOURCE, BUILD, BITS, f"Compilers.test_{test}"],
                                  env={**os.environ, "PATH": ""}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn("its bits are not compared", done.stderr)


if __name__ == "__main__":
    SOURCE, BUILD, BITS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(125 if result.wasSuccessful() and result.skipped else not result.wasSuccessful())
