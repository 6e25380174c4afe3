"""The adapters of ONNX Runtime's contrib operators: what they hand to the operator, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where onnxruntime is not installed there.
"""

import re
import unittest

from need_package import need


need("onnxruntime", "./run test installs it")
import numpy as np

from attest import Refused, Unsupported
from attest.adapters import _onnxruntime_session as session
from attest.adapters._forms import words
from attest.adapters._onnx_node import Node
from attest.adapters.onnxruntime import SUBJECTS
from attention_calls import BOTTOM_RIGHT, TOP_LEFT, battery, call, far, open_keys
from onnx_calls import agree, compare_script, node_of

GQA, PACKED, DECODER = "GroupQueryAttention", "contrib-Attention", "DecoderMaskedMultiHeadAttention"
LENGTHS = np.array([3, 5], np.int32)
# The part of the battery that each says; one query for the decoder, without the mask that has rows of its own.
SHAPES = {GQA: {"d": 16, "dv": 16}, PACKED: {}, DECODER: {"lq": 1, "d": 8, "dv": 8, "keep": None, "bias": None, "_rows": False}}


def handed(name, c):
    return node_of(SUBJECTS[name](), c)


def said(name, c):
    """The call's output, which agrees with the reference."""
    SUBJECTS[name]().attention(c)
    return not far(c)


class Operators(unittest.TestCase):
    def test_battery_in_every_form(self):
        # Judged problems that a form says, at least; no number where nothing else stands below.
        few = {("cache", "empty"): 2, ("cache", "window"): 0, ("keys", "past"): 0, ("keys", "packed"): 0, ("past", "shared"): 0,
               ("beam", "two"): 0, ("kept_as", "int8_tensor"): 0, ("kept_as", "int8_channel"): 0,
               ("sink", "key"): 0, ("sink", "smooth"): 0}
        for name, shape in SHAPES.items():
            subject = SUBJECTS[name]()
            for form, values in subject.forms.items():
                for value in words(values):
                    if (form, value) in {("projection_bias", "none"), ("keys", "reordered")}:  # ort-packed-1, ort-decoder-1
                        continue
                    refuses = {"past": "past_present_share_buffer_ was false",  # ort-decoder-2, -5, ort-contrib-4
                               "packed": "!= new size", "shared": "past_sequence_length tensor must be of one element"}.get(value)
                    for dtype in subject.describe()["dtypes"]:
                        judged = agree(self, subject, dtype, {form: value}, refuses=refuses, **shape)
                        self.assertGreaterEqual(judged, few.get((form, value), 6), (name, form, value))

    def test_scripts(self):
        for name, shape in SHAPES.items():
            subject = SUBJECTS[name]()
            for form, values in subject.forms.items():
                for value in words(values):
                    if (form, value) == ("projection_bias", "none"):  # ort-packed-1
                        continue
                    for problem, c in battery("f32", form={form: value}, **shape):
                        with self.subTest(name, form=form, value=value, problem=problem):
                            compare_script(self, subject, c)

    def test_views_are_read_through_their_strides_and_inputs_left_alone(self):
        for name, form in (GQA, {"cache": "shared"}), (GQA, {}), (PACKED, {}), (DECODER, {"keys": "shared"}):
            c = call(b=2, hq=3, lq=1 if name != PACKED else 5, lk=5, d=8, form=form)
            c.q = c.q.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)
            c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
            c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
            before = [x.copy() for x in (c.q, c.k, c.v)]
            self.assertTrue(said(name, c), (name, form))
            for x, y in zip(before, (c.q, c.k, c.v)):
                np.testing.assert_array_equal(x, y)


