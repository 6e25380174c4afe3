"""The onnxruntime adapters: what they hand to the operator, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where onnxruntime is not installed there.
"""

import unittest
from functools import partial
from types import SimpleNamespace

from need_package import ROOT, need

need("onnxruntime", "./run test installs it")
import numpy as np
import onnxruntime

from attest import Refused, Unsupported
from attest.adapters import _onnxruntime_session as session
from attest.adapters._forms import words
from attest.adapters.onnx import SUBJECTS as REFERENCES
from attest.adapters.onnxruntime import SUBJECTS
from attention_calls import BOTTOM_RIGHT, TOP_LEFT, battery, call, empty_calls, far
from onnx_calls import agree, compare_script, empty_rows, node_of


# The subjects that test_onnxruntime_contrib.py and test_onnx_graphs.py do not test.
STANDARD = {name: make for name, make in SUBJECTS.items() if name.startswith(("Attention", "MultiHeadAttention"))}
REFUSED_MASK = "inconsistent q_sequence_length"  # ort-attention-1


REFERENCE = REFERENCES["Attention"]


def handed(name, c):
    return node_of(SUBJECTS[name](), c)


class Agreement(unittest.TestCase):
    """Every subject agrees with the reference where no finding stands, and the reference would notice."""

    def test_battery(self):
        least = {"f16": 8, "f32": 8, "f64": 10}  # each subject says at least so many of the problems
        for name, make in STANDARD.items():
            subject = make()
            for dtype in subject.describe()["dtypes"]:
                known = self.is_double_finding if dtype == "f64" else lambda c: False
                for threads in (1, 2):
                    refuses = REFUSED_MASK if name == "Attention-broadcast-mask" else None
                    judged = agree(self, subject, dtype, known=known, refuses=refuses, threads=threads)
                    self.assertGreaterEqual(judged, least[dtype], name)

    @staticmethod
    def is_double_finding(c):
        """Steps around ort-attention-10 by a scale with an exact root; ort-attention-8 and 9 are causal with a mask."""
        c.scale, c.scale_is_default = 0.25, False
        masked = c.bias is not None or c.keep is not None or c.kv_lengths is not None
        return c.causal and (masked or c.align == BOTTOM_RIGHT)

    def test_every_form(self):
        for name in ("Attention", "MultiHeadAttention"):
            subject = SUBJECTS[name]()
            for form, values in subject.forms.items():
                for value in words(values):
                    if (form, value) in {("beam", "two"), ("present", "none")}:  # beams are of a buffer; ort-mha-7
                        continue
                    refuses = REFUSED_MASK if (form, value) == ("mask", "broadcast") else None
                    known = empty_rows if (form, value) == ("qk_output", "read_2") else lambda c: False  # ort-attention-13
                    judged = sum(agree(self, subject, dtype, {form: value}, refuses=refuses, known=known)
                                 for dtype in set(subject.describe()["dtypes"]) - {"f64"})
                    self.assertGreaterEqual(judged, 16, (name, form, value))

    def test_scores_and_weights_that_are_read_are_judged(self):
        """Out is made of them in each mode, and is wrong where one of them is."""
        subject, moved = SUBJECTS["Attention"](), SUBJECTS["Attention"]()

        def run(node):
            scores = session.run(node)
            scores[0, 0, -1, 0] += 0.25
            return scores

        moved.engine = SimpleNamespace(run=run)
        for mode in range(4):
            for options in {}, dict(softcap=0.5), dict(hq=4, hkv=2, bias=np.ones((3, 3), "f")), dict(causal=True):
                for one, wrong in (subject, False), (moved, True):
                    c = call(lq=3, lk=3, form={"qk_output": f"read_{mode}"}, **options)
                    one.attention(c)
                    self.assertEqual(far(c), wrong, (mode, options))

    def test_normalised_scores_that_are_read_are_judged(self):
        """Out is made of them, whatever they have where a key is closed, and is wrong where an open one is."""
        mask = dict(b=2, hq=2, keep=np.array([[1, 0, 1], [1, 1, 0]], bool).reshape(2, 1, 1, 3))
        moves = {"an open score": lambda scores: scores[..., 0].__iadd__(0.25), "nothing": lambda scores: None,
                 "a closed one": lambda scores: scores[0, 0, :, 1].fill(np.nan)}
        for name, options in ("MultiHeadAttention", {}), ("DecoderMaskedMultiHeadAttention", dict(lq=1)):
            for dtype in "f16", "f32":
                for what, move in moves.items():
                    subject = SUBJECTS[name]()

                    def run(node):
                        scores = session.run(node)
                        move(scores)
                        return scores

                    subject.engine = SimpleNamespace(run=run)
                    c = call(**mask, **options, dtype=dtype, form={"qk_output": "read"})
                    subject.attention(c)
                    self.assertEqual(far(c), what == "an open score", (name, dtype, what))
            with self.assertRaises(Unsupported):
                SUBJECTS[name]().attention(call(**options, bias=np.zeros((1, 3)), form={"qk_output": "read"}))

    def test_tensors_without_elements_can_be_said(self):
        """Computed ones can be, too: `explicit`. Kernels may end a process on them (ort-attention-12)."""
        for name in ("Attention", "MultiHeadAttention", "GroupQueryAttention", "contrib-Attention", "explicit"):
            subject, said = SUBJECTS[name](), set()
            for problem, c in empty_calls(subject):
                with self.subTest(name, problem=problem):
                    try:
                        subject.node(c).model()
                        if name == "explicit":
                            subject.attention(c)
                        said.add(problem[0])
                    except Unsupported:
                        pass
            dims = subject.describe()["supports"]["dims"].values()
            self.assertEqual(len(said), sum(isinstance(range, list) and range[0] == 0 for range in dims), name)

    def test_a_wrong_corner_is_far(self):
        c = call(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5)
        SUBJECTS["Attention"]().attention(c)
        self.assertFalse(far(c))
        c.align = TOP_LEFT
        self.assertTrue(far(c))

    def test_a_nan_is_far(self):
        c = call()
        self.assertTrue(far(c))

    def test_views_are_read_through_their_strides_and_inputs_left_alone(self):
        for name in ("Attention", "Attention-3d", "MultiHeadAttention", "MultiHeadAttention-bnsh"):
            c = call(b=2, hq=3, lq=4, lk=5, d=3)
            c.q = c.q.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)
            c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
            c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
            c.out = np.full((2, 4, 3, 3), np.nan, np.float32).transpose(0, 2, 1, 3)
            before = [x.copy() for x in (c.q, c.k, c.v)]
            SUBJECTS[name]().attention(c)
            self.assertFalse(far(c), name)
            for x, y in zip(before, (c.q, c.k, c.v)):
                np.testing.assert_array_equal(x, y)

    def test_a_session_is_reused_over_shapes_and_a_static_one_is_not(self):
        for name, sessions in (("Attention", 1), ("Attention-static", 2)):
            session._sessions.made.clear()
            subject = SUBJECTS[name]()
            for lk in (3, 4, 3):
                c = call(lk=lk)
                subject.attention(c)
                self.assertFalse(far(c))
            self.assertEqual(len(session._sessions.made), sessions, name)

    def test_kept_sessions_are_bounded(self):
        session._sessions.made.clear()
        subject = SUBJECTS["Attention"]()
        for i in range(session._sessions.most + 3):
            subject.attention(call(scale=(i + 1) / 128))
        self.assertEqual(len(session._sessions.made), session._sessions.most)


