"""The jax adapters: what they hand to the functions, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where jax is not installed there.
"""

import contextlib
import os
import unittest
from unittest.mock import patch

from need_package import need

need("jax", "it is never part of ./run test, ./run fuzz jax:sdpa installs it")

import jax
import numpy as np

from array_adapters import Adapters
from attest import Refused, Unsupported
from attest.adapters.jax import SUBJECTS
from attention_calls import BOTTOM_RIGHT, call, empty_calls, far, open_keys, reference, values

LENGTHS = np.array([1, 3], np.int32)


class Plans(unittest.TestCase):
    @patch("attest.adapters._jax_sdpa._KEPT_PLANS", 3)
    def test_a_plan_is_kept_until_there_are_too_many(self):
        subject = SUBJECTS["sdpa"]()
        kept = lambda lk: subject.attention(call(lk=lk)) or subject.compiled._cache_size()
        jax.clear_caches()
        subject.plans.clear()
        one = kept(2)
        self.assertEqual([kept(2) for _ in range(200)], [one] * 200)
        self.assertEqual([kept(lk) for lk in (3, 4, 2, 3)], [2 * one, 3 * one, 3 * one, 3 * one])
        self.assertEqual(kept(5), one)


    def test_what_does_not_compile_is_compiled_once(self):
        subject = SUBJECTS["sdpa"]()
        compiled = []

        def refuses(query, key, value, **options):
            compiled.append(query.shape)
            raise ValueError("no such shape" if query.shape[1] == 3 else "")

        subject.function, subject.compiled = None, jax.jit(refuses, static_argnames=subject.static)
        for lq in (3, 3, 4, 3):
            with self.assertRaisesRegex(Refused, "no such shape" if lq == 3 else "no reason given"):
                subject.attention(call(lq=lq))
        self.assertEqual([shape[1] for shape in compiled], [3, 3, 4, 4])

    def test_an_error_of_one_call_is_not_that_of_its_plan(self):
        subject = SUBJECTS["sdpa"]()
        compiled, calls = subject.compiled, []

        class Fails:
            lower = compiled.lower

            def __call__(self, **arguments):
                calls.append(arguments)
                if len(calls) == 1:
                    raise RuntimeError("out of memory")
                return compiled(**arguments)

        subject.compiled = Fails()
        c = call(lq=5)
        with self.assertRaisesRegex(Refused, "out of memory"):
            subject.attention(c)
        subject.attention(c)
        self.assertFalse(far(c))


class OnCuda(unittest.TestCase):
    def test_where_there_is_no_device_it_is_said_at_the_start(self):
        if any(device.platform == "gpu" for device in jax.devices()):
            self.skipTest("there is one")
        asked = os.environ["JAX_PLATFORMS"]
        from attest.adapters import jax_cuda
        os.environ["JAX_PLATFORMS"] = asked
        for name, subject in jax_cuda.SUBJECTS.items():
            with self.subTest(name), self.assertRaisesRegex(RuntimeError, "finds no device 'cuda' here"):
                subject()


class Agreement(Adapters, unittest.TestCase):
    make = {name: SUBJECTS[name] for name in ("sdpa", "explicit")}
    few = slice(None, None, 3)

    def known(self, name, problem, c, refusal):
        if name == "explicit":
            return False
        if refusal is None:  # jax-sdpa-1
            return c.dtype == "f64" and np.abs(c.out - reference(c)).max() < 1e-5
        precision = {"f16": "F16_F16_F32", "bf16": "BF16_BF16_F32"}.get(c.dtype)  # jax-sdpa-2, jax-sdpa-3
        return precision is not None and precision in str(refusal)

    def least_of(self, name, dtype):
        return 0 if name == "sdpa" and dtype == "f16" else 5

    def compare(self, subject, c):
        super().compare(subject, c)
        jax.config.update("jax_enable_x64", False)  # scripts of float64 turn it on

    def test_tensors_without_elements(self):
        for name in self.make:
            for problem, c in empty_calls(SUBJECTS[name]()):
                with self.subTest(name, problem=problem), contextlib.suppress(Unsupported):
                    SUBJECTS[name]().attention(c)

    def test_half_precision_holds_without_jit(self):
        for dtype in ("f16", "bf16"):
            c = call(dtype=dtype, hq=2, lq=3, lk=4, form={"compiled": "eager"})
            SUBJECTS["sdpa"]().attention(c)
            self.assertFalse(far(c), dtype)


