"""The adapters of ONNX Runtime where tokens are generated: rotary embeddings, beams, quantised numbers, SparseAttention.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where onnxruntime is not installed there.
"""

import unittest

from need_package import need


need("onnxruntime", "./run test installs it")
import numpy as np

from attest import Refused, Unsupported
from attest.adapters._forms import words
from attest.adapters._onnx_call import crossed
from attest.adapters._onnxruntime_quantised import quantised, step_of, steps
from attest.adapters._rotary import caches, turned_back
from attest.adapters.onnxruntime import SUBJECTS
from attention_calls import BOTTOM_RIGHT, battery, call, far, open_keys
from onnx_calls import compare_script, node_of

GQA, MHA, DECODER, Q, SPARSE = ("GroupQueryAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention", "QAttention",
                                "SparseAttention")
LENGTHS = np.array([3, 5], np.int32)


def whole(c):
    """The call with integers in place of its numbers, which eight bits hold."""
    for name in "qkv":
        setattr(c, name, np.rint(3 * getattr(c, name)).astype(getattr(c, name).dtype))
    return c


def judged(case, name, form, dtype="f32", made=lambda c: c, **shape):
    """The number of problems of the battery that this form says, all of them rightly, and with the script that gives the same."""
    subject, count = SUBJECTS[name](), 0
    for problem, c in battery(dtype, form=form, **shape):
        made(c)
        try:
            subject.attention(c)
        except Unsupported:
            continue
        count += 1
        case.assertFalse(far(c), (name, form, problem))
        compare_script(case, subject, c)
    return count


def null_key(c):
    """The call with zeros as its first key and value."""
    for name in "kv":
        setattr(c, name, getattr(c, name).copy())
        getattr(c, name)[:, :, 0] = 0
    return c


class Sinks(unittest.TestCase):
    """A first key of zeros, in its place a sink of each head."""

    def said(self, value, dtype="f32", **options):
        c = null_key(call(dtype=dtype, d=8, dv=8, form={"sink": value}, **options))
        subject = SUBJECTS[GQA]()
        subject.attention(c)
        self.assertFalse(far(c), (value, options))
        compare_script(self, subject, c)
        return node_of(subject, c)

    def test_they_are_what_that_key_is(self):
        bias = np.array([0.5, -3.0, 2.0, -1.0], np.float32).reshape(1, 4, 1, 1) + np.zeros((1, 4, 1, 5), np.float32)
        for dtype in "f32", "f16":
            own = bias.astype(np.float16) if dtype == "f16" else bias
            for value in "key", "smooth":
                for options in (dict(lq=1, lk=5), dict(b=2, lq=1, lk=5), dict(lq=4, lk=5, causal=True, align=BOTTOM_RIGHT),
                                dict(lq=2, lk=5, causal=True, align=BOTTOM_RIGHT), dict(lq=1, lk=5, softcap=0.75),
                                dict(b=2, lq=1, lk=5, kv_lengths=LENGTHS, causal=True, align=BOTTOM_RIGHT)):
                    node = self.said(value, dtype, hq=4, hkv=2, **options)
                    self.assertEqual("smooth_softmax" in node.attributes, value == "smooth")
                    self.assertEqual("head_sink" in node.inputs, value == "key")
            node = self.said("key", dtype, hq=4, hkv=2, lq=1, lk=5, bias=own)
            self.assertEqual(node.inputs["head_sink"].tolist(), [0.5, -3, 2, -1])
            self.assertEqual(node.inputs["key"].shape[1], 1)

    def test_what_is_no_sink_is_said_so(self):
        subject = SUBJECTS[GQA]()
        for c in (call(d=8, dv=8, lq=1, lk=5, form={"sink": "key"}),
                  null_key(call(d=8, dv=8, lq=4, lk=4, causal=True, form={"sink": "key"})),
                  null_key(call(d=8, dv=8, lq=1, lk=5, window_left=2, causal=True, align=BOTTOM_RIGHT, form={"sink": "key"})),
                  null_key(call(d=8, dv=8, hq=1, lq=1, lk=5, bias=np.ones((1, 1, 1, 5), np.float32), form={"sink": "smooth"}))):
            with self.assertRaises(Unsupported):
                subject.attention(c)


