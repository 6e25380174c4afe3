#!/usr/bin/env python3
"""attest.judge(), bound(), explain() and replay(): right and wrong results of numpy, torch and jax, and stored problems.

Usage: test_judging.py ATTEST [unittest option...]
"""
import importlib.util
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import need

SUBJECT = """
import attest
import numpy as np

def attention(q, k, v, scale):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)

@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def kernel(q, k, v, *, scale):
    return attention(q, k, v, 1)

@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def mended(q, k, v, *, scale):
    return attention(q, k, v, scale)
"""


def attention(q, k, v, causal=False, scale=None, bias=None, softcap=None):
    """In float32, rounded once to the type of q."""
    q, k, v = (tensor.astype(np.float32) for tensor in (q, k, v))
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    s = s if softcap is None else softcap * np.tanh(s / softcap)
    s = s if bias is None else s + bias
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


class FromTorch:
    """A stand-in for a tensor of torch on a GPU."""

    def __init__(self, array, dtype="torch.float32", place="cuda"):
        self.array, self.dtype, self.place = array, dtype, place

    def detach(self): return self
    def cpu(self): return FromTorch(self.array, self.dtype, "cpu")
    def float(self): return FromTorch(self.array.astype(np.float32), "torch.float32", self.place)

    def numpy(self):
        if self.place != "cpu" or self.dtype == "torch.bfloat16":
            raise TypeError("can't convert it to numpy")
        return self.array


class ByArray:
    def __init__(self, array): self.array = array
    def __array__(self, dtype=None, copy=None): return self.array


class ByDlpack:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **options): return self.array.__dlpack__(**options)
    def __dlpack_device__(self): return self.array.__dlpack_device__()


