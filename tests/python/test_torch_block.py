"""torch.nn.MultiheadAttention as an attention block: every way of a call, what is handed over, and its scripts.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where torch is not installed there.
"""

import unittest
import unittest.mock

from need_package import need

need("torch", "it is never part of ./run test, ./run fuzz torch:block installs it")

import numpy as np
import torch

from attest import Unsupported
from attest.adapters import _torch_block as torch_block
from attest.adapters.torch import SUBJECTS
from block_calls import Blocks, block, block_reference, script_answer, values

NAMES = [name for name in SUBJECTS if name.startswith("block")]
FAST = ("block-fast", "block-fast-weights", "block-nested", "block-causal-alone")


class Agreement(Blocks, unittest.TestCase):
    make = {name: SUBJECTS[name] for name in NAMES if name != "block-causal-alone"}
    fewer = {"block-bias-kv": 1, "block-nested": 4, "block-fast": 7, "block-fast-weights": 7, "block-unbatched": 2}

    def tearDown(self):
        torch.backends.mha.set_fastpath_enabled(True)


class Encoder(unittest.TestCase):
    """The block of a TransformerEncoderLayer, told apart from its norms, its residual connections and the feed-forward part."""

    CALLS = (dict(), dict(biases=False), dict(causal=True), dict(b=3, l=7, keep=np.array([[1, 0, 1, 1, 0, 1, 1]], bool)),
             dict(kv_lengths=np.array([1, 3], np.int32)), dict(keep=np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1]], bool)))

    def far(self, name, c):
        SUBJECTS[name]().mha(c)
        want, _ = block_reference(c)
        return not np.allclose(values(c.out, c.dtype), want, rtol=0, atol={"f32": 1e-6, "bf16": 0.03, "f64": 1e-14}[c.dtype])

    def test_it_agrees_on_the_fast_path(self):
        for options in self.CALLS:
            for dtype in ("f32", "f64", "bf16"):
                c = block(e=2, dtype=dtype, **options)
                with unittest.mock.patch.object(torch, "_transformer_encoder_layer_fwd",
                                                wraps=torch._transformer_encoder_layer_fwd) as called:
                    self.assertFalse(self.far("encoder-block", c), (options, dtype))
                self.assertTrue(called.called)
                np.testing.assert_array_equal(script_answer(SUBJECTS["encoder-block"]().script(c), c), values(c.out, c.dtype))

    def test_what_is_known_is_far(self):
        bias = np.array([[0, -1, 2]] * 3, np.float32)
        self.assertTrue(self.far("encoder-block", block(e=2, bias=bias)))  # torch-encoder-1
        self.assertTrue(self.far("encoder-block-causal-alone", block(e=2, causal=True)))  # torch-encoder-2
        self.assertFalse(self.far("encoder-block-causal-alone", block(e=2)))

    def test_what_other_parts_of_the_layer_change_is_not_asked(self):
        for c in (block(e=2, x=np.full((2, 3, 2), 2**20, "f")), block(e=6, heads=2), block(e=2, w_out=np.full((2, 2), 2.0**-40, "f"), biases=False)):
            with self.assertRaises(Unsupported):
                SUBJECTS["encoder-block"]().mha(c)


class Stack(Encoder):
    """The same of a TransformerEncoder of two layers."""

    def test_it_agrees_on_the_fast_path(self):
        for options in self.CALLS:
            for dtype in ("f32", "f64"):
                for name in ("encoder", "encoder-float-mask"):
                    c = block(e=8, heads=4, dtype=dtype, **options)
                    with unittest.mock.patch.object(torch, "_nested_tensor_from_mask", wraps=torch._nested_tensor_from_mask) as called:
                        self.assertFalse(self.far(name, c), (name, options, dtype))
                    self.assertEqual(called.called, "kv_lengths" in options)
                    np.testing.assert_array_equal(script_answer(SUBJECTS[name]().script(c), c), values(c.out, c.dtype))

    def test_what_is_known_is_far(self):
        for name in ("encoder", "encoder-float-mask"):
            self.assertTrue(self.far(name, block(bias=np.array([[0, -1, 2]] * 3, np.float32))))  # torch-encoder-1
            first = dict(keep=np.array([[0, 1, 1]], bool))
            self.assertFalse(self.far(name, block(**first)))
            SUBJECTS[name]().mha(c := block(causal=True, **first))
            self.assertTrue(np.isnan(c.out[:, 1:]).all())  # torch-encoder-4
        bias = block(bias=np.array([[0, -1, 2]], np.float32))
        bias.bias = np.broadcast_to(bias.bias[:1, :1, :1], bias.bias.shape)
        self.assertTrue(self.far("encoder-float-mask", bias))  # torch-encoder-3

    def test_a_wrong_block_is_far(self):
        """A layer whose values are a thousandth too large, and nothing else."""
        from attest.adapters import _torch_encoder_stack as stack
        fill = stack.fill

        def wrong(encoder, *given):
            fill(encoder, *given)
            encoder.layers[0].self_attn.in_proj_weight[1024:] *= 1.001

        with unittest.mock.patch.object(stack, "fill", wrong):
            self.assertTrue(self.far("encoder", block()))

    def test_what_other_parts_of_the_layer_change_is_not_asked(self):
        rows = np.array([[1, 1, 1], [0, 0, 0], [1, 1, 1]], bool)
        for c in (block(x=np.full((2, 3, 8), 2**20, "f")), block(w_out=np.full((8, 8), 2.0**-40, "f"), biases=False), block(keep=rows),
                  block(x=np.full((2, 3, 8), 2.0**10, "f"), w_out=np.full((8, 8), 2.0**-30, "f"), w_v=np.full((8, 8), 2.0**-30, "f"), biases=False)):
            with self.assertRaises(Unsupported):
                SUBJECTS["encoder"]().mha(c)