class Rotations(unittest.TestCase):
    def test_what_is_turned_back_comes_out_as_it_was(self):
        rng = np.random.default_rng(0)
        for dtype in np.float16, np.float32:
            x = rng.standard_normal((2, 3, 5, 8)).astype(dtype)
            positions = rng.integers(0, 7, (2, 5))
            cos, sin = caches(7, 8, dtype)
            self.assertGreater(len({tuple(row) for row in cos}), 1)  # neighbours turn by different angles
            cos, sin = cos[positions][:, None], sin[positions][:, None]
            for interleaved in False, True:
                a, b = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, 4), slice(4, None))
                back = turned_back(x, positions, interleaved)
                self.assertTrue(np.any(back != x))
                again = np.empty_like(x)
                again[..., a] = back[..., a] * cos - back[..., b] * sin
                again[..., b] = back[..., a] * sin + back[..., b] * cos
                np.testing.assert_array_equal(again, x)
        with self.assertRaises(Unsupported):
            turned_back(np.full((1, 1, 1, 2), np.inf), np.zeros((1, 1), int), False)

    def test_operators_turn_every_token_by_its_own_number(self):
        for dtype in "f16", "f32":
            for value in "halves", "interleaved", "positions":
                self.assertGreaterEqual(judged(self, GQA, {"rotary": value}, dtype, d=16, dv=16), 8)
                self.assertGreaterEqual(judged(self, GQA, {"rotary": value, "qkv": "packed"}, dtype, d=16, dv=16), 8)
        for value in "halves", "interleaved":
            self.assertGreaterEqual(judged(self, SPARSE, {"rotary": value}, d=16, dv=16, bias=None, kv_lengths=None), 8)

    def test_of_as_many_tokens_as_there_are_the_first_number_alone_is_read(self):
        for lq in 1, 2, 3:  # a first prompt, as the kernel sees it, has as many queries as keys
            for lk in 2, 3:
                c = call(lq=lq, lk=lk, d=16, dv=16, form={"rotary": "positions", "cache": "all"})
                try:
                    SUBJECTS[GQA]().attention(c)
                except Unsupported:
                    self.assertGreater(lq, lk)
                    continue
                self.assertFalse(far(c), (lq, lk))

    def test_a_mask_that_is_added_is_not_asked_where_a_score_may_overflow(self):
        keep = np.array([True, False, True])
        for name in GQA, MHA, DECODER, "contrib-Attention":
            c = call(b=1, hq=2, lq=1, lk=3, d=8, dv=8, keep=np.stack([keep, ~keep])[:, None])
            if name in (GQA, MHA):  # the others say no such mask of keys that are not new
                SUBJECTS[name]().node(c)
            c.q = np.full_like(c.q, 2e38)
            with self.assertRaises(Unsupported):
                SUBJECTS[name]().node(c)

    def test_a_token_turned_by_another_number_is_seen(self):
        c = call(lq=4, lk=4, d=16, causal=True, form={"rotary": "halves"})
        subject = SUBJECTS[GQA]()
        node = subject.node(c)
        node.inputs = [(n, np.roll(a, 1, 0) if n in ("cos_cache", "sin_cache") else a) for n, a in node.inputs]
        c.out[...] = subject.engine.run(node).reshape(c.out.shape)
        self.assertTrue(far(c))

    def test_widths(self):
        for name in GQA, SPARSE:
            with self.assertRaises(Unsupported):
                SUBJECTS[name]().node(call(lq=3, lk=3, d=8, causal=True, form={"rotary": "halves"}))


class Beams(unittest.TestCase):
    def test_every_other_token_lies_in_the_other_row(self):
        past = np.arange(6.0).reshape(2, 1, 3, 1)
        keys, _, beams = crossed(past, past, 4)
        np.testing.assert_array_equal(keys[:, 0, :, 0], [[0, 4, 2], [3, 1, 5]])
        self.assertEqual(beams.shape, (1, 2, 7))
        for beam, row in enumerate(beams[0]):
            np.testing.assert_array_equal([keys[source, 0, t, 0] for t, source in enumerate(row[:3])], past[beam, 0, :, 0])
        with self.assertRaises(Unsupported):
            crossed(past[:1], past[:1], 4)

    def test_operators_read_tokens_where_they_lie(self):
        shape = dict(b=4, lq=1, d=8, dv=8, keep=None, bias=None, kv_lengths=None, _rows=False)
        for dtype in "f16", "f32":
            self.assertGreaterEqual(judged(self, DECODER, {"keys": "shared", "beam": "two"}, dtype, **shape), 12)
            self.assertGreaterEqual(judged(self, MHA, {"past": "shared", "beam": "two"}, dtype, **shape), 12)

    def test_several_queries_read_them_elsewhere(self):
        c = call(b=2, lq=2, lk=6, form={"past": "shared", "beam": "two"})  # ort-mha-5
        SUBJECTS[MHA]().attention(c)
        self.assertTrue(far(c))

    def test_outputs_of_the_present(self):
        handed = lambda **form: node_of(SUBJECTS[MHA](), call(lq=1, form=form)).outputs
        self.assertEqual(handed(past="half", present="none"), ["output"])
        self.assertEqual(handed(past="half"), ["output", "present_key", "present_value"])
        self.assertEqual(len(handed(past="shared", present="none")), 3)  # "requires both present_key and present_value outputs"
        self.assertEqual(handed(present="none", qk_output="asked"), ["output", "", "", "qk"])

    def test_packed_queries_are_refused(self):
        with self.assertRaisesRegex(Refused, "Tensor size .* != new size"):  # ort-decoder-5
            SUBJECTS[DECODER]().attention(call(lq=1, d=8, form={"keys": "packed"}))