class Answers(unittest.TestCase):
    def test_the_operators_answer_so(self):
        """The heads and the quotes have the operators' own words on calls that the adapters do not make."""
        def answers(words, op, feed, outputs=("y",), **attributes):
            inputs = [(name, array) for name, array in feed.items()]
            node = Node(op, "com.microsoft", 17, {"num_heads": 1, **attributes}, inputs, list(outputs), 1)
            with self.assertRaisesRegex(Refused, re.escape(words)):
                session.run(node)

        x = lambda *shape: np.zeros(shape, np.float32)
        i = lambda *values: np.array(values, np.int32)
        prompt = {"query": x(1, 1, 4), "key": x(1, 1, 4), "value": x(1, 1, 4), "past_key": None, "past_value": None,
                  "seqlens_k": i(0), "total_sequence_length": i(1)}
        answers("head_size must be a multiple of 8", GQA, prompt, kv_num_heads=1)
        cross = {**prompt, "query": x(1, 2, 8), "key": x(1, 1, 8), "value": x(1, 1, 8), "past_key": x(1, 1, 2, 8),
                 "past_value": x(1, 1, 2, 8), "seqlens_k": i(2), "total_sequence_length": i(3)}
        answers("key sequence length must be 0 for shared KV (no new KV to append)", GQA, cross, kv_num_heads=1)
        two = {**prompt, "query": x(1, 2, 8), "key": x(1, 3, 8), "value": x(1, 3, 8)}
        answers("query and key must have the same sequence length when past_key is not provided.", GQA, two, kv_num_heads=1)
        none = {**prompt, "query": x(1, 1, 8), "key": x(1, 1, 8), "value": x(1, 1, 8), "seqlens_k": i(-1)}
        answers("seqlens_k[0] = -1 is out of range [0,", GQA, none, kv_num_heads=1)
        short = {**cross, "key": x(1, 0, 8), "value": x(1, 0, 8), "past_key": x(1, 1, 1, 8), "past_value": x(1, 1, 1, 8),
                 "seqlens_k": i(0), "total_sequence_length": i(1)}
        answers("is too small for sequence_length", GQA, short, kv_num_heads=1)
        window = {**cross, "key": x(1, 2, 8), "value": x(1, 2, 8)}
        answers("GroupQueryAttention (CPU): qk_output is not implemented with sliding_window_cache=1.", GQA, window,
                ("y", "present_key", "present_value", "qk"), kv_num_heads=1, sliding_window_cache=1, local_window_size=2,
                qk_output=1)
        one = {"input": x(1, 1, 3), "weights": x(3, 3), "bias": x(3)}
        answers("4D mask in attention cpu kernel is not supported", "Attention", {**one, "mask_index": i([[[1]]])})
        both = {**one, "mask_index": None, "past": x(2, 1, 1, 1, 1), "attention_bias": x(1, 1, 1, 2)}
        answers("Attention cannot have both past and attention_bias", "Attention", both)
        bias = {"query": x(1, 1, 1), "key": x(1, 1, 1, 1), "value": x(1, 1, 1, 1), "mask_index": None,
                "attention_bias": x(1, 1, 1, 1)}
        answers("DecoderMaskedMultiHeadAttention does not support attention bias for cross-attention", DECODER, bias)


