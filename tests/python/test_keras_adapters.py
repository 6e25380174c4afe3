"""A keras adapter on one backend: what it hands to the operation, and what comes back.

Usage: test_keras_adapters.py BACKEND. Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where keras or the
backend is not installed there.
"""

import sys
import unittest

from need_package import need

BACKEND = sys.argv[1]
for package in ("keras", BACKEND, *(["scipy"] if BACKEND == "numpy" else [])):  # Keras on NumPy imports scipy
    need(package, f"it is never part of ./run test, ./run fuzz keras:{BACKEND} installs it")

import numpy as np

from array_adapters import Adapters
from attest.adapters.keras import BACKENDS, NORMS, SUBJECTS
from attention_calls import BOTTOM_RIGHT, call, reference
import block_calls

make = SUBJECTS[BACKEND]
make()  # names the backend before keras is imported
import keras


class Agreement(Adapters, unittest.TestCase):
    make = {BACKEND: make}
    few = slice(None, None, 3 if BACKEND == "jax" else 1)

    def known(self, name, problem, c, refusal):
        if refusal is None:  # keras-tensorflow-2
            return c.dtype == "f64" and np.abs(c.out - reference(c)).max() < 1e-6
        groups = c.k.shape[1] if c.q.shape[1] > c.k.shape[1] else 0
        biased = c.bias is not None or c.form.get("mask_type") == "bias"
        return (BACKEND == "numpy" and groups > 1  # keras-numpy-1
                or BACKEND == "tensorflow" and groups == 1  # keras-tensorflow-1
                or BACKEND == "torch" and biased and (c.keep is not None or c.causal)  # keras-torch-1, -2
                or BACKEND == "torch" and c.form.get("mask") == "lowest")  # keras-torch-3

    def least_of(self, name, dtype):
        return 5 if BACKEND == "jax" else 14


class Encoding(unittest.TestCase):
    def asked(self, **options):
        asked = make().asked(call(**options))
        return {name: a.array.tolist() for name, a in asked.arguments.items() if name in ("mask", "bias")}, asked.options

    def test_plain(self):
        self.assertEqual(self.asked(), ({}, {}))
        self.assertEqual(self.asked(d=4, form={"scale": "explicit"}), ({}, {"scale": 0.5}))
        self.assertEqual(make().asked(call(b=2, hq=3, lq=4, d=5)).arguments["query"].array.shape, (2, 4, 3, 5))

    def test_is_causal_is_the_top_left_beside_other_masks(self):
        keep = np.array([1, 0, 1], bool)
        self.assertEqual(self.asked(causal=True, keep=keep), ({"mask": [[[[True, False, True]]]]}, {"is_causal": True}))
        self.assertEqual(self.asked(causal=True, lq=2, align=BOTTOM_RIGHT)[1], {})
        self.assertEqual(self.asked(causal=True, form={"causal": "mask"})[1], {})

    def test_masks_of_every_shape_and_type(self):
        keep = np.array([1, 0, 1], bool)
        self.assertEqual(self.asked(keep=keep, form={"mask": "lowest"})[0], {"mask": [True, False, True]})
        self.assertEqual(self.asked(keep=keep, form={"mask": "full"})[0], {"mask": [[[[True, False, True]] * 2]]})
        self.assertEqual(self.asked(keep=keep, form={"mask_type": "bias"})[0], {"bias": [[[[0, -np.inf, 0]]]]})
        both = self.asked(keep=keep, bias=np.zeros((2, 3), "f"))[0]
        self.assertEqual(set(both), {"mask", "bias"})


class NormsAgree(block_calls.Norms, unittest.TestCase):
    make = {norm: SUBJECTS[f"{BACKEND}-{norm}"] for norm in NORMS}

    def test_a_layer_has_the_weights_of_each_call(self):
        """One that is kept, and asked without gamma behind a call with it."""
        subject = self.make["RMSNormalization"]()
        for gamma in (True, False, True):
            c = block_calls.norm(gamma=gamma, rms=True, epsilon=0.5 if gamma else 0.25)
            subject.layer_norm(c)
            self.assertLess(np.abs(c.out - block_calls.norm_reference(c)).max(), 1e-5)
        self.assertEqual(len(subject.layers), 1)

    def test_float32_weights_are_those_of_mixed_precision(self):
        from attest.adapters import _keras_norm
        for dtype, param_dtype, policy in (("f16", "f16", "float16"), ("f16", "f32", "mixed_float16"), ("f32", "f32", "float32"),
                                           ("bf16", "f32", "mixed_bfloat16"), ("bf16", None, "bfloat16")):
            c = block_calls.norm(dtype=dtype, param_dtype=param_dtype, gamma=param_dtype is not None, beta=param_dtype is not None)
            self.assertEqual(_keras_norm.policy(c), policy)


class Declarations(unittest.TestCase):
    def test_names_and_versions(self):
        self.assertEqual(set(SUBJECTS), {*BACKENDS, *(f"{backend}-{norm}" for backend in BACKENDS for norm in NORMS),
                                         "numpy-LayerNormalization-as-written"})
        self.assertEqual(make().name, f"keras:{BACKEND}")
        self.assertRegex(make().version, rf"^keras {keras.__version__}, {BACKEND} \d")


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