class Quantised(unittest.TestCase):
    def test_steps(self):
        columns = np.array([[3, 0.25, 0, 6.5], [1.5, -0.25, 0, -1]])
        np.testing.assert_array_equal(step_of(columns, 127), [0.5, 0.25, 1, 0.5])
        np.testing.assert_array_equal(step_of(np.array([[np.float32(0.3)], [0], [-np.float32(0.3)]]), 127), [np.float32(0.3)])
        for far_apart in [[1.0], [1 / 128]], [[0.1], [0.3]], [[np.nan], [1.0]], [[np.inf], [1.0]], [[2.0**-140], [2.0**-140]]:
            with self.assertRaises(Unsupported, msg=far_apart):
                step_of(np.array(far_apart), 127)
        x = np.rint(3 * np.random.default_rng(0).standard_normal((2, 3, 4, 5)))
        for kind, shape in ("tensor", (1,)), ("channel", (1, 3, 1, 5)):
            step = steps(x, kind, 127)
            self.assertEqual(step.shape, shape)
            np.testing.assert_array_equal(quantised(x, step) * step, x)

    def test_caches_of_eight_bits(self):
        for dtype in "f16", "f32":
            for value in "int8_tensor", "int8_channel":
                for more in {}, {"cache": "shared"}, {"rotary": "halves"}, {"qkv": "packed"}:
                    self.assertGreaterEqual(judged(self, GQA, {"kept_as": value, **more}, dtype, whole, d=16, dv=16), 8, more)

    def test_another_step_is_seen(self):
        c = whole(call(lq=1, lk=4, d=8, causal=True, align=BOTTOM_RIGHT, form={"kept_as": "int8_tensor"}))
        subject = SUBJECTS[GQA]()
        node = subject.node(c)
        node.inputs = [(n, 2 * a if n == "v_scale" else a) for n, a in node.inputs]
        c.out[...] = subject.engine.run(node).reshape(c.out.shape)
        self.assertTrue(far(c))

    def test_projections_of_eight_bits(self):
        subject, shape = SUBJECTS[Q](), {"d": 4, "dv": 4, "bias": None, "keep": None}
        for form, values in subject.forms.items():
            for value in words(values):
                if value != "shared":
                    self.assertGreaterEqual(judged(self, Q, {form: value}, "f32", whole, **shape), 12, (form, value))
        for more in {"weight": "uint8", "zero_points": "both"}, {"steps": "tensor", "zero_points": "both"}:
            self.assertGreaterEqual(judged(self, Q, more, "f32", whole, **shape), 12, more)
        with self.assertRaisesRegex(Refused, "past_sequence_length tensor must be of one element"):  # ort-qattention-2
            subject.attention(whole(call(lq=2, lk=3, form={"past": "shared"})))

    def test_unsupported_of_qattention(self):
        for options in dict(hq=4, hkv=2), dict(dv=3), dict(softcap=1.0), dict(bias=np.zeros((2, 3))), dict(lq=4), dict(
                keep=np.ones((2, 3), bool)), dict(causal=True), dict(b=1025, lq=1, lk=1), dict(dtype="f16"):
            with self.assertRaises(Unsupported, msg=options):
                SUBJECTS[Q]().node(whole(call(**options)))
        with self.assertRaises(Unsupported):
            SUBJECTS[Q]().node(call())  # no multiples of one step


