"""The calls of the torch adapters to PyTorch: arguments, masks, projections and forms of each interface.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where torch is not installed there.
"""

import unittest
import unittest.mock

from need_package import need

need("torch", "it is never part of ./run test, ./run fuzz torch:sdpa installs it")

import numpy as np
import torch

from attest import Refused, Unsupported
from attest.adapters import _torch_flex as flex
from attest.adapters import _torch_mha as mha
from attest.adapters import _torch_nested as nested
from attest.adapters._forms import words
from attest.adapters.torch import SUBJECTS
from attention_calls import BOTTOM_RIGHT, call, far

MHA = ("mha", "mha-slow", "mha-weights")
LENGTHS = np.array([1, 3], np.int32)


class Encoding(unittest.TestCase):
    def inputs(self, name="sdpa", **options):
        inputs = SUBJECTS[name]().inputs(call(**options))
        for plain in ("query", "key", "value"):
            inputs.pop(plain)
        return inputs

    def test_plain(self):
        self.assertEqual(self.inputs(), {})
        self.assertEqual(self.inputs(d=4, scale=0.5), {"scale": 0.5})
        self.assertEqual(self.inputs(hq=4, hkv=2), {"enable_gqa": True})

    def test_is_causal_is_the_top_left_alone(self):
        self.assertEqual(self.inputs(causal=True, lq=2, lk=5), {"is_causal": True})
        self.assertEqual(self.inputs(causal=True, align=BOTTOM_RIGHT, lq=3, lk=3), {"is_causal": True})
        mask = self.inputs(causal=True, align=BOTTOM_RIGHT, lq=2, lk=3)
        self.assertEqual(set(mask), {"attn_mask"})
        self.assertEqual(mask["attn_mask"][0, 0].tolist(), [[True, True, False], [True, True, True]])
        mask = self.inputs(causal=True, keep=np.array([[0, 1, 1], [1, 1, 1]], bool))["attn_mask"]
        self.assertEqual(mask[0, 0].tolist(), [[False, False, False], [True, True, False]])

    def test_windows_and_lengths_are_masks(self):
        mask = self.inputs(lq=3, lk=3, window_left=1, window_right=0)["attn_mask"][0, 0]
        self.assertEqual(mask.int().tolist(), [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
        mask = self.inputs(b=2, kv_lengths=LENGTHS)["attn_mask"]
        self.assertEqual(mask.int().tolist(), [[[[1, 0, 0]]], [[[1, 1, 1]]]])

    def test_a_mask_alone_is_its_own_memory_in_every_form(self):
        for form, batch, shape in (("given", 2, (2, 4, 3, 5)), ("narrowed", 2, (2, 1, 1, 5)), ("lowest", 1, (5,))):
            given = np.ones((batch, 1, 1, 5), bool)
            c = call(b=batch, hq=4, lq=3, lk=5, form={"mask": form})
            c.keep = np.lib.stride_tricks.as_strided(given, (batch, 4, 3, 5), (5 if batch > 1 else 0, 0, 0, 1))
            mask = SUBJECTS["sdpa"]().inputs(c)["attn_mask"]
            self.assertEqual((tuple(mask.shape), mask.data_ptr()), (shape, given.ctypes.data))

    def test_ranks(self):
        for rank, shape in (("3d", (2, 2, 2)), ("5d", (1, 1, 2, 2, 2))):
            inputs = SUBJECTS["sdpa"]().inputs(call(hq=2, form={"rank": rank}))
            self.assertEqual(tuple(inputs["query"].shape), shape)
        with self.assertRaises(Unsupported):
            SUBJECTS["sdpa"]().inputs(call(b=2, form={"rank": "3d"}))

    def test_forms(self):
        keep = np.array([[1, 0, 1], [0, 1, 1]], bool)
        mask = self.inputs(keep=keep, form={"mask_type": "float"})["attn_mask"]
        self.assertEqual(mask[0, 0].tolist(), [[0, -np.inf, 0], [-np.inf, 0, 0]])
        self.assertIn("attn_mask", self.inputs(causal=True, form={"causal": "mask"}))
        self.assertEqual(self.inputs(d=4, form={"scale": "explicit", "gqa": "enabled"}), {"scale": 0.5, "enable_gqa": True})

    def test_a_bias_takes_the_mask_in(self):
        mask = self.inputs(keep=np.array([[1, 0, 1], [0, 1, 1]], bool), bias=np.arange(6, dtype="f").reshape(2, 3))
        self.assertEqual(mask["attn_mask"].dtype, torch.float32)
        self.assertEqual(mask["attn_mask"][0, 0].tolist(), [[0, -np.inf, 2], [-np.inf, 4, 5]])

    def test_unsupported(self):
        for name, c in [
            ("sdpa", call(softcap=1.0)),
            ("math", call(bias=np.zeros((2, 3), "f"), bias_dtype="f32", dtype="f16")),
            ("flash", call(dv=3, d=2)),
            ("flash-lse", call(hq=2, hkv=1)),
            ("flash-lse", call(dv=3, d=2)),
            ("mha", call(softcap=1.0)),
            ("mha", call(scale=0.5)),
            ("mha", call(hq=2, hkv=1)),
            ("mha", call(dv=3, d=2)),
            ("mha", call(d=2049)),
            ("mha", call(v=np.full((1, 1, 3, 2), np.inf, "f"))),
            ("nested", call(softcap=1.0)),
            ("nested", call(causal=True, form={"made": "strided"})),
            ("nested", call(causal=True, form={"queries": "split"})),
            ("mha", call(causal=True, hq=2, form={"input": "jagged"})),
            ("mha", call(hq=3, form={"input": "strided"})),
            ("nested", call(hq=2, hkv=1)),
            ("nested", call(bias=np.zeros((2, 3), "f"))),
            ("nested", call(keep=np.ones((2, 3), bool), window_left=1)),
        ]:
            with self.assertRaises(Unsupported, msg=name):
                SUBJECTS[name]().attention(c)

    def test_a_refusal_is_told_in_the_librarys_words(self):
        c = call(k=np.zeros((1, 1, 3, 5), "f"))
        with self.assertRaises(Refused) as caught:
            SUBJECTS["math"]().attention(c)
        self.assertTrue(str(caught.exception).startswith("torch: "))
        self.assertNotIn("\n", str(caught.exception))


class MultiheadAttention(unittest.TestCase):
    def said(self, name="mha", **options):
        return SUBJECTS[name]().say(call(**options))

    def test_the_fast_path_is_taken_where_it_can_be_said(self):
        self.assertTrue(self.said(hq=2, lq=3, lk=3).fast)
        for options in (dict(hq=2, lq=3, lk=2), dict(hq=3, lq=3, lk=3), dict(hq=2, lq=3, lk=3, d=257),
                        dict(hq=2, lq=3, lk=3, bias=np.zeros((3, 3), "f"))):
            self.assertFalse(self.said(**options).fast, options)
        self.assertFalse(self.said("mha-slow", hq=2, lq=3, lk=3).fast)

    def test_it_is_the_fast_path(self):
        taken = []
        native = torch._native_multi_head_attention
        torch._native_multi_head_attention = lambda *a, **k: taken.append(1) or native(*a, **k)
        try:
            for name in MHA:
                SUBJECTS[name]().attention(call(hq=2, lq=3, lk=3))
        finally:
            torch._native_multi_head_attention = native
        self.assertEqual(len(taken), 1)

    def test_projections_are_exact(self):
        for fast in (False, True):
            form = {"batch": "first", "projection_bias": "zeros", "last_key": "given", "input": "plain"}
            said = mha.Said((torch.zeros(1, dtype=torch.bfloat16),), 4 * 6 if fast else 6, 2, 3, {}, form, fast)
            for weight in mha.projections(said):
                self.assertLessEqual(set(weight.unique().tolist()), {0.0, 1.0, 2.0})
                self.assertLessEqual(int((weight != 0).sum(1).max()), 1)

    def test_masks_are_true_where_a_key_is_left_out(self):
        self.assertEqual(self.said(b=2, kv_lengths=LENGTHS).options["key_padding_mask"].int().tolist(),
                         [[0, 1, 1], [0, 0, 0]])
        said = self.said(lq=2, lk=2, causal=True).options
        self.assertEqual((said["attn_mask"].int().tolist(), said["is_causal"]), ([[0, 1], [0, 0]], True))
        self.assertNotIn("is_causal", self.said(lq=2, lk=3, causal=True, align=BOTTOM_RIGHT).options)
        self.assertEqual(self.said(b=2, hq=2, keep=np.ones((2, 1, 2, 3), bool)).options["attn_mask"].shape, (4, 2, 3))

    def test_forms(self):
        said = self.said(b=2, kv_lengths=LENGTHS, form={"mask": "mask"}).options
        self.assertNotIn("key_padding_mask", said)
        self.assertEqual(said["attn_mask"][:, 0].int().tolist(), [[0, 1, 1], [0, 0, 0]])
        said = self.said(b=2, kv_lengths=LENGTHS, form={"mask_type": "float"}).options
        self.assertEqual(said["key_padding_mask"].tolist(), [[0, -np.inf, -np.inf], [0, 0, 0]])
        self.assertEqual(self.said(form={"weights": "per_head"}).options, {"average_attn_weights": False})
        self.assertEqual(self.said(b=3, form={"batch": "second"}).inputs[0].shape, (2, 3, 2))
        self.assertEqual(self.said(form={"batch": "none"}).inputs[0].shape, (2, 2))
        self.assertFalse(self.said(form={"projection_bias": "none"}).biased)
        with self.assertRaises(Unsupported):
            self.said(b=2, form={"batch": "none"})

    def test_both_masks_in_every_call(self):
        said = self.said(b=2, kv_lengths=LENGTHS, form={"mask": "both"}).options
        self.assertEqual(said["key_padding_mask"].int().tolist(), [[0, 1, 1], [0, 0, 0]])
        self.assertEqual(said["attn_mask"][:, 0].int().tolist(), [[0, 1, 1], [0, 0, 0]])
        said = self.said(form={"mask": "both"}).options
        self.assertFalse(said["key_padding_mask"].any() or said["attn_mask"].any())

    def test_the_last_key_is_bias_kv_where_that_says_the_same(self):
        form = {"last_key": "bias_kv"}
        said = self.said(hq=2, lk=3, form=form)
        self.assertEqual((said.inputs[1].shape[1], [t.numel() for t in said.bias_kv]), (2, [4, 4]))
        bias = np.array([[0, 1, 0], [2, 0, 0]], "f")
        self.assertEqual(self.said(bias=bias, form=form).options["attn_mask"].tolist(), [[0, 1], [2, 0]])
        last = np.array([[1, 1, 0]], bool)
        for options in (dict(b=2), dict(lk=1), dict(causal=True), dict(keep=last), dict(bias=np.ones((2, 3), "f"))):
            self.assertIsNone(self.said(form=form, **options).bias_kv, options)

    def test_a_first_key_of_zeros_is_zero_attn(self):
        def zeros_first(**options):
            c = call(hq=2, form={"last_key": "zero_attn", **options.pop("form", {})}, **options)
            c.k[:, :, 0] = c.v[:, :, 0] = 0
            return c

        subject = SUBJECTS["mha"]()
        said = subject.say(zeros_first(lq=2, lk=3, causal=True, align=BOTTOM_RIGHT))
        self.assertTrue(said.zero_attn and mha.layer(said).add_zero_attn)
        self.assertEqual(said.inputs[1].shape[1], 2)
        self.assertEqual((said.options["attn_mask"].int().tolist(), said.options["is_causal"]), ([[0, 1], [0, 0]], True))
        padded = zeros_first(b=2, lk=3, kv_lengths=np.array([2, 3], np.int32))
        self.assertEqual(subject.say(padded).options["key_padding_mask"].int().tolist(), [[0, 1], [0, 0]])
        for options in (dict(b=2, lk=3), dict(lk=3, causal=True), dict(lk=3, keep=np.array([[1, 0, 1], [1, 1, 1]], bool)), dict(
                lk=3, causal=True, align=BOTTOM_RIGHT, form={"weights": "averaged"})):
            c = zeros_first(**options)
            self.assertTrue(subject.say(c).zero_attn)
            subject.attention(c)
            self.assertFalse(far(c), options)
        for options in (dict(lk=1), dict(keep=np.array([[0, 1, 1]], bool)), dict(bias=np.ones((2, 3), "f"))):
            self.assertFalse(subject.say(zeros_first(**options)).zero_attn, options)
        self.assertFalse(self.said(hq=2, form={"last_key": "zero_attn"}).zero_attn)

    def test_is_causal_is_a_hint_wherever_the_mask_is_causal(self):
        later = ~np.tri(3, dtype=bool)
        keep = {"float": dict(mask_type="float"), "padding": dict(mask="both")}
        for what, form in {"bool": {}, **keep}.items():
            said = self.said(lq=3, lk=3, keep=~later, form={"path": "slow", **form}).options
            self.assertTrue(said["is_causal"], what)
        for options in (dict(keep=np.ones((3, 3), bool)), dict(keep=~later, bias=np.ones((3, 3), "f")), dict(causal=True, window_left=1),
                        dict(b=2, keep=np.stack([~later, np.ones((3, 3), bool)])[:, None])):
            self.assertNotIn("is_causal", self.said(lq=3, lk=3, **options).options, options)

    def test_is_causal_alone(self):
        options = dict(hq=2, lq=3, lk=3, causal=True, form={"causal": "alone"})
        self.assertEqual(self.said(**options).options, {"need_weights": False, "is_causal": True})
        with self.assertRaises(Unsupported):
            SUBJECTS["mha-slow"]().attention(call(**options))
        self.assertNotIn("is_causal", self.said(**options | dict(causal=False)).options)

    def test_a_nan_is_handed_on_where_its_row_means_no_more(self):
        k = np.ones((1, 1, 3, 2), "f")
        k[0, 0, 1, 0] = np.nan
        c = call(k=k, keep=np.array([[1, 0, 1], [1, 1, 1]], bool))
        SUBJECTS["mha"]().attention(c)
        self.assertTrue(np.isnan(c.out[0, 0, 1]).all())
        for options in (dict(k=np.repeat(k, 2, 1), hq=2), dict(v=k), dict(k=np.where(np.isnan(k), np.float32(np.inf), k))):
            with self.assertRaises(Unsupported):
                self.said(**options)

    def test_both_masks_have_the_type_of_a_bias(self):
        said = self.said(b=2, kv_lengths=LENGTHS, bias=np.zeros((2, 3), "f")).options
        self.assertEqual(said["key_padding_mask"].tolist(), [[0, -np.inf, -np.inf], [0, 0, 0]])
        self.assertEqual(said["attn_mask"].dtype, torch.float32)

    def test_a_nan_of_one_head_is_not_held_against_the_others(self):
        keep = np.ones((1, 2, 1, 3), bool)
        for lq in (3, 2):  # on the fast path and beside it
            c = call(hq=2, lq=lq, keep=keep)
            SUBJECTS["mha-weights"]().attention(c)
            self.assertFalse(far(c))
            c.keep = np.broadcast_to(np.array([True, False])[None, :, None, None], c.keep.shape)
            with self.assertRaises(Unsupported):
                SUBJECTS["mha-weights"]().attention(c)

    def test_an_infinity_of_one_column_is_not_held_against_the_others(self):
        c = call(lq=1, lk=2, d=2, v=np.array([1.7e38, 1, 3e38, 1], "f").reshape(1, 1, 2, 2), q=np.zeros((1, 1, 1, 2), "f"))
        with self.assertRaises(Unsupported):
            SUBJECTS["mha-slow"]().attention(c)

    def attention_of_nan(self, c, rows=slice(None)):
        """The subject's answer to NaN in those rows."""
        layer = mha.layer

        def broken(said):
            out = torch.zeros(said.inputs[0].shape, dtype=said.dtype)
            out[:, rows] = float("nan")
            return lambda *inputs, **options: (out,)
        mha.layer = broken
        try:
            SUBJECTS["mha"]().attention(c)
        finally:
            mha.layer = layer
        self.assertTrue(np.isnan(c.out[:, :, rows]).all())

    def test_a_nan_without_a_reason_is_told(self):
        self.attention_of_nan(call(hq=2, lq=3, lk=3))
        lowest = np.finfo("f").min
        for one in (-np.inf, lowest):
            self.attention_of_nan(call(hq=2, lk=4, bias=np.array([0, one, 0, 0], "f")))
        self.attention_of_nan(call(hq=2, lk=4, keep=np.array([1, 0, 1, 1], bool), bias=np.array([0, one, -np.inf, 0], "f")))

    def test_a_nan_of_a_row_without_keys_is_left(self):
        inf, lowest = np.inf, np.finfo("f").min
        for options in (dict(bias=np.full(4, -inf, "f")), dict(bias=np.array([-inf, 0, -inf, lowest], "f"),
                                                               keep=np.array([1, 0, 1, 1], bool)),
                        dict(bias=np.array([-inf, 0, 0, 0], "f"), kv_lengths=np.array([1], np.int32)),
                        dict(bias=np.array([0, inf, 0, 0], "f")), dict(bias=np.array([0, np.nan, 0, 0], "f"))):
            with self.assertRaises(Unsupported, msg=options):
                self.attention_of_nan(call(hq=2, lk=4, **options))

    def test_a_row_without_keys_is_no_reason_for_a_nan_in_another(self):
        keep = np.array([[0, 0, 0, 0], [1, 1, 1, 1]], bool)
        with self.assertRaises(Unsupported):
            self.attention_of_nan(call(hq=2, lq=2, lk=4, keep=keep), rows=slice(0, 1))
        self.attention_of_nan(call(hq=2, lq=2, lk=4, keep=keep), rows=slice(1, 2))

    def test_kept_layers_are_bounded(self):
        for d in range(1, mha._KEPT_LAYERS + 5):
            SUBJECTS["mha-slow"]().attention(call(d=d))
        self.assertEqual(len(mha._layers), mha._KEPT_LAYERS)


class Nested(unittest.TestCase):
    def test_samples_have_keys_of_their_own_number(self):
        self.assertEqual(SUBJECTS["nested"]().say(call(b=2, kv_lengths=LENGTHS)),
                         ([(0, (0, 2), [0]), (1, (0, 2), [0, 1, 2])], "list", {}))
        rows, _, options = SUBJECTS["nested"]().say(
            call(lq=3, d=4, keep=np.array([[1, 0, 1]], bool), form={"queries": "split", "scale": "explicit"}))
        self.assertEqual((rows, options), ([(0, (0, 1), [0, 2]), (0, (1, 3), [0, 2])], {"scale": 0.5}))

    def test_padding_is_not_read(self):
        for made in words(nested.Nested.forms["made"]):
            c = call(b=2, hq=2, kv_lengths=LENGTHS, form={"made": made})
            c.k[0, :, 1:] = c.v[0, :, 1:] = np.nan
            SUBJECTS["nested"]().attention(c)
            self.assertTrue(np.isfinite(c.out).all(), made)

    def test_each_maker_makes_the_same_rows(self):
        t = torch.arange(48.0).reshape(2, 2, 3, 4)
        rows = [(0, [0]), (1, [0, 1, 2])]
        for made in words(nested.Nested.forms["made"]):
            got = nested.nested(t, rows, made)
            self.assertEqual(got.layout, torch.strided if made == "strided" else torch.jagged)
            for part, (sample, positions) in zip(got.unbind(), rows):
                self.assertTrue(torch.equal(part, t[sample][:, positions]), made)


class Flex(unittest.TestCase):
    def options(self, **options):
        c = call(**options)
        q, k, _, mods, given = SUBJECTS["flex"]().say(c)
        return flex.attention_options(q, k, mods, given)

    def test_masks_are_a_block_mask(self):
        options = self.options(b=2, lq=2, lk=3, causal=True, align=BOTTOM_RIGHT, kv_lengths=LENGTHS, form={"block": "16"})
        self.assertEqual(set(options), {"block_mask"})
        mask = options["block_mask"]
        self.assertEqual((mask.BLOCK_SIZE, mask.shape), ((16, 16), (2, 1, 2, 3)))
        dense = torch.nn.attention.flex_attention.create_mask(mask.mask_mod, 2, 1, 2, 3, device="cpu")
        self.assertEqual(dense[:, 0].int().tolist(), [[[0, 0, 0], [1, 0, 0]], [[1, 1, 0], [1, 1, 1]]])

    def test_or_a_score_mod(self):
        options = self.options(causal=True, lq=2, lk=2, softcap=2.0, form={"mask": "score_mod"})
        self.assertEqual(set(options), {"score_mod"})
        score = lambda i, j: float(options["score_mod"](torch.tensor(4.0), *map(torch.tensor, (0, 0, i, j))))
        self.assertAlmostEqual(score(1, 0), 2 * np.tanh(2), places=5)
        self.assertEqual(score(0, 1), -np.inf)

    def test_a_wide_window_is_no_wider_than_the_problem(self):
        diagonal = SUBJECTS["flex"]().say(call(lq=2, lk=3, window_left=2**62))[3]["diagonal"]
        self.assertEqual(diagonal, (5, None, False))

    def test_options(self):
        self.assertEqual(self.options(d=4, hq=2, hkv=1, scale=0.5, form={"aux": "always", "prescale": "asked"}),
                         {"scale": 0.5, "enable_gqa": True, "return_aux": (True, False), "kernel_options": {"PRESCALE_QK": True}})


class Explicit(unittest.TestCase):
    def test_float32_in_the_softmax_alone(self):
        with unittest.mock.patch.object(torch, "softmax", wraps=torch.softmax) as softmax:
            for form, asked in (("f32", {"dtype": torch.float32}), ("type", {})):
                SUBJECTS["explicit"]().attention(call(dtype="bf16", form={"softmax": form}))
                self.assertEqual((softmax.call_args.args[0].dtype, softmax.call_args.kwargs), (torch.bfloat16, asked))

    def test_a_mask_that_is_added_promises_to_be(self):
        """A closed score past float16 is infinite, and NaN once -inf is added to it; put in its place, -inf closes it."""
        for value in SUBJECTS["explicit"]().forms["mask"]:
            promised = value["contract"] if isinstance(value, dict) else {}
            c = call(lq=1, lk=2, dtype="f16", scale=1.0, keep=np.array([True, False]), form={"mask": words([value])[0]})
            c.q[...], c.k[...] = 1, [[0, 0], [60000, 60000]]
            SUBJECTS["explicit"]().attention(c)
            self.assertEqual(np.isnan(c.out).any(), promised.get("mask_added", False), value)

    def test_what_is_offered(self):
        self.assertEqual(words(SUBJECTS["explicit"]().forms["softmax"]), ["type", "f32"])
        self.assertIn("shapes", SUBJECTS["explicit-compiled"]().forms)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