class Scripts(unittest.TestCase):
    """The script of a call gives what the subject gives, bit for bit, or the refusal that the subject reports."""

    def test_battery(self):
        for name, make in STANDARD.items():
            subject = make()
            for dtype in subject.describe()["dtypes"]:
                for problem, c in battery(dtype):
                    with self.subTest(name, dtype=dtype, problem=problem):
                        compare_script(self, subject, c)

    def test_every_form(self):
        for name in ("Attention", "MultiHeadAttention"):
            subject = SUBJECTS[name]()
            for form, values in subject.forms.items():
                for value in words(values)[1:]:
                    if (form, value) == ("present", "none"):  # ort-mha-7: what comes hangs on what lies in memory
                        continue
                    for problem, c in battery("f32", form={form: value}):
                        with self.subTest(name, form=form, value=value, problem=problem):
                            compare_script(self, subject, c)

    def test_tensors_are_named_and_not_repeated(self):
        for name, options in [("Attention", dict(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5)),
                              ("Attention-3d", dict(b=2, hq=4, hkv=2)),
                              ("MultiHeadAttention", dict(b=2, hq=2, kv_lengths=np.array([1, 3], np.int32)))]:
            self.assertNotIn("np.array(", SUBJECTS[name]().script(call(**options)))


class AttentionEncoding(unittest.TestCase):
    def test_a_diagonal_behind_a_past(self):
        """However many queries and new keys there are: a window of the past's keys to the right."""
        got = handed("Attention", call(lq=3, lk=5, window_right=2, kv_lengths=np.array([5], np.int32)))
        self.assertEqual((got.inputs["past_key"].shape[2], got.inputs["K"].shape[2], got.attributes), (2, 3, {"is_causal": 1}))
        for lq in (1, 2, 3, 7):
            c = call(lq=lq, lk=5, window_right=2)
            SUBJECTS["Attention"]().attention(c)
            self.assertEqual(far(c), lq == 1, lq)  # ort-attention-14
            REFERENCE().attention(c)
            self.assertFalse(far(c), lq)
        for options in (dict(window_left=1, window_right=2), dict(window_right=5), dict(window_right=0), dict(causal=True, window_right=2),
                        dict(align=BOTTOM_RIGHT, window_right=2), dict(window_right=2, kv_lengths=np.array([4], np.int32))):
            with self.assertRaises(Unsupported):
                handed("Attention", call(lq=3, lk=5, **options))

    def test_plain(self):
        got = handed("Attention", call())
        self.assertEqual(set(got.inputs), {"Q", "K", "V"})
        self.assertEqual(got.attributes, {})

    def test_the_default_scale_is_left_out_and_an_equal_one_is_not(self):
        self.assertEqual(handed("Attention", call(d=4, scale=0.5)).attributes, {"scale": 0.5})

    def test_three_dimensions(self):
        got = handed("Attention-3d", call(b=2, hq=4, hkv=2, lq=3, lk=5, d=3, dv=6))
        self.assertEqual(got.attributes, {"q_num_heads": 4, "kv_num_heads": 2})
        self.assertEqual([got.inputs[n].shape for n in "QKV"], [(2, 3, 12), (2, 5, 6), (2, 5, 12)])

    def test_top_left_is_a_node_without_past_or_lengths(self):
        got = handed("Attention", call(causal=True, lq=2, lk=5))
        self.assertEqual(got.attributes, {"is_causal": 1})
        self.assertEqual(set(got.inputs), {"Q", "K", "V"})

    def test_bottom_right_is_a_past(self):
        got = handed("Attention", call(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5))
        self.assertEqual([got.inputs[n].shape[2] for n in ("past_key", "past_value", "K", "V")], [3, 3, 2, 2])
        self.assertEqual(got.outputs, ["Y", "present_key", "present_value"])

    def test_bottom_right_with_fewer_keys_than_queries_is_a_length(self):
        c = call(b=2, causal=True, align=BOTTOM_RIGHT, lq=5, lk=2)
        np.testing.assert_array_equal(handed("Attention", c).inputs["nonpad_kv_seqlen"], [2, 2])
        with self.assertRaises(Unsupported):
            handed("Attention-23", c)

    def test_lengths(self):
        lengths = np.array([1, 3], np.int32)
        inputs = handed("Attention", call(b=2, kv_lengths=lengths)).inputs
        self.assertEqual(inputs["nonpad_kv_seqlen"].dtype, np.int64)
        np.testing.assert_array_equal(inputs["nonpad_kv_seqlen"], lengths)
        self.assertNotIn("attn_mask", inputs)
        # At the top left, nonpad_kv_seqlen would move the diagonal: the lengths join the mask.
        for name, causal in (("Attention", True), ("Attention-23", False)):
            inputs = handed(name, call(b=2, lq=1, causal=causal, kv_lengths=lengths)).inputs
            self.assertNotIn("nonpad_kv_seqlen", inputs)
            np.testing.assert_array_equal(inputs["attn_mask"][:, 0, 0], [[1, 0, 0], [1, 1, 1]])

    def test_mask_ranks(self):
        def shape(name, mask_shape, **what):
            ones = np.ones(mask_shape, bool)
            return handed(name, call(b=2, hq=4, lq=3, lk=5, keep=ones, **what)).inputs["attn_mask"].shape

        self.assertEqual(shape("Attention", (1, 5)), (1, 5))
        self.assertEqual(shape("Attention", (3, 5)), (3, 5))
        self.assertEqual(shape("Attention", (4, 3, 5)), (4, 3, 5))
        self.assertEqual(shape("Attention", (2, 1, 3, 5)), (2, 1, 3, 5))
        self.assertEqual(shape("Attention", (2, 1, 1, 5)), (2, 1, 3, 5))
        self.assertEqual(shape("Attention-broadcast-mask", (2, 1, 1, 5)), (2, 1, 1, 5))
        self.assertEqual(shape("Attention-broadcast-mask", (4, 1, 5)), (4, 1, 5))

    def test_forms_of_masks(self):
        def mask(form, keep, **what):
            return handed("Attention", call(b=2, hq=4, lq=3, lk=5, keep=keep, form={"mask": form}, **what)).inputs["attn_mask"]

        row = np.array([[1, 0, 1, 0, 0]], bool)
        self.assertEqual(mask("full", row).shape, (2, 4, 3, 5))
        np.testing.assert_array_equal(mask("1d", row), row[0])
        np.testing.assert_array_equal(mask("short", row), row[:, :3])
        np.testing.assert_array_equal(mask("short", np.zeros((1, 5), bool)), [[False] * 2])
        bias = np.where(row, np.float32(2), np.float32(-np.inf))
        np.testing.assert_array_equal(mask("short", None, bias=bias), bias[:, :3])
        self.assertEqual(mask("0d", np.ones((1, 1), bool)).shape, ())
        for form, keep in (("1d", np.ones((3, 5), bool)), ("0d", row), ("short", row[:, ::-1])):
            with self.assertRaises(Unsupported):
                mask(form, keep)

    def test_forms_of_a_call(self):
        def said(name="Attention", **form):
            return handed(name, call(b=2, hq=2, lq=3, lk=4, keep=np.ones((3, 4), bool), form=form))

        self.assertEqual(said(past="half").inputs["past_key"].shape, (2, 2, 2, 2))
        self.assertEqual(said(past="empty").inputs["past_key"].shape, (2, 2, 0, 2))
        self.assertEqual(said(constants="mask").constants, ("attn_mask",))
        self.assertEqual(said(constants="kv").constants, ("K", "V"))
        self.assertEqual(said(qk_output="3").outputs, ["Y", "", "", "qk_matmul_output"])
        self.assertEqual(said(qk_output="1", past="half").outputs[1:], ["present_key", "present_value", "qk_matmul_output"])
        self.assertEqual(said(softmax_precision="f32").attributes, {"softmax_precision": 1})
        self.assertEqual(said(scale="explicit").attributes, {"scale": float(np.float32(0.5**0.5))})
        self.assertEqual(said(optimisation="none").optimisation, "none")
        self.assertTrue(said(build="static").static)
        self.assertEqual(said(opset="23").opset, 23)
        mha = partial(said, "MultiHeadAttention")
        self.assertEqual(mha(past="all").inputs["key"].shape, (2, 0, 4))
        self.assertEqual(mha(padding="3d").inputs["key_padding_mask"].shape, (2, 3, 4))
        self.assertEqual(mha(projection_bias="zeros").inputs["projection_bias"].shape, (12,))
        self.assertEqual(mha(layout="bnsh").inputs["key"].shape, (2, 2, 4, 2))

    def test_a_shorthand_keeps_its_form_and_has_no_others(self):
        self.assertEqual(SUBJECTS["Attention-3d"]().describe()["supports"]["forms"], {})
        self.assertIn("layout", SUBJECTS["Attention"]().describe()["supports"]["forms"])
        with self.assertRaises(ValueError):
            SUBJECTS["Attention"](layout="5d")

    def test_one_sample_has_the_mask_form_of_its_batch(self):
        keep = np.ones((2, 1, 1, 5), bool)
        for samples in (2, 1):
            c = call(b=samples, lq=3, lk=5)
            c.keep = np.lib.stride_tricks.as_strided(keep, (samples, 1, 3, 5), (5, 0, 0, 1))
            self.assertEqual(handed("Attention", c).inputs["attn_mask"].shape[-2:], (3, 5))

    def test_mask_types(self):
        keep = np.array([[1, 0, 1], [0, 1, 1]], bool)
        bias = np.arange(6, dtype=np.float16).reshape(2, 3)
        self.assertEqual(handed("Attention", call(keep=keep)).inputs["attn_mask"].dtype, bool)
        as_float = handed("Attention-float-mask", call(keep=keep, dtype="f16")).inputs["attn_mask"]
        self.assertEqual(as_float.dtype, np.float16)
        np.testing.assert_array_equal(as_float, [[0, -np.inf, 0], [-np.inf, 0, 0]])
        both = handed("Attention", call(keep=keep, bias=bias, dtype="f16")).inputs["attn_mask"]
        self.assertEqual(both.dtype, np.float16)
        np.testing.assert_array_equal(both, [[0, -np.inf, 2], [-np.inf, 4, 5]])

    def test_unsupported(self):
        lengths = np.array([1, 3], np.int32)
        for name, c in [
            ("Attention", call(scale=-1.0)),
            ("Attention", call(scale=1e300)),
            ("Attention", call(scale=0.3, dtype="f64")),
            ("Attention", call(window_left=1)),
            ("Attention", call(lse=np.zeros((1, 1, 2)))),
            ("Attention", call(bias=np.zeros((2, 3), np.float32), bias_dtype="f32", dtype="f16")),
            ("Attention-past", call(causal=True)),
            ("Attention-past", call(b=2, causal=True, align=BOTTOM_RIGHT, kv_lengths=lengths)),
        ]:
            with self.assertRaises(Unsupported):
                handed(name, c)