class Judging(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(7)
        self.q, self.k, self.v = (rng.standard_normal((1, 2, 6, 8)).astype(np.float16) for _ in range(3))
        self.mask = rng.random((6, 6)) < 0.7
        self.mask[:, 0] = True

    def out(self, **call):
        return attention(self.q, self.k, self.v, **call).astype(np.float16)

    def judge(self, out, **call):
        return attest.judge(self.q, self.k, self.v, out, policy="f16", **call)

    def assertHolds(self, report):
        self.assertEqual((report["verdict"], report["exit"]), ("pass", 0))
        self.assertIn("held: 96 elements", repr(report))
        self.assertNotIn("attest-", repr(report))  # no temporary file

    def test_what_holds_is_a_report(self):
        self.assertHolds(self.judge(self.out()))
        self.assertHolds(self.judge(self.out(causal=True), causal=True))
        self.assertHolds(self.judge(self.out(scale=0.5, softcap=3), scale=np.float32(0.5), softcap=3))
        self.assertHolds(self.judge(self.out(), causal=False, contract={"exp_ulp": 4}))
        swapped = (tensor.swapaxes(1, 2) for tensor in (self.q, self.k, self.v, self.out()))
        self.assertHolds(attest.judge(*swapped, layout="bshd", policy="f16"))

    def test_a_failure_is_stored_where_it_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(attest.Failure) as caught:
                self.judge(self.out(scale=1), corpus=folder)
            entry = caught.exception.report["reproducer"]
            self.assertTrue(entry.startswith(folder))
            self.assertEqual(attest.replay(entry)["as_expected"], 1)
        with self.assertRaises(attest.Failure) as caught:
            self.judge(self.out(scale=1))
        self.assertNotIn("reproducer", caught.exception.report)

    def test_what_fails_is_an_assertion_whose_first_line_is_the_witness(self):
        for call in ({}, {"causal": True, "scale": 1}, {"causal": True, "softcap": 1}):
            with self.assertRaises(AssertionError) as caught:
                self.judge(self.out(causal=True), **call)
            self.assertIsInstance(caught.exception, attest.Failure)
            first = str(caught.exception).partition("\n")[0]
            self.assertRegex(first, r"^out\[0,0,\d,\d\] is \S+, where a correct kernel gives \S+ to \S+")
            self.assertIn("FAILED", str(caught.exception))
            self.assertEqual(caught.exception.report["exit"], 1)
            self.assertEqual("it holds if the call is causal" in first, not call)
        nan = self.out()
        nan[0, 1, 2, 3] = np.nan
        with self.assertRaisesRegex(attest.Failure, r"^out\[0,1,2,3\] is nan, where"):
            self.judge(nan)

    def test_the_witness_has_as_many_digits_as_show_that_it_is_outside(self):
        exact = attention(*(tensor.astype(np.float64) for tensor in (self.q, self.k, self.v)))
        q, k, v = (tensor.astype(np.float64) for tensor in (self.q, self.k, self.v))
        with self.assertRaises(attest.Failure) as caught:
            attest.judge(q, k, v, exact.astype(np.float64), policy="f64")  # in float32
        numbers = re.match(r"\S+ is (\S+), where a correct kernel gives (\S+) to ([^\s;]+)", str(caught.exception)).groups()
        got, low, high = map(float, numbers)
        self.assertFalse(low <= got <= high)

    def test_names_of_torch(self):
        q, k, v = self.q, self.k, self.v
        def judge(out, **call):
            return attest.judge(query=q, key=k, value=v, out=out, policy="f16", **call)
        self.assertHolds(judge(self.out(), attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False))
        self.assertHolds(judge(self.out(causal=True), is_causal=True))
        self.assertHolds(judge(self.out(bias=np.where(self.mask, 0, -np.inf)), attn_mask=self.mask))
        bias = np.random.default_rng(8).standard_normal((1, 2, 6, 6)).astype(np.float16)
        self.assertHolds(judge(self.out(bias=bias.astype(np.float32)), attn_mask=bias))
        for wrong in ({"attn_mask": ~self.mask | np.eye(6, dtype=bool)}, {"attn_mask": bias}, {"is_causal": True}):
            with self.assertRaises(attest.Failure):
                judge(self.out(), **wrong)
        for twice in ({"q": q}, {"is_causal": True, "causal": True}, {"attn_mask": self.mask, "keep": self.mask}):
            with self.assertRaisesRegex(TypeError, "are one argument"):
                judge(self.out(), **twice)
        with self.assertRaisesRegex(ValueError, "dropout_p"):
            judge(self.out(), dropout_p=0.1)

    def test_any_number_of_axes_in_front(self):
        def judge(reshape, out, **call):
            return attest.judge(*(reshape(tensor) for tensor in (self.q, self.k, self.v, out)), policy="f16", **call)
        self.assertHolds(judge(lambda tensor: tensor[0], self.out()))
        self.assertHolds(judge(lambda tensor: tensor.reshape(1, 1, 2, 6, 8), self.out(causal=True), causal=True))
        self.assertHolds(judge(lambda tensor: tensor.reshape(2, 1, 1, 6, 8), self.out(bias=np.where(self.mask, 0, -np.inf)), attn_mask=self.mask))
        with self.assertRaises(attest.Failure):
            judge(lambda tensor: tensor.reshape(2, 1, 1, 6, 8), self.out(), attn_mask=self.mask)

    def test_tensors_of_other_libraries(self):
        q, k, v, out = self.q, self.k, self.v, self.out()
        for made in (ByArray, ByDlpack, lambda array: FromTorch(array, "torch.float16"), lambda array: array.tolist()):
            self.assertHolds(attest.judge(*map(made, (q, k, v, out)), policy="f16"))
            with self.assertRaises(attest.Failure):
                attest.judge(*map(made, (q, k, v, self.out(scale=1))), policy="f16")
        with self.assertRaisesRegex(TypeError, "q is of object, which is no array"):
            attest.judge(object(), k, v, out, policy="f16")

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "no ml_dtypes here")
    def test_bfloat16(self):
        from ml_dtypes import bfloat16
        q, k, v = (tensor.astype(bfloat16) for tensor in (self.q, self.k, self.v))
        right, wrong = (attention(q, k, v, scale=scale).astype(bfloat16) for scale in (None, 1))
        for made in (lambda array: array, ByArray, lambda array: FromTorch(array, "torch.bfloat16")):  # numpy's, jax's, torch's
            self.assertHolds(attest.judge(*map(made, (q, k, v, right)), policy="bf16"))
            with self.assertRaises(attest.Failure):
                attest.judge(*map(made, (q, k, v, wrong)), policy="bf16")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
    def test_torch(self):
        import torch
        q, k, v = (torch.from_numpy(tensor).float().requires_grad_() for tensor in (self.q, self.k, self.v))
        for mask in (None, torch.from_numpy(self.mask), torch.randn(1, 2, 6, 6)):
            out = torch.nn.functional.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=mask)
            self.assertHolds(attest.judge(query=q, key=k, value=v, attn_mask=mask, out=out, policy="f32"))
            with self.assertRaises(attest.Failure):
                attest.judge(query=q, key=k, value=v, attn_mask=mask, out=out * 1.001, policy="f32")
        halves = [tensor.detach().to(torch.bfloat16) for tensor in (q, k, v)]
        exact = torch.nn.functional.scaled_dot_product_attention(*(tensor.double() for tensor in halves))
        self.assertHolds(attest.judge(*halves, exact.to(torch.bfloat16), policy="bf16"))

    @unittest.skipUnless(importlib.util.find_spec("jax"), "no jax here")
    def test_jax(self):
        import jax.numpy as jnp
        q, k, v = (jnp.asarray(tensor, jnp.bfloat16) for tensor in (self.q, self.k, self.v))
        right, wrong = (jnp.asarray(attention(*map(np.asarray, (q, k, v)), scale=scale), jnp.bfloat16) for scale in (None, 1))
        self.assertHolds(attest.judge(q, k, v, right, policy="bf16"))
        with self.assertRaises(attest.Failure):
            attest.judge(q, k, v, wrong, policy="bf16")

    def test_other_operations(self):
        x = np.random.default_rng(9).standard_normal((4, 32)).astype(np.float32)
        gamma = np.linspace(0.5, 2, 32, dtype=np.float32)
        def normalised(x, epsilon):
            y = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
            return (y / np.sqrt((y * y).mean(-1, keepdims=True) + epsilon) * gamma).astype(np.float32)
        self.assertEqual(attest.judge(x=x, gamma=gamma, epsilon=1e-3, out=normalised(x, 1e-3), policy="f32")["verdict"], "pass")
        with self.assertRaises(attest.Failure):
            attest.judge(x=x, gamma=gamma, epsilon=1e-3, out=normalised(x, 1e-2), policy="f32")

        tokens = np.random.default_rng(10).standard_normal((1, 5, 16)).astype(np.float32)
        w = {name: np.random.default_rng(i).standard_normal((16, 16)).astype(np.float32) / 4 for i, name in enumerate(("w_q", "w_k", "w_v", "w_out"))}
        wide = {name: weight.astype(np.float64) for name, weight in w.items()}
        q, k, v = ((tokens @ wide[name].T).reshape(1, 5, 2, 8).swapaxes(1, 2) for name in ("w_q", "w_k", "w_v"))
        s = q @ k.swapaxes(-1, -2) / np.sqrt(8)
        p = np.exp(s - s.max(-1, keepdims=True))
        joined = (p @ v / p.sum(-1, keepdims=True)).swapaxes(1, 2).reshape(1, 5, 16)
        out = (joined @ wide["w_out"].T).astype(np.float32)
        self.assertEqual(attest.judge(x=tokens, **w, heads=2, out=out, policy="f32")["verdict"], "pass")
        with self.assertRaises(attest.Failure):
            attest.judge(x=tokens, **w, heads=4, out=out, policy="f32")

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(TypeError, "did you mean 'window_left'"):
            self.judge(self.out(), windw_left=3)
        with self.assertRaisesRegex(TypeError, "a call of layer_norm has no 'causal'"):
            attest.judge(x=self.q, out=self.q, causal=True, policy="f16")
        with self.assertRaisesRegex(ValueError, "attention, layer_norm, mha"):
            self.judge(self.out(), op="softmax")
        for call, status in (({"align": "middle"}, 2), ({"rows": 0}, 2), ({"layout": "dhsb"}, 2)):
            with self.assertRaises(attest.NotTested) as caught:
                self.judge(self.out(), **call)
            self.assertEqual(caught.exception.status, status)
        with self.assertRaisesRegex(attest.NotTested, "policy"):
            attest.judge(self.q, self.k, self.v, self.out())

    def test_bound(self):
        bound = attest.bound(self.q, self.k, self.v, causal=True, policy="f16")
        self.assertIn("two correct kernels", repr(bound))
        right = attention(*(tensor.astype(np.float64) for tensor in (self.q, self.k, self.v)), causal=True)
        np.testing.assert_allclose(self.out(causal=True).astype(np.float64), right, **bound.exact_tolerances)
        with self.assertRaises(AssertionError):
            np.testing.assert_allclose(self.out().astype(np.float64), right, **bound.exact_tolerances)
        self.assertGreater(bound.tolerances["atol"], bound.exact_tolerances["atol"])
        text = "b=1 hq=2 hkv=2 lq=4 lk=8 d=8 dv=8 dtype=f16 values=normal:1 seed=7"
        self.assertEqual(attest.bound(text, policy="f16", rtol=0).tolerances["rtol"], 0)
        with self.assertRaises(attest.NotTested):
            attest.bound(text, policy="f32")
        with self.assertRaisesRegex(TypeError, "no 'out'"):
            attest.bound(self.q, self.k, self.v, out=self.out(), policy="f16")


