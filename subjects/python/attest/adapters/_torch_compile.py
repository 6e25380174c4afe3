"""Functions under torch.compile, on the CPU: Inductor writes C++ for them, which takes seconds a function and kind of shape.

Document: https://docs.pytorch.org/docs/2.15/generated/torch.compile.html, the docstring of torch.compile. The
default of dynamic is one or the other of the two values there, by the calls before it: these are asked, so that what a call gives
does not hang on the calls before it.
"""

import os
from functools import lru_cache

import torch

from attest import Refused

from ._quotes import quotes
from ._torch_call import ask

TIMES = {"plan_ms": 8000}
# Each job compiles for itself, beside the others, and needs no pool of as many processes as there are cores.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
SHAPES = {"static": False, "dynamic": True}

COMPILED = quotes("""
docstring of torch.compile
    form.shapes=static | When this is False, we will NEVER generate dynamic kernels, we will always specialize.
    form.shapes=dynamic | When this is True, we will up-front attempt to generate a kernel that is as dynamic as possible to avoid recompilations when sizes change.
""")


def need_compiler(device=None):
    """Ends with PyTorch's sentence where it finds no C++ compiler, which kernels for the CPU take."""
    if device:
        return
    from torch._inductor.cpp_builder import get_cpp_compiler

    get_cpp_compiler()


@lru_cache(maxsize=None)
def compiled(function, shapes):
    return torch.compile(function, dynamic=SHAPES[shapes], fullgraph=True)


def ask_compiled(function, shapes, *arguments, **options):
    """The function's result as compiled code gives it. PyTorch keeps a few kernels a function and then runs it uncompiled, or,
    with fullgraph, says so: then all are forgotten."""
    try:
        return ask(lambda: compiled(function, shapes)(*arguments, **options))
    except torch._dynamo.exc.FailOnRecompileLimitHit:
        torch._dynamo.reset()
        return ask(lambda: compiled(function, shapes)(*arguments, **options))
    except Refused as refused:
        lines = str(refused.__cause__).splitlines()
        error = next((line.partition("error: ")[2] for line in lines if ": error: " in line), None)
        if error is None:
            raise
        raise Refused(f"{refused}: {error}") from refused.__cause__