class Sparse(unittest.TestCase):
    def handed(self, **options):
        return node_of(SUBJECTS[SPARSE](), call(**{"d": 8, "causal": True, **options}))

    def blocks(self, lq, lk, size=16):
        row, column = np.arange(lk - lq, lk)[:, None], np.arange(lk)
        return row // size == column // size

    def test_battery_in_every_form(self):
        shape = dict(d=16, dv=16, bias=None, kv_lengths=None)
        self.assertGreaterEqual(judged(self, SPARSE, {}, "f16", **shape), 8)
        for form, values in SUBJECTS[SPARSE]().forms.items():
            for value in words(values):
                self.assertGreaterEqual(judged(self, SPARSE, {form: value}, **shape), 8, (form, value))

    def test_blocks(self):
        for hq, hkv, keep in (1, 1, self.blocks(40, 40)), (4, 2, np.stack([self.blocks(40, 40), np.ones((40, 40), bool)] * 2)):
            for form in {}, {"layouts": "heads"}:
                c = call(hq=hq, hkv=hkv, lq=40, lk=40, d=8, keep=keep, causal=True, form=form)
                SUBJECTS[SPARSE]().attention(c)
                self.assertFalse(far(c), (hq, form))
        got = self.handed(lq=40, lk=40, keep=self.blocks(40, 40)).inputs
        np.testing.assert_array_equal(got["block_row_indices"], [[0, 1, 2, 3]])
        np.testing.assert_array_equal(got["block_col_indices"], [[0, 1, 2]])
        two = self.handed(hq=2, lq=40, lk=40, keep=np.stack([self.blocks(40, 40), np.ones((40, 40), bool)])).inputs
        np.testing.assert_array_equal(two["block_row_indices"], [[0, 1, 2, 3], [0, 1, 3, 6]])
        np.testing.assert_array_equal(two["block_col_indices"], [[0, 1, 2, -1, -1, -1], [0, 0, 1, 0, 1, 2]])
        c = call(lq=1, lk=40, d=8, keep=self.blocks(1, 40), causal=True, align=BOTTOM_RIGHT)
        SUBJECTS[SPARSE]().attention(c)
        self.assertFalse(far(c))

    def test_drawn_masks_are_the_blocks_that_they_are_made_of(self):
        numbers = np.random.default_rng(3)
        for lq, lk in ((40, 40), (5, 100), (90, 100), (1, 17)):
            opened = numbers.random((2, 7, 7)) < 0.5
            row, column = np.arange(lk - lq, lk) // 16, np.arange(lk) // 16
            got = self.handed(hq=2, lq=lq, lk=lk, keep=opened[:, row][:, :, column], align=BOTTOM_RIGHT).inputs
            for h, (ends, columns) in enumerate(zip(got["block_row_indices"], got["block_col_indices"])):
                for i in range((lk - lq) // 16, (lk - 1) // 16 + 1):
                    np.testing.assert_array_equal(columns[ends[i]:ends[i + 1]], np.flatnonzero(opened[h, i, :i + 1]), (lq, lk, h, i))

        got = self.handed(lq=1, lk=40, keep=self.blocks(1, 40), kv_lengths=np.array([3]), align=BOTTOM_RIGHT).inputs
        np.testing.assert_array_equal(got["block_row_indices"], [[0, 0]])  # the sample's own tokens lie in one block

    def test_a_mask_of_many_blocks(self):
        got = self.handed(lq=1, lk=160000, keep=np.arange(160000)[None] >= 16, align=BOTTOM_RIGHT).inputs  # too many for a step of Python each
        ends, columns = got["block_row_indices"][0], got["block_col_indices"][0]
        np.testing.assert_array_equal(columns[ends[9999]:ends[10000]], np.arange(1, 10000))
        with self.assertRaises(Unsupported):
            self.handed(lq=1, lk=2**20, align=BOTTOM_RIGHT)

    def test_calls_without_a_causal_mask_have_a_sample_for_each_query(self):
        got = self.handed(b=2, lq=3, lk=5, causal=False).inputs
        self.assertEqual((got["query"].shape, got["past_key"].shape[:2]), ((6, 1, 8), (6, 1)))
        np.testing.assert_array_equal(got["key_total_sequence_lengths"], [5] * 6)
        self.assertGreaterEqual(judged(self, SPARSE, {}, causal=False, d=8, dv=8, bias=None, kv_lengths=None), 8)

    def test_a_shorter_sample_sees_more_than_its_keys(self):
        for options in dict(lq=1, lk=5), dict(lq=5, lk=6):  # ort-sparse-1
            c = call(b=2, d=8, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS[::-1].copy(), **options)
            SUBJECTS[SPARSE]().attention(c)
            c.out[~open_keys(c).any(-1)] = 0  # nothing is promised
            self.assertTrue(far(c), options)

    def test_unsupported(self):
        for options in dict(d=4), dict(dv=16), dict(softcap=1.0), dict(bias=np.zeros((2, 3))), dict(
                causal=False, lq=2, lk=3, keep=np.tril(np.ones((2, 3), bool))), dict(lq=3, lk=3, keep=np.eye(3, dtype=bool)), dict(
                b=2, lq=3, lk=3, keep=np.array([[[[1, 1, 1]]], [[[1, 0, 1]]]], bool)), dict(
                b=2, lq=2, lk=5, align=BOTTOM_RIGHT, kv_lengths=LENGTHS), dict(dtype="f64", lq=3), dict(lq=2, lk=3):
            with self.assertRaises(Unsupported, msg=options):
                self.handed(**options)


if __name__ == "__main__":
    unittest.main()