class GroupQueryAttentionEncoding(unittest.TestCase):
    def handed(self, **options):
        return handed(GQA, call(**{"d": 8, **options}))

    def test_a_prompt(self):
        got = self.handed(b=2, hq=4, hkv=2, lq=3, lk=3, causal=True)
        self.assertEqual(got.attributes, {"num_heads": 4, "kv_num_heads": 2})
        self.assertEqual({n: a.shape for n, a in got.inputs.items()}, {
            "query": (2, 3, 32), "key": (2, 3, 16), "value": (2, 3, 16), "seqlens_k": (2,), "total_sequence_length": ()})
        np.testing.assert_array_equal(got.inputs["seqlens_k"], [2, 2])
        self.assertEqual(self.handed(lq=3, lk=3).attributes["causal"], 0)
        self.assertEqual(self.handed(lq=3, lk=3, form={"cache": "empty"}).inputs["past_key"].shape, (1, 1, 0, 8))

    def test_the_padding_of_a_prompt_is_where_queries_see_no_key(self):
        c = call(b=2, lq=5, lk=6, d=8, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS)
        got = handed(GQA, c)
        np.testing.assert_array_equal(got.inputs["seqlens_k"], [2, 4])
        self.assertEqual((got.inputs["key"].shape[1], int(got.inputs["total_sequence_length"])), (5, 5))
        self.assertNotIn("past_key", got.inputs)
        np.testing.assert_array_equal(got.inputs["query"][0, :3], c.q[0, 0, 2:])
        np.testing.assert_array_equal(got.inputs["query"][1], c.q[1, 0])
        problems = {}, {"window_left": 2}, {"softcap": 1.0, "window_left": 1}, {"bias": np.arange(30).reshape(1, 1, 5, 6) / 7}
        for options in problems:
            for form in {}, {"cache": "shared"}, {"qkv": "packed"}:
                c = call(b=2, hq=2, lq=5, lk=6, d=8, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS, form=form, **options)
                if "bias" in options:
                    c.bias = c.bias.astype(np.float32)
                SUBJECTS[GQA]().attention(c)
                c.out[~open_keys(c).any(-1)] = 0  # nothing is promised
                self.assertFalse(far(c), options)
                compare_script(self, SUBJECTS[GQA](), c)
        for options in dict(causal=True), dict(), dict(causal=True, align=BOTTOM_RIGHT, window_left=1, form={"cache": "window"}):
            with self.assertRaises(Unsupported):  # nothing is said of the padding's own output
                self.handed(b=2, lq=5, lk=5, kv_lengths=LENGTHS, **options)

    def test_token_generation_takes_the_last_token_of_each_sample(self):
        c = call(b=2, lq=1, lk=6, d=8, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS)
        got = handed(GQA, c).inputs
        self.assertEqual((got["past_key"].shape[2], int(got["total_sequence_length"])), (4, 5))
        np.testing.assert_array_equal(got["key"][:, 0], [c.k[0, 0, 2], c.k[1, 0, 4]])
        self.assertTrue(said(GQA, c))
        with self.assertRaises(Unsupported):
            self.handed(b=2, lq=1, lk=6, causal=True, align=TOP_LEFT, kv_lengths=LENGTHS)

    def test_a_continued_prompt_is_of_one_sample(self):
        got = self.handed(lq=2, lk=5, causal=True, align=BOTTOM_RIGHT)
        self.assertEqual((got.inputs["past_key"].shape[2], got.inputs["key"].shape[1]), (3, 2))
        with self.assertRaises(Unsupported):
            self.handed(b=2, lq=2, lk=5, causal=True, align=BOTTOM_RIGHT)

    def test_caches(self):
        token = dict(lq=1, lk=5, causal=True, align=BOTTOM_RIGHT)
        got = self.handed(**token, form={"cache": "shared"})
        self.assertEqual((got.inputs["past_key"].shape[2], got.shared["past_key"]), (8, "present_key"))
        got = self.handed(**token, form={"cache": "all"})
        self.assertEqual((got.inputs["past_key"].shape[2], got.inputs["key"].shape[1]), (5, 0))
        c = call(**token, d=8, window_left=1, form={"cache": "window"})
        got = handed(GQA, c)
        self.assertEqual((got.attributes["local_window_size"], got.attributes["sliding_window_cache"]), (2, 1))
        np.testing.assert_array_equal(got.inputs["past_key"], c.k[:, :, :4])  # C = 4: nothing evicted yet
        for lk, rows in (6, 2), (7, 3), (8, 4), (9, 2):  # T - 3 ceil((T - 4) / 3), of T = lk - 1 tokens
            c = call(lq=1, lk=lk, d=8, causal=True, align=BOTTOM_RIGHT, window_left=1, form={"cache": "window"})
            cache = handed(GQA, c).inputs["past_key"]
            self.assertEqual(cache.shape[2], 4)
            np.testing.assert_array_equal(cache[:, :, :rows], c.k[:, :, lk - 1 - rows:lk - 1])
            self.assertTrue(said(GQA, c), lk)

    def test_windows_count_the_query_itself(self):
        for left in (0, 1, 3, 4, 7):
            for shape in dict(lq=5, lk=5), dict(lq=1, lk=5), dict(b=2, lq=1, lk=5, kv_lengths=LENGTHS):
                align = TOP_LEFT if shape["lq"] == 5 else BOTTOM_RIGHT
                c = call(**shape, d=8, causal=True, align=align, window_left=left, seed=left)
                self.assertEqual(handed(GQA, c).attributes["local_window_size"], left + 1)
                self.assertTrue(said(GQA, c), (left, shape))
        widest = self.handed(lq=3, lk=3, window_left=2**63 - 1, window_right=0)
        self.assertEqual(widest.attributes["local_window_size"], 2**63 - 1)
        self.assertNotIn("causal", self.handed(lq=3, lk=3, window_right=0).attributes)

    def test_masks_and_packing(self):
        keep = np.tril(np.ones((3, 3), bool))
        bias = self.handed(b=2, hq=2, lq=3, lk=3, keep=keep).inputs["attention_bias"]
        self.assertEqual(bias.shape, (1, 1, 3, 3))
        np.testing.assert_array_equal(bias[0, 0] == 0, keep)
        got = self.handed(hq=4, hkv=2, lq=3, lk=3, form={"qkv": "packed"}).inputs
        self.assertEqual(got["query"].shape, (1, 3, 64))
        self.assertNotIn("key", got)

    def test_outputs(self):
        self.assertEqual(self.handed(lq=3, lk=3, form={"present": "none"}).outputs, ["output"])
        self.assertEqual(self.handed(lq=3, lk=3, form={"present": "none", "qk_output": "2"}).outputs,
                         ["output", "", "", "output_qk"])

    def test_unsupported(self):
        for options in [
            dict(d=4), dict(dv=16), dict(lq=4, lk=3), dict(b=2, lq=2, lk=2, kv_lengths=np.array([0, 2], np.int32)),
            dict(lq=3, lk=3, window_left=1), dict(lq=3, lk=3, window_right=1),
            dict(lq=3, lk=3, softcap=1.0, bias=np.zeros((3, 3))), dict(lq=3, lk=3, form={"cache": "window"}),
            dict(lq=2, lk=5, causal=True), dict(lq=2, lk=5, form={"cache": "empty"}),
            dict(lq=2, lk=5, form={"cache": "all", "qkv": "packed"}), dict(lq=3, lk=3, dtype="f64"),
            dict(lq=3, lk=3, causal=True, window_left=1, form={"cache": "window", "qk_output": "1"}),
        ]:
            with self.assertRaises(Unsupported, msg=options):
                self.handed(**options)


