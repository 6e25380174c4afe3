"""The oneDNN adapter, a plug-in in C++: what it says in the Graph API, what comes back, what it quotes, and the program of
its finding.

Usage: test_onednn_adapter.py ATTEST. Runs under ATTEST_PYTHON (or this interpreter) where NumPy is installed there, and exits with 125
where the plug-in has not been built: ./run fuzz onednn:sdpa does so, ATTEST_ADAPTERS names another folder.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import need

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = Path(os.environ.get("ATTEST_ADAPTERS") or ROOT / "build" / "adapters")
PREFIX = ADAPTERS / "onednn" / "source"
if not (ADAPTERS / "onednn.so").is_file():
    print(f"skipped: {ADAPTERS / 'onednn.so'} has not been built; it is never part of ./run test, ./run fuzz onednn:sdpa builds it")
    sys.exit(125)
need("numpy", "./run fuzz onnxruntime:Attention installs it")

ATTEST = os.path.abspath(sys.argv.pop(1))
import findings
import numpy as np

from attention_calls import BOTTOM_RIGHT, battery, call, far, open_keys, reference, values
from plugin_calls import DONE, UNSUPPORTED, AnyPlugin, subjects

ONEDNN = subjects(ADAPTERS / "onednn.so")["sdpa"]
FORMS = {name: [value if isinstance(value, str) else value["value"] for value in entries]
         for name, entries in ONEDNN.describe["supports"]["forms"].items()}


def problems(dtype):
    more = (dict(b=2, hq=3, hkv=1, lq=3, lk=4), dict(b=2, hq=4, hkv=2, lq=4, lk=6, window_left=1, window_right=2),
            dict(b=2, lq=2, lk=3, window_left=0, align=BOTTOM_RIGHT, kv_lengths=np.array([2, 3], np.int32)),
            dict(b=2, hq=2, lq=70, lk=130, d=5, causal=True))
    for problem, c in [*battery(dtype), *((problem, call(dtype=dtype, **problem)) for problem in more)]:
        if not c.softcap:
            yield problem, c


class Agreement(AnyPlugin, unittest.TestCase):
    plugin = ONEDNN

    def judged(self, dtype, form):
        count = 0
        for problem, c in problems(dtype):
            c.form = form
            status, message = ONEDNN.attention(c)
            with self.subTest(dtype=dtype, form=form, problem=problem):
                if form.get("mask") == "select" and c.bias is not None:
                    self.assertEqual((status, message), (UNSUPPORTED, "a boolean mask says no bias"))
                    continue
                self.assertEqual((status, message), (DONE, ""))
                empty = ~open_keys(c).any(-1, keepdims=True)
                out = values(c.out, dtype)
                if form.get("softmax") == "inf_as_zero":  # as the reference has it
                    self.assertFalse(far(c), f"got {out.ravel()}, expected {reference(c).ravel()}")
                else:
                    self.assertTrue(np.isnan(out[np.broadcast_to(empty, out.shape)]).all())
                    c.out = np.where(empty, reference(c), out).astype(np.float64)
                    c.dtype, c.v = dtype, c.v
                    error = np.abs(c.out - reference(c))
                    self.assertLess(error.max(), {"f32": 1e-5, "bf16": 0.1}[dtype])
                count += 1
        return count

    def test_battery(self):
        for dtype in ONEDNN.describe["dtypes"]:
            self.assertGreaterEqual(self.judged(dtype, {}), 20)

    def test_every_form(self):
        for form, entries in FORMS.items():
            for value in entries[1:]:
                if form != "unit_axes":  # onednn-sdpa-1
                    self.assertGreaterEqual(self.judged("f32", {form: value}), 18)

    def test_the_log_sum_exp(self):
        for form in {}, {"softmax": "inf_as_zero", "mask": "select"}:
            for kind, hkv in (np.float32, 2), (np.float64, 1):
                keep = np.array([[1, 0, 1], [0, 0, 0]], bool)
                c = call(b=2, hq=2, hkv=hkv, lq=2, lk=3, keep=keep, form=form, lse=np.zeros((2, 2, 2), kind))
                self.assertEqual(ONEDNN.attention(c), (DONE, ""))
                scores = c.scale * (c.q.astype(float) @ np.repeat(c.k, 2 // hkv, 1).astype(float).swapaxes(2, 3))
                expected = np.log(np.exp(scores[..., [0, 2]]).sum(-1))
                expected[..., 1] = -np.inf
                with self.subTest(form=form, kind=kind):
                    np.testing.assert_allclose(c.lse, expected, rtol=0, atol=1e-5)  # its logarithm is off by 3.5e-6

    def test_what_is_kept_is_of_its_own_call(self):
        """Further ways to differ than plans are kept for, and the first of them again."""
        for width in [*range(1, 80), 1, 2]:
            c = call(d=width, lq=2, lk=3, seed=width)
            self.assertEqual(ONEDNN.attention(c), (DONE, ""))
            self.assertFalse(far(c), width)


class Declarations(unittest.TestCase):
    def test_every_sentence_of_a_header_stands_there(self):
        held = 0
        head = (ROOT / "subjects/adapters/onednn/sdpa.hpp").read_text(encoding="utf-8")
        plain = lambda text: " ".join(text.replace("///", "").split())
        for about, texts in ONEDNN.describe["documents"].items():
            for text in [texts] if isinstance(texts, str) else texts:
                with self.subTest(about, text=text):
                    name, sentence = re.fullmatch(r'oneDNN(?: 3\.13\.2)?, (\S+): "(.*)"', text).groups()
                    self.assertLessEqual(len(text.encode()), 400)
                    if name.endswith(".h"):
                        self.assertIn(plain(sentence), plain((PREFIX / "include/oneapi/dnnl" / name).read_text(encoding="utf-8")))
                        held += 1
                    else:
                        self.assertIn(name, head)
        self.assertGreaterEqual(held, 3)

    def test_each_form_and_what_is_ruled_out_is_quoted(self):
        told = ONEDNN.describe["documents"]
        for form in FORMS:
            self.assertTrue(any(about.split("=")[0] == f"form.{form}" for about in told), form)
        self.assertIn("softcap", told)
        self.assertIn("input is a boolean tensor", told["form.mask=select"][0])

    def test_it_is_the_pinned_version(self):
        self.assertEqual(ONEDNN.version, "oneDNN 3.13.2")
        self.assertEqual((PREFIX / ".complete").read_text(), (ROOT / "subjects/adapters/onednn/requirements.txt").read_text())


class Campaigns(unittest.TestCase):
    def ends(self, status, predicate, *words, cases=150):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, "check", "onednn:sdpa", "--assume", predicate, "--cases", str(cases), "--jobs", "1",
                                   "--timeout", "60s", "--corpus", folder, *words], capture_output=True, text=True, timeout=240,
                                  env=os.environ | {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"})  # onednn-sdpa-1
        self.assertEqual(done.returncode, status, done.stdout[-4000:] + done.stderr)

    def test_it_holds_where_no_finding_stands(self):
        self.ends(0, "form.unit_axes==kept && (form.mask==add || bias==none)", "--property", "policy-bound", "--property", "guards",
                  "--property", "result-class")

    def test_the_empty_row_is_what_the_mode_says(self):
        self.ends(0, "form.unit_axes==kept && form.mask==add && keep==closed", "--property", "policy-bound", cases=60)

    def test_a_stride_along_which_nothing_lies_matters(self):
        self.ends(1, "form.unit_axes==one && v_layout==bshd && b==1 && hkv>1 && hkv==hq && lk>1 && bias==none", "--property", "policy-bound",
                  "--shrink-budget", "10", cases=400)


class Findings(unittest.TestCase):
    def test_programs(self):
        if ONEDNN.version != "oneDNN 3.13.2":
            self.skipTest("the page is about the pinned version")
        for name, record in findings.records("onednn").items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                source, made = Path(folder, "a.cpp"), Path(folder, "a")
                source.write_text(record["program"])
                subprocess.run(["c++", "-std=c++17", source, "-o", made, f"-I{PREFIX}/include", f"{PREFIX}/lib/libdnnl.so",
                                f"-Wl,-rpath,{PREFIX}/lib", "-Wl,--disable-new-dtags", "-Wl,--allow-shlib-undefined"], check=True)
                done = subprocess.run([made], capture_output=True, text=True, timeout=60,
                                      env=os.environ | {"OCL_ICD_FILENAMES": str(PREFIX / "lib/libintelocl.so")})
                self.assertEqual(done.stdout.strip(), record["prints"].strip())


if __name__ == "__main__":
    unittest.main()
