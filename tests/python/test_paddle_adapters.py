"""The paddle adapter: what it hands to the functions, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where paddle is not installed there.
"""

import unittest

from need_package import need

need("paddle", "it is never part of ./run test, ./run fuzz paddle:sdpa installs it")

import numpy as np
import paddle

from array_adapters import Adapters
from attest import Unsupported
from attest.adapters.paddle import SUBJECTS
from attention_calls import BOTTOM_RIGHT, call


class Agreement(Adapters, unittest.TestCase):
    make = SUBJECTS


class Encoding(unittest.TestCase):
    def asked(self, **options):
        asked = SUBJECTS["sdpa"]().asked(call(**options))
        mask = asked.arguments.get("attn_mask")
        return None if mask is None else mask.array.tolist(), asked.options

    def test_plain(self):
        self.assertEqual(self.asked(), (None, {}))
        self.assertEqual(self.asked(d=4, form={"scale": "explicit"}), (None, {"scale": 0.5}))
        self.assertEqual(self.asked(hq=2, hkv=1), (None, {}))
        self.assertEqual(self.asked(hq=2, hkv=1, form={"function": "compat"}), (None, {"enable_gqa": True}))

    def test_is_causal_is_the_top_left_alone(self):
        self.assertEqual(self.asked(causal=True, lq=2, lk=5), (None, {"is_causal": True}))
        keep = np.array([1, 0, 1], bool)
        self.assertEqual(self.asked(causal=True, keep=keep), ([[[[True, False, False], [True, False, False]]]], {}))
        self.assertEqual(self.asked(causal=True, align=BOTTOM_RIGHT)[0], [[[[True, True, False], [True] * 3]]])

    def test_layouts(self):
        for function, rank, shape in (("functional", "4d", (1, 4, 3, 5)), ("functional", "3d", (4, 3, 5)),
                                      ("compat", "4d", (1, 3, 4, 5)), ("compat", "3d", (3, 4, 5))):
            asked = SUBJECTS["sdpa"]().asked(call(hq=3, lq=4, d=5, form={"function": function, "rank": rank}))
            self.assertEqual(asked.arguments["query"].array.shape, shape)
        with self.assertRaises(Unsupported):
            self.asked(b=2, form={"rank": "3d"})

    def test_masks_of_every_shape_and_type(self):
        keep = np.array([1, 0, 1], bool)
        self.assertEqual(self.asked(keep=keep, form={"mask": "lowest"})[0], [True, False, True])
        self.assertEqual(self.asked(keep=keep, form={"mask_type": "float"})[0], [[[[0, -np.inf, 0]]]])
        self.assertEqual(self.asked(keep=keep, bias=np.ones((2, 3), "f"))[0], [[[[1, -np.inf, 1]] * 2]])


class Declarations(unittest.TestCase):
    def test_there_are_no_kernels_of_16_bits(self):
        """Why the subject has float32 and float64 alone."""
        for dtype in ("float16", "bfloat16"):
            x = paddle.ones((1, 2, 1, 2), dtype=dtype)
            with self.assertRaisesRegex(RuntimeError, "is not registered"):
                paddle.nn.functional.scaled_dot_product_attention(x, x, x)


if __name__ == "__main__":
    import paddle.compat.nn.functional
    unittest.main()
