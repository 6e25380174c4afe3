"""The mlx adapter: what it hands to the function, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where mlx is not installed there.
"""

import unittest

from need_package import need

need("mlx", "it is never part of ./run test, ./run fuzz mlx:sdpa installs it")

import numpy as np

from array_adapters import Adapters
from attest import Unsupported
from attest.adapters.mlx import SUBJECTS
from attention_calls import BOTTOM_RIGHT, ROUNDOFF, call, far, reference


class Agreement(Adapters, unittest.TestCase):
    make = SUBJECTS

    def wrong(self, c):
        """Softmax is performed in float32 regardless of the input precision."""
        return not np.all(np.abs(c.out - reference(c)) <= 60 * ROUNDOFF["f32"]) if c.dtype == "f64" else far(c)


class Encoding(unittest.TestCase):
    def mask(self, **options):
        asked = SUBJECTS["sdpa"]().asked(call(**options))
        mask = asked.arguments.get("mask")
        return asked.options.get("mask") if mask is None else mask.array.tolist()

    def test_the_word_causal_is_the_bottom_right_alone(self):
        self.assertEqual(self.mask(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5), "causal")
        self.assertEqual(self.mask(causal=True, lq=3, lk=3), "causal")
        self.assertEqual(self.mask(causal=True, lq=2, lk=3), [[[[True, False, False], [True, True, False]]]])
        self.assertEqual(self.mask(causal=True, lq=1, lk=1, keep=np.ones((1, 1), bool)), [[[[True]]]])
        self.assertEqual(self.mask(causal=True, lq=1, lk=1, form={"causal": "mask"}), [[[[True]]]])

    def test_masks_of_every_shape_and_type(self):
        keep = np.array([1, 0, 1], bool)
        self.assertIsNone(self.mask())
        self.assertEqual(self.mask(keep=keep, form={"mask": "lowest"}), [True, False, True])
        self.assertEqual(self.mask(keep=keep, form={"mask_type": "float"}), [[[[0, -np.inf, 0]]]])
        self.assertEqual(self.mask(keep=keep, bias=np.ones((2, 3), "f")), [[[[1, -np.inf, 1]] * 2]])

    def test_a_mask_to_add_promotes(self):
        for dtype, bias_dtype in (("f32", "f16"), ("f64", "f32")):
            c = call(dtype=dtype, bias=np.linspace(-1, 1, 6).reshape(2, 3).astype({"f16": "e", "f32": "f"}[bias_dtype]),
                     bias_dtype=bias_dtype)
            SUBJECTS["sdpa"]().attention(c)
            self.assertLess(np.abs(c.out - reference(c)).max(), 1e-6)
        with self.assertRaises(Unsupported):
            self.mask(dtype="f16", bias=np.zeros((2, 3), "f"), bias_dtype="f32")


if __name__ == "__main__":
    unittest.main()