class Ways(unittest.TestCase):
    """Each name goes the way that it says."""

    def tearDown(self):
        torch.backends.mha.set_fastpath_enabled(True)

    def calls(self, name, c, function):
        """The number of calls of a function of PyTorch when this subject is asked."""
        module, _, last = function.rpartition(".")
        owner = torch if module == "torch" else torch.nn.functional
        with unittest.mock.patch.object(owner, last, wraps=getattr(owner, last)) as called:
            SUBJECTS[name]().mha(c)
        return called

    def test_the_fast_path_is_taken_where_a_name_says_so_and_nowhere_else(self):
        for name in NAMES:
            c = block(b=1, biases=False, m=4) if name == "block-bias-kv" else block(b=1)
            fast = name in (*FAST, "block", "block-float-mask")  # no mask here
            self.assertEqual(self.calls(name, c, "torch._native_multi_head_attention").called, fast, name)

    def test_is_causal_alone_is_lost_there(self):
        """torch-mha-2; without it the subject is right."""
        for causal in (False, True):
            c = block(b=1, causal=causal)
            SUBJECTS["block-causal-alone"]().mha(c)
            wrong = np.abs(values(c.out, c.dtype) - block_reference(c)[0]).max() > 1e-3
            self.assertEqual(wrong, causal)

    def test_a_float_mask_leaves_it(self):
        c = block(kv_lengths=np.array([1, 3], np.int32))
        self.assertTrue(self.calls("block", c, "torch._native_multi_head_attention").called)
        self.assertFalse(self.calls("block-float-mask", c, "torch._native_multi_head_attention").called)

    def test_weights_leave_scaled_dot_product_attention(self):
        for name, called in (("block-slow", True), ("block-weights", False)):
            with unittest.mock.patch.object(torch.nn.functional, "scaled_dot_product_attention",
                                            wraps=torch.nn.functional.scaled_dot_product_attention) as sdpa:
                SUBJECTS[name]().mha(block())
            self.assertEqual(sdpa.called, called, name)

    def arguments(self, name, c):
        with unittest.mock.patch.object(torch.nn.functional, "multi_head_attention_forward",
                                        wraps=torch.nn.functional.multi_head_attention_forward) as forward:
            SUBJECTS[name]().mha(c)
        return forward.call_args.args, forward.call_args.kwargs

    def test_projections_of_their_own(self):
        args, kwargs = self.arguments("block-separate", block(m=4))
        self.assertTrue(kwargs["use_separate_proj_weight"])
        self.assertEqual([t.shape[2] for t in args[:3]], [8, 9, 10])
        self.assertEqual([kwargs[f"{n}_proj_weight"].shape[1] for n in "qkv"], [8, 9, 10])
        args, kwargs = self.arguments("block-three", block(m=4))
        self.assertIsNot(args[1], args[2])
        args, kwargs = self.arguments("block-slow", block(m=4))
        self.assertIs(args[1], args[2])

    def test_a_last_key_of_the_layers_own(self):
        c = block(b=2, l=3, m=5, biases=False)
        c.memory[:, -1] = c.memory[0, -1]
        args, kwargs = self.arguments("block-bias-kv", c)
        self.assertEqual(args[1].shape[0], 4)  # tokens come first there
        np.testing.assert_allclose(args[7].ravel(), c.w_k.astype(float) @ c.memory[0, -1].astype(float), rtol=1e-6)
        np.testing.assert_allclose(args[8].ravel(), c.w_v.astype(float) @ c.memory[0, -1].astype(float), rtol=1e-6)
        self.assertLess(np.abs(c.out - block_reference(c)[0]).max(), 1e-5)

    def test_a_last_key_that_is_none_of_its_own(self):
        closed = np.ones((2, 1, 1, 5), bool)
        closed[1, ..., -1] = False
        low = np.zeros((3, 5), "f")
        low[0, -1] = 1
        for name, options in (("keep", {"keep": closed}), ("bias", {"bias": low}), ("other samples", {}),
                              ("lengths", {"kv_lengths": np.array([5, 4], np.int32)}), ("causal", {"causal": True})):
            c = block(b=2, l=3, m=5, biases=False, **options)
            if name != "other samples":
                c.memory[:, -1] = c.memory[0, -1]
            with self.subTest(name), self.assertRaises(Unsupported):
                SUBJECTS["block-bias-kv"]().mha(c)

    def test_packed_weights_are_one_view_of_the_calls_own_memory(self):
        c = block()
        made = torch_block.Said(c, SUBJECTS["block"]().first, {}).parameters
        self.assertEqual(made["in_proj_weight"].data_ptr(), c.w_q.ctypes.data)
        self.assertEqual(made["in_proj_weight"].shape, (24, 8))
        self.assertEqual(made["out_proj.weight"].data_ptr(), c.w_out.ctypes.data)
        c = block(packed=False)
        made = torch_block.Said(c, SUBJECTS["block"]().first, {}).parameters
        np.testing.assert_array_equal(made["in_proj_weight"][8:16], c.w_k)


class Declarations(unittest.TestCase):
    def test_nothing_is_promised_of_precision(self):
        for name in NAMES:
            self.assertNotIn("policy", SUBJECTS[name]().describe()["contract"], name)

    def test_values_come_in_every_type(self):
        self.assertEqual(SUBJECTS["block"]().describe()["dtypes"], ["f32", "f64", "bf16", "f16"])
        c = block(dtype="bf16")
        SUBJECTS["block"]().mha(c)
        self.assertEqual(values(c.out, "bf16").shape, (2, 3, 8))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
