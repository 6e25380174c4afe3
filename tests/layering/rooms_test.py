#!/usr/bin/env python3
"""A build that names fewer rooms than there are (ATTEST_ROOMS) configures.

Usage: rooms_test.py SOURCE_FOLDER CMAKE
"""
import subprocess
import sys
import tempfile
import unittest

SOURCE = CMAKE = None
BUILDS = ("core", "core;oracle", "core;certify", "core;graph", "core;oracle;kernels;ensemble;generators;properties",
          "core;oracle;graph;kernels;ensemble;generators;properties;ops",
          "core;oracle;kernels;generators",  # that of compilers_test.py
          "core;oracle;certify;graph;kernels;ensemble;generators;properties;ops;subjects;engine;models;report")


class Rooms(unittest.TestCase):
    def test_fewer_rooms_configure(self):
        for rooms in BUILDS:
            with self.subTest(rooms), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([CMAKE, "-S", SOURCE, "-B", folder, "-G", "Ninja", f"-DATTEST_ROOMS={rooms}"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    SOURCE, CMAKE = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
