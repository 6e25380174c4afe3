"""Numbers as eight-bit integers times a step, where that is what they are: caches and weights that libraries keep so."""

import numpy as np

from ._forms import refuse
from ._quotes import refusals

REFUSED = refusals("""
schema of com.microsoft GroupQueryAttention-1 | ! these numbers are no multiples, of {most} at most, of one step | It also supports optional float8, int8 or int4 quantization for the KV cache
schema of com.microsoft QAttention-1 | ! these numbers are no multiples, of {most} at most, of one step | scale of weight scale. It's a scalar or a 1D tensor, which means a per-tensor/per-column quantization.
""")


def steps(array, kind, most):
    """The float32 steps of an array [B, H, L, D]: one, [1], of the whole (`kind` "tensor"), or one for each head and each of D,
    [1, H, 1, D] ("channel"). All numbers are integer multiples of their step, up to `most`."""
    if kind == "tensor":
        return step_of(array.reshape(-1, 1), most)
    channels = np.moveaxis(array, 2, 1).reshape(-1, array.shape[1] * array.shape[3])
    return step_of(channels, most).reshape(1, array.shape[1], 1, array.shape[3])


def step_of(columns, most):
    """float32 [columns]: of each column of a matrix the largest power of two that all its numbers are multiples of, or what they
    all are but for their signs and zeros; 1 of zeros."""
    numbers = np.abs(columns.astype(np.float64))
    largest = numbers.max(0, initial=0)
    same = np.all((numbers == 0) | (numbers == largest), 0)
    mantissas, exponents = np.frexp(numbers)
    whole = (np.where(np.isfinite(mantissas), mantissas, 0) * 2.0**53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1]
    lowest = np.where(numbers == 0, 2000, exponents - 54 + trailing).min(0, initial=2000)
    step = np.where(largest == 0, 1.0, np.where(same, largest, np.ldexp(1.0, np.minimum(lowest, 900))))
    with np.errstate(all="ignore"):
        kept = step.astype(np.float32)
        held = (kept == step) & (largest <= most * step) & (kept >= np.finfo(np.float32).tiny)
    refuse(not held.all(), f"these numbers are no multiples, of {most} at most, of one step")
    return kept


def quantised(array, step):
    """int8 of the shape of `array`, whose product with `step` it is."""
    return np.rint(array.astype(np.float64) / step.astype(np.float64)).astype(np.int8)
