"""What lets keys take part, as numpy masks: for what an operator has no words for but a mask."""

import numpy as np

TOP_LEFT, BOTTOM_RIGHT = 0, 1  # Call.align


def narrowed(array, axes=(0, 1, 2)):
    """The view with those of `axes` that are broadcast (stride 0) cut to length 1."""
    index = [slice(None)] * array.ndim
    for axis in axes:
        if array.strides[axis] == 0:
            index[axis] = slice(0, 1)
    return array[tuple(index)]


def windowed(call):
    return call.window_left >= 0 or call.window_right >= 0


def lengths_as_keep(kv_lengths, lk):
    """bool [B, 1, 1, Lk]: key j of sample b is no padding."""
    return (np.arange(lk) < kv_lengths[:, None])[:, None, None, :]


def diagonal_as_keep(call):
    """bool [1 or B, 1, Lq, Lk]: the keys that the causal mask and the windows leave to each query."""
    lq, lk = call.q.shape[2], call.k.shape[2]
    ends = np.array([lk]) if call.kv_lengths is None else call.kv_lengths
    shift = (ends - lq if call.align == BOTTOM_RIGHT else np.zeros(1, int))[:, None, None, None]
    column = np.arange(lk) - np.arange(lq)[:, None] - shift
    return (((column <= 0) | (not call.causal))
            & ((column >= -call.window_left) | (call.window_left < 0))
            & ((column <= call.window_right) | (call.window_right < 0)))


def keep_of(call):
    """All that lets keys take part as one bool mask, broadcast axes of length 1 but for the keys', or None."""
    parts = [] if call.keep is None else [narrowed(call.keep)]
    if call.kv_lengths is not None:
        parts.append(lengths_as_keep(call.kv_lengths, call.k.shape[2]))
    if call.causal or windowed(call):
        parts.append(diagonal_as_keep(call))
    keep = None
    for part in parts:
        keep = part if keep is None else keep & part
    return keep
