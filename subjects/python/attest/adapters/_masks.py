"""Masks as NumPy arrays, for libraries whose own words do not say a window, key lengths or a diagonal."""

import numpy as np

from attest.formats import widened

from ._forms import refuse
from ._quotes import refusals

TOP_LEFT, BOTTOM_RIGHT = 0, 1  # Call.align

REFUSED = refusals("""
arithmetic | ! a score that overflows, plus -inf, is NaN: no mask to add says that a key is left out | inf + -inf = nan
""")


def narrowed(array, axes=(0, 1, 2, 3)):
    """The view with those of `axes` that are broadcast (stride 0) cut to length 1."""
    return array[tuple(slice(0, 1) if axis in axes and stride == 0 else slice(None)
                       for axis, stride in enumerate(array.strides))]


def windowed(call):
    return call.window_left >= 0 or call.window_right >= 0


def starts_top_left(call):
    """Whether the diagonal of the causal mask and of the windows starts at the top left."""
    return call.align == TOP_LEFT or (call.q.shape[2] == call.k.shape[2] and call.kv_lengths is None)


def causal_alone(call):
    """Whether the call has a causal mask and no other, and no bias."""
    return call.causal and call.keep is None and call.bias is None and call.kv_lengths is None and not windowed(call)


def lengths_as_keep(kv_lengths, lk):
    """bool [B, 1, 1, Lk]: key j of sample b is no padding."""
    return (np.arange(lk) < kv_lengths[:, None])[:, None, None, :]


def diagonal_as_keep(call, causal=True, window=True):
    """bool [1 or B, 1, Lq, Lk]: the keys that the causal mask and the windows, or one of them, leave to each query."""
    lq, lk = call.q.shape[2], call.k.shape[2]
    ends = np.array([lk]) if call.kv_lengths is None else call.kv_lengths
    shift = (ends - lq if call.align == BOTTOM_RIGHT else np.zeros(1, int))[:, None, None, None]
    column = np.arange(lk) - np.arange(lq)[:, None] - shift
    keep = np.ones(column.shape, bool)
    if causal and call.causal:
        keep &= column <= 0
    if window and call.window_left >= 0:
        keep &= column >= -call.window_left
    if window and call.window_right >= 0:
        keep &= column <= call.window_right
    return keep


def keep_of(call, keep=None, lengths=True, causal=True, window=True):
    """The mask of the keys that take part, as one bool array, or None: `keep` and those of the others that are not said in another way."""
    parts = [] if keep is None else [keep]
    if lengths and call.kv_lengths is not None:
        parts.append(lengths_as_keep(call.kv_lengths, call.k.shape[2]))
    if causal and call.causal or window and windowed(call):
        parts.append(diagonal_as_keep(call, causal, window))
    for part in parts[1:]:
        parts[0] = parts[0] & part
    return parts[0] if parts else None


def open_keys(call):
    """bool, broadcastable to [B, Hq, Lq, Lk]: the keys that the masks, the key lengths and a bias above -inf leave to each
    query. A bias that is NaN leaves its key."""
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep))
    if keep is None:
        keep = np.ones((1, 1, 1, call.k.shape[2]), bool)
    return keep if call.bias is None else keep & (narrowed(call.bias) != lowest(call.bias_dtype))


def lowest(dtype):
    """-inf as a number of the dtype; the bits of it in bfloat16."""
    return np.uint16(0xFF80) if dtype == "bf16" else np.dtype({"f16": "f2", "f32": "f4", "f64": "f8"}[dtype]).type(-np.inf)


def added(keep, dtype, bias=None):
    """A mask to add, of the dtype: `bias`, or zeros, with -inf where `keep` is False. bfloat16 as its bits."""
    closed = lowest(dtype)
    return np.where(keep, closed.dtype.type(0) if bias is None else bias, closed)


def added_to(call, keep, dtype, bias=None):
    """The same where it says what `keep` says: not where a closed score may be no finite number, which -inf makes NaN."""
    largest = {"f16": 65504.0, "bf16": 2.0**128, "f32": 2.0**128, "f64": np.finfo(float).max}[call.dtype]
    with np.errstate(all="ignore"):
        product = call.q.shape[3] * magnitude(call.q, call.dtype) * magnitude(call.k, call.dtype) * max(1.0, abs(call.scale))
    refuse(not product < largest, "a score that overflows, plus -inf, is NaN: no mask to add says that a key is left out")
    return added(keep, dtype, bias)


def magnitude(array, dtype):
    """The largest absolute value; NaN where there is one."""
    return float(np.abs(widened(array, dtype)).max(initial=0))


def lowest_rank(mask):
    """The mask without leading dimensions of length 1, as broadcasting permits."""
    while mask.ndim > 0 and mask.shape[0] == 1:
        mask = mask[0]
    return mask


def shaped(mask, call, form):
    """A mask that has length 1 where it is broadcast: as it is ("narrowed"), written out ("full"), or of the lowest rank
    ("lowest")."""
    if form == "full":
        return np.broadcast_to(mask, (*call.q.shape[:3], call.k.shape[2]))
    return lowest_rank(mask) if form == "lowest" else mask


def one_mask(call, as_float):
    """(mask, its dtype) for a library that has one argument for masks to add and for bool ones, or (None, None)."""
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep))
    if call.bias is not None:
        bias = narrowed(call.bias)
        return (bias if keep is None else added_to(call, keep, call.bias_dtype, bias)), call.bias_dtype
    if keep is not None and as_float:
        return added_to(call, keep, call.dtype), call.dtype
    return keep, None if keep is None else "bool"