class Stored(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        (cls.folder / "stored_kernel.py").write_text(SUBJECT)
        sys.path.insert(0, holder.name)
        import stored_kernel
        cls.module = stored_kernel
        try:
            attest.check(stored_kernel.kernel, cases=30, property="policy-bound", corpus=cls.folder / "corpus")
        except attest.Failure:
            pass
        [cls.file] = (cls.folder / "corpus").rglob("*.json")

    def test_replay(self):
        report = attest.replay(self.file, subject=self.module.kernel)
        self.assertEqual((report["entries"], report["as_expected"], report["failed"]), (1, 1, []))
        self.assertIn("1 as expected", repr(report))
        with self.assertRaises(attest.Failure) as caught:
            attest.replay(self.folder / "corpus", subject=self.module.kernel, expect_pass=True)
        self.assertRegex(str(caught.exception), r"^policy-bound: out\[0,0,0,0\] is \S+, where a correct kernel gives")
        self.assertEqual(caught.exception.report["failed"][0]["file"], str(self.file))
        with self.assertRaisesRegex(attest.Failure, "mended"):
            attest.replay(self.file, subject=self.module.mended)
        self.assertEqual(attest.replay(self.file, subject=self.module.mended, expect_pass=True)["exit"], 0)
        with self.assertRaises(attest.NotTested):
            attest.replay(self.folder / "nowhere")

    def test_explain(self):
        report = attest.explain(self.file, subject=self.module.kernel)
        self.assertTrue(report["fails"])
        self.assertIn("the scale ignored", repr(report))
        self.assertFalse(attest.explain(self.file, subject=self.module.mended)["fails"])
        with self.assertRaises(attest.NotTested):
            attest.explain(self.folder / "nowhere.json")


if __name__ == "__main__":
    need("numpy", "install it")
    os.environ["ATTEST_PROGRAM"] = sys.argv.pop(1)
    import attest
    import numpy as np
    unittest.main()
