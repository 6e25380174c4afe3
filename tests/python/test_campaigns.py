"""Short campaigns of attest against shipped adapters hold where no finding stands, and fail under a promise that was not made.

Usage: test_campaigns.py ATTEST PACKAGE [BACKEND]. Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where PACKAGE,
or the backend of Keras, is not installed there.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import need

LISTED = Path(__file__).resolve().parents[2] / "subjects" / "python" / "attest" / "adapters" / "subjects.txt"
ATTEST, PACKAGE = os.path.abspath(sys.argv[1]), sys.argv[2]
BACKEND = sys.argv[3] if len(sys.argv) > 3 and not sys.argv[3].startswith("-") else None
for package in (PACKAGE, *([BACKEND] if BACKEND else []), *(["scipy"] if BACKEND == "numpy" else [])):  # as Keras imports there
    need(package, f"it is never part of ./run test, ./run fuzz {PACKAGE}: installs it")


class Campaigns(unittest.TestCase):
    def ends(self, status, subject, predicate, *words, cases=80):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, "check", f"{PACKAGE}:{subject}", "--python", sys.executable, "--assume", predicate,
                                   "--cases", str(cases), "--jobs", "1", "--timeout", "60s", "--corpus", folder, *words],
                                  capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stdout[-4000:] + done.stderr)


class Torch(Campaigns):
    def test_rows_without_keys(self):
        """Nothing is promised of them: torch-flash-1, torch-mha-1."""
        rows = "(keep==some_empty || keep==closed || bias==empty_inf) && hq<=4 && scale>0 && b>0 && lk>0"  # torch-mha-4
        for subject, law, more in (("flash-lse", "lse", ""), ("mha", "policy-bound", " && form.last_key==given"),  # torch-mha-3
                                   ("mha-weights", "policy-bound", " && hq==1 && d==1")):  # else a NaN spreads in the projection
            with self.subTest(subject):
                self.ends(0, subject, rows + more, "--property", law)


    def test_blocks(self):
        for name in ("block", "block-fast", "block-nested", "block-weights", "block-separate"):
            with self.subTest(name):
                self.ends(0, name, "weights!=selection", cases=150)
        self.ends(0, "encoder-block", "bias==none", cases=150)
        self.ends(1, "encoder-block", "bias==normal || bias==shared", "--shrink-budget", "10", cases=40)  # torch-encoder-1
        self.ends(0, "encoder", "bias==none && padding!=scattered && padding!=some_zero && l<=64", "--property", "policy-bound", cases=60)
        self.ends(1, "encoder-float-mask", "bias==normal && l<=64", "--shrink-budget", "10", cases=40)  # torch-encoder-1, -3
        self.ends(0, "block-bias-kv", "weights!=selection && b==1 && bias==none && !causal", cases=150)
        self.ends(1, "block-bias-kv", "weights!=selection", "--shrink-budget", "10", cases=150)  # torch-mha-3

    def test_a_block_does_not_keep_what_nobody_promised(self):
        self.ends(1, "block", "dtype==f32 && b>1", "--policy", "f64,storage=f32,output=f32", "--shrink-budget", "10", cases=100)

    def test_layer_norm(self):
        self.ends(0, "layer_norm", "values!=huge && values!=roots_large", cases=300)  # torch-layer-norm-1
        self.ends(0, "rms_norm", "rows<4096", cases=300)
        self.ends(0, "layer_norm-axes", "values!=huge && values!=roots_large", cases=100)
        self.ends(0, "rms_norm-axes", "rows<4096", cases=100)
        # Half of all problems have numbers that a norm inside a layer cannot be asked; that is too many for a held campaign.
        askable = ("values!=tiny && values!=huge && values!=roots_large && values!=roots_small && values!=wide && values!=cancelling && "
                   "gamma!=tiny && gamma!=huge && epsilon>=0.000001 && epsilon<=256 && amplitude>=0.0625 && amplitude<=16")
        for name in ("encoder-norm1", "encoder-norm2"):
            self.ends(0, name, f"rows<256 && {askable}", cases=200)

    def test_a_norm_in_a_layer_does_not_keep_what_nobody_promised(self):
        self.ends(1, "encoder-norm2", "dtype==f32 && hidden>8", "--policy", "f64,storage=f32,output=f32", "--shrink-budget", "10", cases=200)


class Onnxruntime(Campaigns):
    def test_normalisations(self):
        names = (line.split()[0].removeprefix("onnxruntime:") for line in LISTED.read_text(encoding="utf-8").splitlines()
                 if line.startswith("onnxruntime:"))
        for name in (name for name in names if "Norm" in name):
            with self.subTest(name):
                self.ends(0, name, "rows<4096", cases=100 if "-" in name else 300)


    def test_blocks(self):
        rest = "scale!=0 && (!causal || l>=m) && weights!=selection"  # ort-mha-1, -2
        for name in ("block", "block-none", "block-bias", "contrib-block"):
            with self.subTest(name):
                self.ends(0, name, rest, cases=120)

    def test_what_stands_of_the_operator_stands_in_a_block(self):
        self.ends(1, "block", "causal && l<m && align==top_left", "--shrink-budget", "10")
        self.ends(1, "contrib-block", "scale==0 && m>1", "--shrink-budget", "10")


class Keras(Campaigns):
    def test_norms(self):
        for name in ("LayerNormalization", "layer_normalization", "RMSNormalization", "rms_normalization"):
            rest = "values!=huge && values!=roots_large" if BACKEND == "torch" else "rows<64"  # torch-layer-norm-1
            with self.subTest(name):
                self.ends(0, f"{BACKEND}-{name}", rest, cases=25 if BACKEND == "jax" else 200)


    @unittest.skipUnless(BACKEND == "numpy", "of NumPy alone")
    def test_the_equation_is_not_the_way_it_is_computed(self):
        """keras-numpy-2"""
        self.ends(1, "numpy-LayerNormalization-as-written", "rows<64", "--shrink-budget", "10", cases=200)


class Jax(Campaigns):
    def test_standardize(self):
        self.ends(0, "standardize", "rows<4096 && values!=roots_large", cases=150)  # jax-standardize-1
        self.ends(0, "standardize-stable", "rows<4096", cases=150)


class Openvino(Campaigns):
    def test_norms(self):
        for name in ("MVN", "LayerNorm", "RMSNorm", "MVN-f16", "RMSNorm-f16", "LayerNorm-bf16"):
            with self.subTest(name):
                self.ends(0, name, "rows<64", cases=60)

    def test_under_the_hint_every_type_may_be_bfloat16_in_every_step(self):
        self.ends(0, "sdpa-bf16", "dtype==f16", "--property", "single-key")
        self.ends(0, "sdpa-bf16", "dtype!=f32 || d<16")  # openvino-sdpa-1

    def test_it_does_not_keep_what_the_hint_gives_up(self):
        import openvino
        if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            self.skipTest("this processor has no instructions for bfloat16")
        self.ends(1, "sdpa-bf16", "d<16", "--policy", "f16-all", "--property", "single-key", "--shrink-budget", "10")


if __name__ == "__main__":
    del sys.argv[1:4 if BACKEND else 3]
    unittest.main(defaultTest=PACKAGE.capitalize())
