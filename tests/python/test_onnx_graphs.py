"""The adapters of ONNX's reference evaluator and of explicit graphs: what they make, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where onnxruntime is not installed there.
"""

import unittest

from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
import onnx

from attest import Unsupported
from attest.adapters import _onnxruntime_session as session
from attest.adapters import onnx as reference_adapter
from attest.adapters import onnxruntime as session_adapter
from attest.adapters._forms import words
from attention_calls import BOTTOM_RIGHT, battery, call, far
from onnx_calls import agree, compare_script, empty_rows, node_of

REFERENCE = reference_adapter.SUBJECTS["Attention"]
EXPLICIT = session_adapter.SUBJECTS["explicit"]


class Reference(unittest.TestCase):
    @staticmethod
    def known(form):
        def stands(c):
            if c.dtype == "f64":
                c.scale, c.scale_is_default = 0.25, False  # onnx-attention-2: an exact root
            # onnx-attention-1: a mask with one row of queries, or of fewer dimensions
            masked = c.keep is not None or c.kv_lengths is not None
            if form == {"qk_output": "read_0"} and c.softcap:
                return True  # onnx-attention-6
            return c.causal and (masked or form in ({"mask": "broadcast"}, {"mask": "1d"}))
        return stands

    def test_battery_in_every_form(self):
        subject = REFERENCE()
        for form, values in subject.forms.items():
            for value in words(values):
                if (form, value) in {("mask", "0d"), ("softmax_precision", "f16")}:
                    continue
                for dtype in ("f16", "f32", "f64") if value != "f32" else ("f16", "f32"):
                    judged = agree(self, subject, dtype, {form: value}, known=self.known({form: value}))
                    self.assertGreaterEqual(judged, 6, (form, value))

    def test_scripts(self):
        for form in {}, {"layout": "3d"}, {"constants": "kv"}, {"past": "half"}:
            for problem, c in battery("f32", form=form):
                if not self.known(form)(c):
                    with self.subTest(form=form, problem=problem):
                        compare_script(self, REFERENCE(), c)

    def test_it_says_the_node_that_onnxruntime_is_given(self):
        for options in {}, dict(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5), dict(b=2, kv_lengths=np.array([1, 3], np.int32)):
            c = call(**options)
            mine, other = (make().node(c).steps for make in (REFERENCE, session_adapter.SUBJECTS["Attention"]))
            self.assertEqual(mine, other)

    def test_description(self):
        subject = REFERENCE()
        forms = subject.describe()["supports"]["forms"]
        self.assertIn("mask", forms)
        self.assertFalse({"optimisation", "build"} & set(forms))
        self.assertEqual((subject.name, subject.version), ("onnx:Attention", f"onnx {onnx.__version__}"))

    def test_scalars_stay_scalars(self):
        """np.ascontiguousarray makes a vector of one element of them, which means another mask."""
        c = call(keep=np.ones((1, 1), bool), form={"mask": "0d"})
        self.assertEqual(dict(REFERENCE().node(c).fed())["attn_mask"].shape, ())


class Explicit(unittest.TestCase):
    @staticmethod
    def known(c):
        if c.dtype == "f64":
            c.scale, c.scale_is_default = 0.25, False  # ort-explicit-1: exact in float32
            c.softcap = 0.5 if c.softcap else 0.0
        return empty_rows(c)  # nothing is promised

    def test_battery_in_every_form(self):
        subject = EXPLICIT()
        for form, values in subject.forms.items():
            for value in words(values):
                exact = {"scale": 0.25} if value == "divide" else {}  # a scale with an exact reciprocal
                for dtype in subject.describe()["dtypes"]:
                    judged = agree(self, subject, dtype, {form: value}, known=self.known, **exact)
                    self.assertGreaterEqual(judged, 15, (form, value, dtype))

    def test_levels_are_levels(self):
        """ort-explicit-1 tells them apart: from the extended level on, a scale of doubles is kept in float32."""
        for level, fused in ("all", True), ("extended", True), ("basic", False), ("none", False):
            c = call(dtype="f64", scale=0.3, form={"optimisation": level})
            EXPLICIT().attention(c)
            self.assertEqual(far(c), fused, level)
        self.assertEqual(len(set(session._LEVELS.values())), 4)

    def test_scripts(self):
        subject = EXPLICIT()
        for form, values in subject.forms.items():
            for value in words(values)[1:]:
                for problem, c in battery("f32", form={form: value}):
                    if not empty_rows(c):
                        with self.subTest(form=form, value=value, problem=problem):
                            compare_script(self, subject, c)

    def test_graphs(self):
        def operators(**options):
            return [step.op for step in node_of(EXPLICIT(), call(**options)).steps]

        plain = ["Transpose", "MatMul", "Mul", "Softmax", "MatMul"]
        self.assertEqual(operators(), plain)
        mask = np.ones((2, 3), bool)
        self.assertEqual(operators(keep=mask), [*plain[:3], "Add", *plain[3:]])
        self.assertEqual(operators(keep=mask, form={"mask": "where"}), [*plain[:3], "Where", *plain[3:]])
        self.assertEqual(operators(keep=mask, bias=np.zeros((2, 3)), form={"mask": "where"}),
                         [*plain[:3], "Add", "Where", *plain[3:]])
        self.assertEqual(operators(softcap=1.0), [*plain[:3], "Div", "Tanh", "Mul", *plain[3:]])
        self.assertEqual(operators(form={"scale": "roots"}), ["Transpose", "Mul", "Mul", "MatMul", "Softmax", "MatMul"])
        self.assertEqual(operators(form={"softmax": "steps"})[3:8], ["ReduceMax", "Sub", "Exp", "ReduceSum", "Div"])
        self.assertEqual(operators(hq=4, hkv=2)[:3], ["Unsqueeze", "Expand", "Reshape"])
        self.assertEqual(operators(form={"layout": "3d"})[-2:], ["Transpose", "Reshape"])

    def test_scalars(self):
        for form, fed in (("constant", False), ("input", True)):
            names = dict(EXPLICIT().node(call(softcap=1.0, form={"scalars": form})).fed())
            self.assertEqual({"scale", "cap"} <= set(names), fed)

    def test_unsupported(self):
        for options in [dict(scale=0.3, form={"scale": "divide"}), dict(scale=0.0, form={"scale": "divide"}),
                        dict(scale=65536.0, dtype="f16", form={"scale": "divide"}),
                        dict(scale=-1.0, form={"scale": "roots"}), dict(scale=1e300), dict(lse=np.zeros((1, 1, 2)))]:
            with self.assertRaises(Unsupported, msg=options):
                node_of(EXPLICIT(), call(**options))

    def test_windows_and_lengths_are_masks(self):
        c = call(b=2, lq=3, lk=5, causal=True, align=BOTTOM_RIGHT, kv_lengths=np.array([4, 5], np.int32), window_left=1)
        EXPLICIT().attention(c)
        self.assertFalse(far(c))


if __name__ == "__main__":
    unittest.main()
