"""The ggml adapter, a plug-in in C++: what it hands to ggml_flash_attn_ext, what comes back, what it quotes, and the scripts
of its findings.

Usage: test_ggml_adapter.py ATTEST. Runs under ATTEST_PYTHON (or this interpreter) where NumPy is installed there, and exits with 125
where the plug-in has not been built: ./run fuzz ggml:flash_attn_ext does so, ATTEST_ADAPTERS names another folder.
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
SOURCE = ADAPTERS / "ggml" / "source"
LIBRARY = ADAPTERS / "ggml" / "flash_attn_ext.so"
if not (ADAPTERS / "ggml.so").is_file():
    print(f"skipped: {ADAPTERS / 'ggml.so'} has not been built; it is never part of ./run test, ./run fuzz ggml:flash_attn_ext builds it")
    sys.exit(125)
need("numpy", "./run fuzz onnxruntime:Attention installs it")

ATTEST = os.path.abspath(sys.argv.pop(1))
import findings
import numpy as np

from attention_calls import BOTTOM_RIGHT, battery, call, far, open_keys, reference, script_output, values
from plugin_calls import DONE, AnyPlugin, subjects

GGML = subjects(ADAPTERS / "ggml.so")["flash_attn_ext"]
FORMS = {name: [value if isinstance(value, str) else value["value"] for value in entries]
         for name, entries in GGML.describe["supports"]["forms"].items()}
DEADLY = ("f16", "bf16")  # forms of prec: ggml-flash-2


def problems(dtype):
    """The battery and what concerns ggml alone, with biases in float16; rows without keys are left out, nothing is promised."""
    more = (dict(b=2, hq=3, hkv=1, lq=3, lk=4), dict(b=2, hq=2, lq=4, lk=6, window_left=1, window_right=2),
            dict(b=2, lq=2, lk=3, window_left=0, align=BOTTOM_RIGHT, kv_lengths=np.array([2, 3], np.int32)),
            dict(lq=1, lk=600, d=8, threads=3),  # parts of the keys
            dict(b=2, hq=2, lq=70, lk=130, d=5, causal=True))  # tiles
    for problem, c in [*battery(dtype), *((problem, call(dtype=dtype, **problem)) for problem in more)]:
        if c.bias is not None:
            c.bias, c.bias_dtype = values(c.bias, c.bias_dtype).astype(np.float16), "f16"
        if open_keys(c).any(-1).all():
            yield problem, c


class Agreement(AnyPlugin, unittest.TestCase):
    plugin = GGML

    def judged(self, dtype, form):
        count = 0
        for problem, c in problems(dtype):
            c.form = form
            with self.subTest(dtype=dtype, form=form, problem=problem):
                self.assertEqual(GGML.attention(c), (DONE, ""))
                self.assertFalse(far(c), f"got {values(c.out, dtype).ravel()}, expected {reference(c).ravel()}")
                count += 1
        return count

    def test_battery(self):
        for dtype in GGML.describe["dtypes"]:
            self.assertGreaterEqual(self.judged(dtype, {}), 20)

    def test_every_form(self):
        for form, entries in FORMS.items():
            for value in entries[1:]:
                if (form, value) not in [("prec", deadly) for deadly in DEADLY]:
                    self.assertGreaterEqual(self.judged("f32", {form: value}), 20)

    def test_samples_may_lie_far_apart(self):
        """The memory between them is never touched: it is there in the page table alone."""
        c = call(b=2, hq=1, lq=2, lk=3, d=2)
        with tempfile.TemporaryFile() as file:
            memory = np.memmap(file, np.float32, "w+", shape=(1 << 31) + 64)  # 8 GiB, sparse
            for name, first in (("k", 0), ("v", 32)):
                near = getattr(c, name)
                spread = np.lib.stride_tricks.as_strided(memory[first:], near.shape, (1 << 33, *near.strides[1:]))
                spread[...] = near
                setattr(c, name, spread)
            self.assertEqual(GGML.attention(c), (DONE, ""))
            self.assertFalse(far(c))

    def test_scripts_give_what_the_plugin_gives(self):
        os.environ["GGML"] = str(LIBRARY)
        script = (ROOT / "subjects/adapters/ggml/flash_attn_ext.py").read_text()
        forms = [{}, *({form: value} for form, entries in FORMS.items() for value in entries[1:] if value not in DEADLY)]
        compared = 0
        for dtype in GGML.describe["dtypes"]:
            for problem, c in list(problems(dtype))[::2]:
                if dtype == "bf16" and c.bias is not None:  # the helper hands a script biases of the call's own type
                    continue
                for form in forms if dtype == "f32" else [{}, {"prec": "f32"}]:
                    c.form, c.threads = form, 1
                    GGML.attention(c)
                    asked = dict(dtype=dtype, causal=c.causal, align=c.align, window_left=c.window_left,
                                 window_right=c.window_right, softcap=c.softcap, keep=c.keep is not None, threads=1, form=form,
                                 bias=c.bias is not None, kv_lengths=c.kv_lengths is not None)
                    with self.subTest(dtype=dtype, problem=problem, form=form):
                        np.testing.assert_array_equal(script_output(f"asked = {asked!r}\n{script}", c), values(c.out, dtype))
                    compared += 1
        self.assertGreater(compared, 80)


class Declarations(unittest.TestCase):
    def setUp(self):
        if not SOURCE.is_dir():
            self.skipTest(f"no source in {SOURCE}")

    def quotes(self):
        for about, texts in GGML.describe["documents"].items():
            for text in [texts] if isinstance(texts, str) else texts:
                yield about, text, *re.fullmatch(r'\S+ \S+, (\S+): "(.*)"', text).groups()

    def file(self, name):
        return next(path for folder in ("", "ggml/include/", "ggml/src/") if (path := SOURCE / folder / name).is_file())

    def test_every_sentence_stands_in_its_document(self):
        plain = lambda text: " ".join(re.sub(r"(?m)^\s*//\s?-?", "", text).split())
        self.assertGreater(len(list(self.quotes())), 20)
        for about, text, name, sentence in self.quotes():
            with self.subTest(about, text=text):
                document = plain(self.file(name).read_text(encoding="utf-8"))
                self.assertIn(plain(sentence), document)
                self.assertNotIn("attention takes no prisoners", document)
                self.assertLessEqual(len(text.encode()), 400)

    def test_each_form_and_what_is_ruled_out_is_quoted(self):
        told = GGML.describe["documents"]
        self.assertLessEqual({f"form.{form}" for form in FORMS}, set(told))
        supports = GGML.describe["supports"]
        self.assertEqual({key for key in supports if key not in ("forms", "far")}, {"bias_dtypes", "lse", "strides"})
        self.assertTrue(any("mask->type == GGML_TYPE_F16" in text for text in told["bias"]))
        self.assertIn("res:", told["lse"])
        self.assertTrue(any("input tensor rows must be contiguous" in text for text in told["attention"]))

    def test_it_is_the_pinned_version(self):
        self.assertEqual(GGML.version, "ggml 0.25.3")
        self.assertEqual((SOURCE / ".complete").read_text(), (ROOT / "subjects/adapters/ggml/requirements.txt").read_text())


class Campaigns(unittest.TestCase):
    def ends(self, status, predicate, *words, cases=400):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([ATTEST, "check", "ggml:flash_attn_ext", "--assume", predicate, "--cases", str(cases), "--jobs", "1",
                                   "--timeout", "60s", "--corpus", folder, *words], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, status, done.stdout[-4000:] + done.stderr)

    def test_it_holds_where_no_finding_stands(self):
        for law in ("policy-bound", "guards", "threads", "window-mask"):
            self.ends(0, "(dtype!=f16 || form.prec==default) && form.prec!=f16 && form.prec!=bf16", "--property", law)

    def test_float16_is_not_added_up_in_float32(self):
        self.ends(1, "dtype==f16 && form.prec==f32 && lq<64", "--property", "policy-bound", "--shrink-budget", "10", cases=2000)

    def test_it_keeps_no_promise_that_is_not_its_own(self):
        self.ends(1, "dtype==f16 && form.prec==default && lq<64", "--policy", "f16", "--property", "policy-bound", "--shrink-budget",
                  "10", cases=2000)


class Findings(unittest.TestCase):
    def test_scripts(self):
        if GGML.version != "ggml 0.25.3":
            self.skipTest("the page is about the pinned version")
        for name, record in findings.records("ggml").items():
            with self.subTest(name):
                done = subprocess.run([sys.executable, "-c", record["script"]], capture_output=True, text=True, env=os.environ | {"GGML": str(LIBRARY)})
                self.assertEqual(done.stdout.strip(), record["prints"].strip(), done.stderr)


if __name__ == "__main__":
    unittest.main()