class ContribAttentionEncoding(unittest.TestCase):
    def handed(self, **options):
        return handed(PACKED, call(**{"lq": 5, "lk": 5, **options}))

    def masks(self, **options):
        form = {"mask_index": options.pop("form", "shortest")}
        got = self.handed(b=2, hq=2, form=form, **options).inputs
        return got.get("mask_index"), got.get("attention_bias")

    def test_projections_are_exact(self):
        for form, shapes in ("identity", [(2, 5, 20), (20, 20)]), ("tokens", [(2, 5, 10), (10, 20)]):
            c = call(b=2, hq=2, lq=5, lk=5, d=3, dv=4, form={"projection": form})
            got = handed(PACKED, c)
            self.assertEqual([got.inputs[n].shape for n in ("input", "weights")], shapes)
            q = (got.inputs["input"] @ got.inputs["weights"])[:, :, 3:6]
            np.testing.assert_array_equal(q, c.q[:, 1])
            self.assertEqual(got.attributes["qkv_hidden_sizes"], [6, 6, 8])

    def test_past_and_unidirectional(self):
        got = self.handed(b=2, lq=2, lk=5, causal=True, align=BOTTOM_RIGHT)
        self.assertEqual((got.inputs["past"].shape, got.attributes["unidirectional"]), ((2, 2, 1, 3, 2), 1))
        self.assertEqual(self.handed(form={"past": "empty"}).inputs["past"].shape, (2, 1, 1, 0, 2))
        got = self.handed(lq=2, lk=5, form={"past": "shared"})
        self.assertEqual((got.inputs["past"].shape, got.inputs["past_sequence_length"]), ((2, 1, 1, 8, 2), [3]))
        got = self.handed(b=2, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS)  # each sample's diagonal in a mask
        self.assertNotIn("unidirectional", got.attributes)
        self.assertEqual(got.inputs["mask_index"].shape, (2, 5, 5))

    def test_masks(self):
        np.testing.assert_array_equal(self.masks(kv_lengths=LENGTHS)[0], LENGTHS)
        self.assertEqual(self.masks(kv_lengths=LENGTHS, form="2d")[0].shape, (2, 5))
        self.assertEqual(self.masks(kv_lengths=LENGTHS, form="3d")[0].shape, (2, 5, 5))
        np.testing.assert_array_equal(self.masks(kv_lengths=LENGTHS, form="ends_starts")[0], [3, 5, 0, 0])
        np.testing.assert_array_equal(self.masks(kv_lengths=LENGTHS, form="cumulative")[0], [3, 5, 0, 5, 10, 0, 3, 8])
        left = np.array([[0, 1, 1, 0, 0]], bool)
        np.testing.assert_array_equal(self.masks(keep=left, form="ends_starts")[0], [3, 3, 1, 1])
        np.testing.assert_array_equal(self.masks(keep=left)[0], [[0, 1, 1, 0, 0]] * 2)
        self.assertEqual(self.masks(window_left=1)[0].shape, (2, 5, 5))
        heads = np.ones((1, 2, 1, 5), bool)
        self.assertEqual(self.masks(keep=heads)[1].shape, (1, 2, 5, 5))
        scattered = np.array([[1, 0, 1, 0, 0]], bool)
        for keep, form in (left, "cumulative"), (scattered, "ends_starts"), (np.eye(5, dtype=bool), "ends_starts"):
            with self.assertRaises(Unsupported):
                self.masks(keep=keep, form=form)

    def test_unsupported(self):
        for options in [dict(hq=4, hkv=2), dict(softcap=1.0), dict(lq=5, lk=3), dict(lq=2, lk=5, dv=3), dict(dtype="f64"),
                        dict(lq=2, lk=5, bias=np.zeros((2, 5))), dict(d=512)]:
            with self.assertRaises(Unsupported, msg=options):
                self.handed(**options)
        c = call(lq=5, lk=5)
        c.v[0, 0, 0, 0] = np.inf
        with self.assertRaises(Unsupported):
            handed(PACKED, c)


