"""What docs/findings.md says of one library shows under the versions that the page is about: its reproducers replay, what `attest export --to python` prints of
each shows the failure that is on record, and the scripts that findings keep print what they print there.

Usage: test_findings.py ATTEST LIBRARY [BACKEND] [unittest argument...]; exits with 125 where the library is not installed, or not of the pinned version.
"""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from need_package import need

ROOT = Path(__file__).resolve().parents[2]
# The package, the file that pins it, and the data of the page, by library.
LIBRARIES = {"onnxruntime": ("onnxruntime", "onnxruntime", "ort"), "onnx": ("onnx", "onnxruntime", "onnx"), "torch": ("torch", "torch", "torch"),
             "openvino": ("openvino", "openvino", "openvino"), "jax": ("jax", "jax", "jax"), "paddle": ("paddlepaddle", "paddle", "paddle"),
             "keras": ("keras", "keras", "keras")}
if __name__ == "__main__":
    library, backend = sys.argv[2], sys.argv[3] if sys.argv[2] == "keras" else ""
    if backend:
        os.environ["KERAS_BACKEND"] = backend
        need("numpy" if backend == "jax" else backend, f"it is never part of ./run test, ./run fuzz keras:{backend} installs it")
    need(library, f"it is never part of ./run test, ./run fuzz {library}:... installs it")
    del sys.argv[2:4 if backend else 3]
    ATTEST = os.path.abspath(sys.argv.pop(1))
    PACKAGE, REQUIREMENTS, DATA = LIBRARIES[library]
    VERSION = importlib.metadata.version(PACKAGE).partition("+")[0]
    if f"{PACKAGE}=={VERSION}" not in (ROOT / f"subjects/python/requirements-{REQUIREMENTS}.txt").read_text().split():
        print(f"skipped: the page is about the pinned {PACKAGE}, not {VERSION}")
        sys.exit(125)
    PREFIX = f"{DATA}-{backend}-" if backend else f"{DATA}-"
os.environ["ATTEST_PYTHON"] = sys.executable

import findings

NUMBER = r"(-?(?:nan|inf|[-+.e\d]+))"


def inside(number, witness):
    """Tells whether a correct kernel may return the number."""
    lo, hi = float(witness["lo"]), float(witness["hi"])
    return lo <= number <= hi or number != number and lo != lo


def run(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def words(text):
    """A message without its numbers, which may be what memory held, and without what TensorFlow tells of the processor's kernel: {{...}}."""
    return re.sub(r"\d+", "#", re.sub(r"{{.*?}}", "", " ".join(text.split())))


class Findings(unittest.TestCase):
    def setUp(self):
        self.found = {name: record for name, record in findings.records(DATA).items() if name.startswith(PREFIX)}
        self.assertTrue(self.found)
        self.files = {name: file for name in self.found if (file := findings.reproducer(name))}

    def test_reproducers_replay(self):
        if self.files:
            done = subprocess.run([ATTEST, "replay", *self.files.values()], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_printed_of_a_reproducer_shows_it(self):
        for name, file in self.files.items():
            with self.subTest(name):
                exported = subprocess.run([ATTEST, "export", file, "--to", "python"], capture_output=True, text=True)
                self.assertEqual(exported.returncode, 0, exported.stderr)
                shown = run(exported.stdout)
                if "seldom" not in self.found[name]:
                    self.shows(shown, json.loads(file.read_text(encoding="utf-8"))["seen"])

    def shows(self, shown, seen):
        """A run of a script shows what is on record."""
        if seen["kind"] == "crash":
            died = getattr(signal, re.search(r"SIG\w+", seen["reason"])[0])
            self.assertEqual(shown.returncode, -died, shown.stderr)
        elif seen["kind"] == "error":
            self.assertEqual(shown.returncode, 1, shown.stdout)
            said = re.sub(r"^\w+Error: ", "", findings.message(seen["reason"]))  # adapters may name the type of an exception, scripts do not
            self.assertIn(words(said), words(shown.stderr))
        else:
            self.assertEqual(shown.returncode, 0, shown.stderr)
            right, wrong = (float(re.search(rf"^{word} +{NUMBER}$", shown.stdout, re.MULTILINE)[1]) for word in ("expected", "got"))
            self.assertTrue(inside(right, seen["witness"]), shown.stdout)
            self.assertFalse(inside(wrong, seen["witness"]), shown.stdout)

    def test_scripts_that_findings_keep(self):
        for name, record in self.found.items():
            if "script" in record:
                with self.subTest(name):
                    done = run(record["script"])
                    if done.stderr.startswith("this "):  # "this processor has no ..."
                        self.skipTest(f"{name}: {done.stderr}")
                    self.assertEqual(done.stdout.strip(), record["prints"].strip(), done.stderr)


if __name__ == "__main__":
    unittest.main()
