"""Arguments of a function whose tensors are made from NumPy arrays: what goes in, and what an exported script writes for it."""

from typing import NamedTuple

import numpy as np

from attest.formats import is_coded, widened

# [B, H, L, D] as libraries lay it out, what a script writes for that, and the same of the way back.
_LAYOUTS = {
    "bhld": (lambda a: a, "", lambda a: a, ""),
    "blhd": (lambda a: a.transpose(0, 2, 1, 3), ".transpose(0, 2, 1, 3)",
             lambda a: a.transpose(0, 2, 1, 3), ".transpose(0, 2, 1, 3)"),
    "hld": (lambda a: a[0], "[0]", lambda a: a[None], "[None]"),
    "lhd": (lambda a: a[0].transpose(1, 0, 2), "[0].transpose(1, 0, 2)",
            lambda a: a.transpose(1, 0, 2)[None], ".transpose(1, 0, 2)[None]"),
}


class Argument(NamedTuple):
    array: np.ndarray  # bfloat16 as its bits
    dtype: str  # as Call has it: f16, bf16, f32, f64, i32, bool
    text: str  # the same in a script, of the numbers themselves


def laid(call, name, layout):
    """q, k or v of the call in a layout."""
    change, text, _, _ = _LAYOUTS[layout]
    return Argument(change(getattr(call, name)), call.dtype, name + text)


def given(array, dtype, call):
    """A mask, a bias or lengths."""
    return Argument(array, dtype, cut_of(array, call) or literal(array, dtype))


def unlaid(array, layout):
    """An output of that layout as [B, H, L, D]."""
    return _LAYOUTS[layout][2](array)


def unlaid_text(layout):
    return _LAYOUTS[layout][3]


def cut_of(array, call):
    """The array as the call's keep or bias with some dimensions cut to length 1, or None where it is neither."""
    for name in ("keep", "bias"):
        tensor = getattr(call, name)
        if tensor is None or tensor.dtype != array.dtype or array.ndim != 4:
            continue
        cut = tuple(slice(0, n) for n in array.shape)
        if tensor[cut].shape == array.shape and np.ascontiguousarray(tensor[cut]).tobytes() == array.tobytes():
            return f"{name}[{', '.join(':1' if n < m else ':' for n, m in zip(array.shape, tensor.shape))}]"
    return None


def literal(array, dtype):
    """The array's numbers; those of bfloat16 as a list of them."""
    if array.size == 0:
        return f"np.zeros({array.shape}, np.{array.dtype.name})"
    text = str(widened(array, dtype).tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
    return text if is_coded(dtype) else f"np.array({text}, np.{array.dtype.name})"