class DecoderEncoding(unittest.TestCase):
    def handed(self, **options):
        return handed(DECODER, call(**{"lq": 1, "lk": 5, "d": 8, **options}))

    def test_keys(self):
        self.assertEqual(self.handed(b=2, hq=2).inputs["key"].shape, (2, 2, 5, 8))
        got = self.handed(b=2, hq=2, form={"keys": "shared"})
        self.assertEqual([got.inputs[n].shape for n in ("key", "past_key")], [(2, 1, 16), (2, 2, 8, 8)])
        self.assertEqual((got.inputs["past_sequence_length"], got.shared["past_key"]), ([4], "present_key"))
        plain, reordered = (self.handed(form={"keys": form}).inputs["past_key"] for form in ("shared", "reordered"))
        np.testing.assert_array_equal(reordered[0, 0].reshape(2, 8, 4)[1], plain[0, 0, :, 4:])

    def test_a_past_of_its_own_is_refused(self):
        with self.assertRaises(Refused) as caught:
            SUBJECTS[DECODER]().attention(call(lq=1, d=8, form={"keys": "past"}))
        self.assertEqual(str(caught.exception), "onnxruntime: past_present_share_buffer_ was false.")

    def test_masks(self):
        np.testing.assert_array_equal(self.handed(b=2, kv_lengths=LENGTHS).inputs["mask_index"], np.arange(5) < LENGTHS[:, None])
        np.testing.assert_array_equal(self.handed(causal=True).inputs["mask_index"], [[1, 0, 0, 0, 0]])
        window = self.handed(align=BOTTOM_RIGHT, window_left=1, form={"keys": "shared"}).inputs["mask_index"]
        np.testing.assert_array_equal(window, [[0, 0, 0, 1, 1]])
        bias = self.handed(b=2, hq=2, bias=np.zeros((1, 2, 1, 5)), form={"keys": "shared"}).inputs["attention_bias"]
        self.assertEqual(bias.shape, (1, 2, 1, 5))

    def test_unsupported(self):
        for options in [dict(lq=2), dict(hq=4, hkv=2), dict(dv=16), dict(softcap=1.0), dict(bias=np.zeros((1, 5))),
                        dict(d=6, form={"keys": "reordered"}), dict(dtype="f64")]:
            with self.assertRaises(Unsupported, msg=options):
                self.handed(**options)


if __name__ == "__main__":
    unittest.main()
