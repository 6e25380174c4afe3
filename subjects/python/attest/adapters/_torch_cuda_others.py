"""Attention written out, under torch.compile, and flex_attention on a GPU of NVIDIA's: Inductor writes Triton for both, which
takes seconds a function and kind of shape.

Documents: those of _torch_explicit.py, _torch_flex.py and _torch_compile.py. On precision there is
https://docs.pytorch.org/docs/2.11/notes/cuda.html: "allow_fp16_reduced_precision_reduction" and its likes for bfloat16 are on by
default, and for 16-bit types no more than the type's own precision is read out of it.
"""

from ._torch_cuda_sdpa import generous
from ._torch_explicit import Explicit, ExplicitCompiled
from ._torch_flex import Flex, FlexCompiled


class CudaExplicit(Explicit):
    contract = generous(Explicit.dtypes)


class CudaCompiled(ExplicitCompiled):
    times = {"plan_ms": 1500, "warm_up_ms": 10000}
    contract = generous(ExplicitCompiled.dtypes)


class CudaFlex(FlexCompiled):
    """flex_attention under torch.compile, as it is meant to run. Here it gives a log-sum-exp, which it does not on the CPU."""

    times = {"plan_ms": 3000, "warm_up_ms": 20000}
    contract = generous(FlexCompiled.dtypes)
    supports = {"lse": True}
    forms = Flex.forms | FlexCompiled.forms
