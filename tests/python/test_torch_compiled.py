"""The torch adapters under torch.compile: a kernel each, which takes a C++ compiler seconds.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where torch or a C++ compiler is missing.
"""

import sys
import unittest
import unittest.mock

from need_package import need

need("torch", "it is never part of ./run test, ./run fuzz torch:sdpa installs it")

import numpy as np
import torch
from torch._dynamo.utils import counters

from attest import Refused
from attest.adapters import _torch_compile
from attest.adapters._torch_compile import ask_compiled, need_compiler
from attest.adapters.torch import SUBJECTS
from attention_calls import call, far, script_output, values

try:
    need_compiler()
except RuntimeError as missing:
    print(f"skipped: {missing}")
    sys.exit(125)

MASKED = dict(b=2, hq=2, hkv=1, lq=3, lk=5, causal=True, align=1)


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        counters.clear()

    def test_agreement_and_scripts(self):
        for name in ("explicit-compiled", "flex-compiled"):
            for options in (dict(b=2, hq=2, lq=3, lk=4, d=8), MASKED, dict(dtype="bf16", form={"shapes": "dynamic"})):
                subject, c = SUBJECTS[name](), call(**options)
                with self.subTest(name, options=options):
                    subject.attention(c)
                    self.assertFalse(far(c), c.out)
                    np.testing.assert_array_equal(script_output(subject.script(c), c), values(c.out, c.dtype))

    def test_inductor_makes_one_operator_of_it(self):
        with torch._inductor.config.patch(force_disable_caches=True):  # else an earlier run may have made it
            SUBJECTS["explicit-compiled"]().attention(call(b=2, hq=2, lq=3, lk=4, d=8))
        self.assertEqual(counters["inductor"]["fuse_attention"], 1)

    def test_more_kernels_than_are_kept(self):
        full = torch._dynamo.exc.FailOnRecompileLimitHit
        for times, ends in ((1, None), (2, full)):
            kernel = unittest.mock.Mock(side_effect=[full()] * times + [5])
            with unittest.mock.patch.object(_torch_compile, "compiled", return_value=kernel):
                if ends is None:
                    self.assertEqual(ask_compiled(len, "static", 1), 5)
                else:
                    self.assertRaises(ends, ask_compiled, len, "static", 1)

    def test_a_compiler_error_is_told(self):
        c = call(b=2, hq=2, lq=5, lk=7, d=3, keep=np.ones((2, 2, 5, 7), bool), form={"shapes": "dynamic"})
        with self.assertRaisesRegex(Refused, "C\\+\\+ compile error.*was not declared in this scope"):  # torch-flex-1
            SUBJECTS["flex-compiled"]().attention(c)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