class Residual(unittest.TestCase):
    def test_log_sum_exp(self):
        c = call(b=2, hq=4, hkv=2, lq=3, lk=5, kv_lengths=np.array([0, 4], np.int32), lse=np.zeros((2, 4, 3), np.float32))
        SUBJECTS["sdpa-residual"]().attention(c)
        score = c.scale * values(c.q, "f32") @ np.repeat(values(c.k, "f32"), 2, 1).swapaxes(2, 3)
        weight = np.where(open_keys(c), np.exp(score), 0).sum(-1)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(c.lse, np.log(weight), rtol=1e-5)
        self.assertTrue(np.isneginf(c.lse[0]).all())

    def test_it_has_the_type_of_the_key(self):
        with self.assertRaises(Unsupported):
            SUBJECTS["sdpa-residual"]().attention(call(dtype="f64", lse=np.zeros((1, 1, 2), np.float32)))

    def test_the_output_is_right_without_asking(self):
        c = call()
        SUBJECTS["sdpa-residual"]().attention(c)
        self.assertFalse(far(c))


class Encoding(unittest.TestCase):
    def asked(self, **options):
        asked = SUBJECTS["sdpa"]().asked(call(**options))
        arguments = {name: a.array.tolist() for name, a in asked.arguments.items() if name not in ("query", "key", "value")}
        return arguments, {name: value for name, value in asked.options.items() if name != "implementation"}

    def test_plain(self):
        self.assertEqual(self.asked(), ({}, {}))
        self.assertEqual(self.asked(d=4, scale=0.5), ({}, {"scale": 0.5}))
        self.assertEqual(SUBJECTS["sdpa"]().asked(call()).options, {"implementation": "xla"})

    def test_flags_are_of_the_top_left(self):
        self.assertEqual(self.asked(causal=True, lq=2, lk=5), ({}, {"is_causal": True}))
        arguments, options = self.asked(causal=True, lq=2, lk=3, align=BOTTOM_RIGHT)
        self.assertEqual((arguments["mask"][0][0], options), ([[True, True, False], [True] * 3], {}))
        self.assertEqual(self.asked(lq=3, window_left=1), ({}, {"local_window_size": (1, 3)}))
        self.assertEqual(self.asked(lq=2, lk=2, window_right=0, align=BOTTOM_RIGHT), ({}, {"local_window_size": (2, 0)}))
        self.assertEqual(set(self.asked(window_right=0, align=BOTTOM_RIGHT)[0]), {"mask"})

    def test_lengths_are_said_beside_a_causal_flag(self):
        self.assertEqual(self.asked(b=2, kv_lengths=LENGTHS, causal=True),
                         ({"key_value_seq_lengths": [1, 3]}, {"is_causal": True}))

    def test_forms(self):
        self.assertEqual(self.asked(window_left=1, window_right=1, form={"window": "int"})[1], {"local_window_size": 1})
        self.assertEqual(self.asked(window_left=1, form={"window": "int"})[1], {"local_window_size": (1, 3)})
        self.assertEqual(self.asked(b=2, form={"lengths": "full"})[0],
                         {"query_seq_lengths": [2, 2], "key_value_seq_lengths": [3, 3]})
        self.assertEqual(self.asked(b=2, kv_lengths=LENGTHS, form={"lengths": "mask"})[0],
                         {"mask": [[[[True, False, False]]], [[[True] * 3]]]})
        keep = np.array([1, 0, 1], bool)
        self.assertEqual(self.asked(keep=keep, form={"mask_type": "bias"})[0], {"bias": [[[[0, -np.inf, 0]]]]})
        self.assertEqual(self.asked(keep=keep, form={"mask": "full"})[0], {"mask": [[[[True, False, True]] * 2]]})
        rank = SUBJECTS["sdpa"]().asked(call(hq=2, form={"rank": "tnh"}))
        self.assertEqual(rank.arguments["query"].array.shape, (2, 2, 2))
        with self.assertRaises(Unsupported):
            self.asked(b=2, form={"rank": "tnh"})

    def test_the_implementation_is_pinned(self):
        from attest.adapters._jax_sdpa import Sdpa
        self.assertEqual(Sdpa("cudnn", implementation="cudnn").asked(call()).options, {"implementation": "cudnn"})

    def test_float64_stays_with_its_call(self):
        SUBJECTS["explicit"]().attention(call(dtype="f64"))
        self.assertEqual(jax.numpy.zeros(1, float).dtype, np.float32)


if __name__ == "__main__":
    unittest.main()
