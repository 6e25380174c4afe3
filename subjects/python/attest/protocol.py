"""The worker protocol, version 1 (docs/worker.md): calls as numpy views of the shared arena."""
import mmap
import os

import numpy as np

from .formats import ROWS

VERSION = 1

# bf16 has no numpy type: its bits travel as uint16, and Call.dtype says "bf16".
NUMPY = {dtype: row.numpy for dtype, row in ROWS.items()}

# The types of models' tensors; the first of two that numpy has alike stands for both in answers.
MODEL_NUMPY = {**NUMPY, "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "i8": np.dtype(np.int8), "uint16": np.dtype(np.uint16),
               "int16": np.dtype(np.int16), "uint32": np.dtype(np.uint32), "uint64": np.dtype(np.uint64)}


class Unsupported(Exception):
    """Raised by a kernel that does not offer what the call asks: the case is counted as skipped."""


class Broken(Exception):
    """Raised by a subject of which nothing more can be asked: the call is an error, and the worker ends behind its answer."""


class Refused(Exception):
    """Raised by a kernel whose library refuses what it should take: an error, told by its text alone, without a traceback."""


class Arena:
    """The shared memory in which the tensors of a call lie; it may grow between messages."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.memory = None
        self.size = 0

    def view(self, tensor):
        """A numpy array over the tensor's own bytes: same strides, same address modulo the page size."""
        dtype = NUMPY[tensor["dtype"]]
        size = dtype.itemsize
        return np.ndarray(tensor["shape"], dtype, self.memory, tensor["offset"],
                          [stride * size for stride in tensor["strides"]])

    def map(self, size):
        """Makes the first `size` bytes visible. Views of an older mapping stay valid."""
        if size > self.size:
            self.memory = mmap.mmap(self.file, size)
            self.size = size


class _Asked:
    """A call as a message tells it. A subclass has TENSORS, the first of which is always there, NUMBERS and FLOATS."""

    __slots__ = ("dtype",)

    def __init__(self, message, arena):
        for name in self.TENSORS:
            setattr(self, name, arena.view(message[name]) if message.get(name) else None)
        for name in self.NUMBERS:
            setattr(self, name, message[name])
        for name in self.FLOATS:
            setattr(self, name, float(message[name]))
        self.dtype = message[self.TENSORS[0]]["dtype"]


class Call(_Asked):
    """One attention call. Tensors are numpy views into the arena, None if absent:

    q [B,Hq,Lq,D], k [B,Hkv,Lk,D], v [B,Hkv,Lk,Dv], bias and keep [B,Hq,Lq,Lk] (stride 0 where broadcast),
    kv_lengths int32 [B]; out [B,Hq,Lq,Dv] and lse [B,Hq,Lq] are to be written.
    dtype: "f16", "bf16" (bits as uint16), "f32" or "f64", of q, k, v and out. bias_dtype: that of bias.
    scale, softcap (0 = none): float. scale_is_default, causal: bool. align: 0 top-left, 1 bottom-right.
    window_left, window_right: int, negative = unbounded. threads: int, 0 = as you like.
    form: dict, how the call is to be said; a form that is not in it has its first value.
    """

    op = "attention"
    TENSORS = ("q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse")
    NUMBERS = ("scale_is_default", "causal", "align", "window_left", "window_right", "threads")
    FLOATS = ("scale", "softcap")
    __slots__ = TENSORS + NUMBERS + FLOATS + ("bias_dtype", "form")

    def __init__(self, message, arena):
        super().__init__(message, arena)
        self.bias_dtype = message["bias"]["dtype"] if self.bias is not None else None
        self.form = message.get("form", {})


class LayerNormCall(_Asked):
    """One layer_norm call. Tensors are numpy views into the arena, None if absent:

    x and residual [rows,hidden], gamma and beta [hidden]; out and sum_out [rows,hidden] are to be written.
    dtype: "f16", "bf16" (bits as uint16), "f32" or "f64", of x, residual, out and sum_out. param_dtype: that of gamma and
    beta, None where neither is there. epsilon: float. rms: bool, RMSNorm. threads: int, 0 = as you like.
    """

    op = "layer_norm"
    TENSORS = ("x", "residual", "gamma", "beta", "out", "sum_out")
    NUMBERS, FLOATS = ("rms", "threads"), ("epsilon",)
    __slots__ = TENSORS + NUMBERS + FLOATS + ("param_dtype",)

    def __init__(self, message, arena):
        super().__init__(message, arena)
        parameter = message.get("gamma") or message.get("beta")
        self.param_dtype = parameter["dtype"] if parameter else None


class MhaCall(_Asked):
    """One call of an attention block. Tensors are numpy views into the arena, None if absent:

    x [B,L,E]; memory [B,M,E], None for self-attention; w_q [heads*head_dim,E], w_k and w_v [kv_heads*head_dim,E], w_out
    [E,heads*head_dim] (y = x W^T + b); b_q, b_k, b_v, b_out; bias and keep [B,heads,L,M] (stride 0 where broadcast);
    kv_lengths int32 [B]; out [B,L,E] is to be written. Where they are asked for, too: q [B,heads,L,head_dim] before any scale,
    k and v [B,kv_heads,M,head_dim], heads_out [B,L,heads*head_dim].
    dtype: "f16", "bf16" (bits as uint16), "f32" or "f64", of every tensor but stages. stage_dtype: theirs, None where none is
    asked for. heads, kv_heads, head_dim: int. scale: float. scale_is_default, causal: bool. align: 0 top-left, 1 bottom-right.
    threads: int, 0 = as you like.
    """

    op = "mha"
    INPUTS = ("x", "memory", "w_q", "w_k", "w_v", "w_out", "b_q", "b_k", "b_v", "b_out", "bias", "keep", "kv_lengths")
    STAGES = ("q", "k", "v", "heads_out")
    TENSORS = INPUTS + ("out",) + STAGES
    NUMBERS = ("scale_is_default", "heads", "kv_heads", "head_dim", "causal", "align", "threads")
    FLOATS = ("scale",)
    __slots__ = TENSORS + NUMBERS + FLOATS + ("stage_dtype",)

    def __init__(self, message, arena):
        super().__init__(message, arena)
        self.stage_dtype = next((message[name]["dtype"] for name in self.STAGES if message.get(name)), None)


# The tensors of a call of any operation.
TENSORS = tuple(dict.fromkeys(name for kind in (Call, LayerNormCall, MhaCall) for name in kind.TENSORS))
CALLS = {kind.op: kind for kind in (Call, LayerNormCall, MhaCall)}  # by the operation