class MultiHeadAttentionEncoding(unittest.TestCase):
    name = "MultiHeadAttention"

    def test_plain(self):
        got = handed(self.name, call(b=2, hq=4, lq=3, lk=5, d=2, dv=6))
        self.assertEqual(got.attributes, {"num_heads": 4})
        self.assertEqual([got.inputs[n].shape for n in ("query", "key", "value")], [(2, 3, 8), (2, 5, 8), (2, 5, 24)])
        got = handed("MultiHeadAttention-bnsh", call(b=2, hq=4, lq=3, lk=5))
        self.assertEqual([got.inputs[n].shape for n in ("query", "key")], [(2, 3, 8), (2, 4, 5, 2)])

    def test_key_padding_masks(self):
        def masks(mask_shape=None, **what):
            keep = None if mask_shape is None else np.arange(np.prod(mask_shape)).reshape(mask_shape) % 3 > 0
            inputs = handed(self.name, call(b=2, hq=4, lq=3, lk=5, keep=keep, **what)).inputs
            return inputs.get("key_padding_mask"), inputs.get("attention_bias")

        lengths = np.array([2, 5], np.int32)
        np.testing.assert_array_equal(masks(kv_lengths=lengths)[0], lengths)
        self.assertEqual(masks((1, 5))[0].shape, (2, 5))
        self.assertEqual(masks((3, 5))[0].shape, (2, 3, 5))
        padding, bias = masks((1, 5), kv_lengths=lengths)
        np.testing.assert_array_equal(padding, [[0, 1, 0, 0, 0], [0, 1, 1, 0, 1]])
        self.assertIsNone(bias)
        padding, bias = masks((4, 1, 5), kv_lengths=lengths)
        np.testing.assert_array_equal(padding, lengths)
        self.assertEqual(bias.shape, (1, 4, 3, 5))
        np.testing.assert_array_equal(bias[0, 0, 2], [-np.inf, 0, 0, -np.inf, 0])

    def test_attention_bias_is_broadcast_over_batch_and_heads_only(self):
        for given, expected in (((3, 5), (1, 1, 3, 5)), ((2, 1, 1, 5), (2, 1, 3, 5)), ((1, 4, 3, 5), (1, 4, 3, 5))):
            c = call(b=2, hq=4, lq=3, lk=5, bias=np.zeros(given, np.float32))
            self.assertEqual(handed(self.name, c).inputs["attention_bias"].shape, expected)

    def test_bottom_right_is_a_past(self):
        got = handed(self.name, call(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5))
        self.assertEqual([got.inputs[n].shape for n in ("past_key", "key")], [(1, 1, 3, 2), (1, 2, 2)])
        self.assertEqual(got.attributes["unidirectional"], 1)

    def test_mask_filter_value_is_left_to_its_default(self):
        self.assertNotIn("mask_filter_value", handed(self.name, call()).attributes)
        lowest = handed("MultiHeadAttention-filter-lowest", call()).attributes["mask_filter_value"]
        self.assertEqual(lowest, float(np.finfo(np.float32).min))

    def test_unsupported(self):
        for name, c in [
            (self.name, call(hq=4, hkv=2)),
            (self.name, call(softcap=1.0)),
            (self.name, call(dtype="f64")),
            (self.name, call(causal=True, align=BOTTOM_RIGHT, lq=3, lk=2)),
            (self.name, call(causal=True, align=BOTTOM_RIGHT, lq=2, lk=3, dv=5)),
            ("MultiHeadAttention-bnsh", call(dv=5)),
        ]:
            with self.assertRaises(Unsupported):
                handed(name, c)


class Declarations(unittest.TestCase):
    def test_names_versions_and_descriptions(self):
        self.assertLessEqual({"Attention", "MultiHeadAttention"}, set(SUBJECTS))
        for name, make in SUBJECTS.items():
            subject = make()
            self.assertEqual(subject.name, f"onnxruntime:{name}")
            self.assertIn(onnxruntime.__version__, subject.version)
            self.assertEqual(subject.describe()["ops"], ["layer_norm" if "Norm" in name else "mha" if "block" in name else "attention"])

    def test_pinned_packages(self):
        pinned = (ROOT / "subjects/python/requirements-onnxruntime.txt").read_text().split()
        self.assertEqual([line.split("==")[0] for line in pinned], ["numpy", "onnx", "onnxruntime"])

    def test_a_refusal_is_one_line_without_paths(self):
        with self.assertRaises(Refused) as caught:
            SUBJECTS["Attention"]().attention(call(scale=0.0))
        self.assertEqual(str(caught.exception), "onnxruntime: scale must be greater than 0 if specified")


if __name__ == "__main__":
    unittest.main()
