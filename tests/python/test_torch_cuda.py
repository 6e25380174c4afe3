"""The torch-cuda adapters: that they agree with the reference, and their scripts with them, bit for bit.

On a GPU all of them are asked; where there is none, host memory stands in for the device's, and those that PyTorch has there are.
Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where torch is not installed there.
"""

import os
import subprocess
import sys
import unittest

from need_package import ROOT, need

need("torch", "it is never part of ./run test, ./run fuzz torch:sdpa installs it")

import numpy as np
import torch

from attest import Refused, Unsupported
from attest.adapters._forms import words
from attest.adapters._torch_cuda_sdpa import CudaEfficient
from attest.adapters.torch_cuda import KINDS
from attention_calls import battery, call, far, in_an_arena, open_keys, reference, script_output, values

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
PLANNED = ("compiled", "flex")  # seconds a kernel
# Problems of the battery that each answers, at least.
SAYS = {"default": 17, "math": 17, "flash": 4, "explicit": 17} | ({"flash-lse": 0, "efficient": 0, "cudnn": 0} if GPU else {})


def made(name):
    return KINDS[name](name, device=DEVICE)


def judged(case, subject, dtype, form=None, problems=None):
    """The number of problems that the subject answers, all of them rightly, and as its script does."""
    answered = 0
    for problem, c in problems or battery(dtype):
        c.form = form or {}
        with case.subTest(subject.name, dtype=dtype, problem=problem, form=form):
            in_an_arena(c)
            try:
                subject.attention(c)
            except Unsupported:
                continue
            except Refused as refusal:
                if "dimension" in str(refusal) or "Dimension" in str(refusal):  # torch-sdpa-5
                    continue
                raise
            if not open_keys(c).any(-1).all():  # nothing is promised of a row without keys
                continue
            answered += 1
            case.assertFalse(far(c), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
            try:
                np.testing.assert_array_equal(script_output(subject.script(c), c), values(c.out, c.dtype))
            finally:
                torch.set_default_device(None)  # a script sets it for good
    return answered


class Agreement(unittest.TestCase):
    def test_battery(self):
        for name, least in SAYS.items():
            subject = made(name)
            for dtype in subject.describe()["dtypes"]:
                self.assertGreaterEqual(judged(self, subject, dtype), least, (name, dtype))

    def test_every_form(self):
        for name in SAYS:
            subject = made(name)
            for form, entries in subject.forms.items():
                for value in words(entries):
                    judged(self, subject, subject.describe()["dtypes"][-1], {form: value})
                    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)

    def test_what_a_backend_wants_is_answered(self):
        """Production shapes, on which every backend of a GPU runs."""
        for name in SAYS:
            subject = made(name)
            for dtype in subject.describe()["dtypes"]:
                for causal in (False, True):
                    c = call(b=2, hq=3, lq=130, lk=130, d=64, dtype=dtype, causal=causal)
                    if "lse" in name:
                        c.lse = np.full(c.q.shape[:3], np.nan, np.float32)
                    self.assertEqual(judged(self, subject, dtype, problems=[((name, causal), c)]), 1, (name, dtype))
                    if c.lse is not None:
                        score = c.scale * (values(c.q, dtype) @ values(c.k, dtype).swapaxes(2, 3))
                        score = np.where(open_keys(c), score, -np.inf)
                        np.testing.assert_allclose(c.lse, np.log(np.exp(score).sum(-1)), atol=0.02, rtol=0)

    @unittest.skipUnless(GPU, "no GPU")
    def test_compiled(self):
        some = [dict(b=2, hq=2, lq=3, lk=4, d=16), dict(b=2, hq=2, hkv=1, lq=64, lk=128, d=16, causal=True)]
        for name in PLANNED:
            subject = made(name)
            for shapes in ("static", "dynamic"):
                answered = judged(self, subject, "f16", {"shapes": shapes}, [(c, call(dtype="f16", **c)) for c in some])
                self.assertEqual(answered, 2, name)


class Device(unittest.TestCase):
    @unittest.skipUnless(GPU, "no GPU")
    def test_a_wrong_backend_is_unsupported(self):
        c = call(dtype="f64")
        in_an_arena(c)
        with self.assertRaises(Unsupported):
            CudaEfficient("efficient", device=DEVICE).attention(c)

    def test_descriptions_ask_no_device(self):
        """A worker forks behind its description, which a device that is open forbids. (This process has asked for one.)"""
        code = ("import sys, torch; from attest.adapters.torch_cuda import KINDS; "
                "[kind(name, device=sys.argv[1]).describe() for name, kind in KINDS.items()]; print(torch.cuda.is_initialized())")
        said = subprocess.run([sys.executable, "-c", code, DEVICE], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "subjects" / "python")})
        self.assertEqual(said.stdout.split()[-1:], ["False"], said.stderr)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
