"""Calls of a plug-in through ctypes, as attest's host would make them (include/attest/plugin.h)."""

import ctypes
import json
from types import SimpleNamespace

import numpy as np

from attention_calls import BOTTOM_RIGHT, TENSORS, call, far, in_an_arena

DONE, UNSUPPORTED = 0, 1
_CODES = {"f16": (2, 16), "bf16": (4, 16), "f32": (2, 32), "f64": (2, 64), "bool": (6, 8), "i32": (0, 32)}


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _Attention(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("flags", ctypes.c_uint64),
                *((name, _Tensor) for name in ("q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse", "scores", "weights")),
                ("scale", ctypes.c_double), ("softcap", ctypes.c_double), ("causal", ctypes.c_int32), ("align", ctypes.c_int32),
                ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64), ("threads", ctypes.c_int32),
                ("form", ctypes.c_char_p)]


_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Attention), ctypes.c_char_p, ctypes.c_size_t)


class _Subject(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("self", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("version", ctypes.c_char_p), ("describe", ctypes.c_char_p),
                ("open", ctypes.c_void_p), ("close", ctypes.c_void_p), ("attention", _CALL)]


def subjects(path):
    """The subjects of a plug-in by name: each its `version`, `describe` and a function `attention(call)` that returns (status,
    message)."""
    library = ctypes.CDLL(str(path))
    library.attest_plugin.restype = ctypes.POINTER(_Subject)
    count = ctypes.c_size_t()
    table = library.attest_plugin(1, ctypes.byref(count))
    return {table[i].name.decode(): SimpleNamespace(version=table[i].version.decode(), describe=json.loads(table[i].describe),
                                                    attention=lambda c, row=table[i]: _run(row, c))
            for i in range(count.value)}


def _run(row, c):
    """A call of attention_calls.py."""
    asked = _Attention(struct_size=ctypes.sizeof(_Attention), flags=int(c.scale_is_default), scale=c.scale, softcap=c.softcap,
                      causal=c.causal, align=c.align, window_left=c.window_left, window_right=c.window_right, threads=c.threads,
                      form=json.dumps(c.form, separators=(",", ":")).encode() if c.form else None)
    kept = []
    for name in TENSORS:
        array = getattr(c, name)
        if array is None:
            continue
        dtype = {"bias": c.bias_dtype, "keep": "bool", "kv_lengths": "i32"}.get(name, c.dtype)
        dtype = f"f{8 * array.itemsize}" if name == "lse" else dtype
        numbers = [(ctypes.c_int64 * array.ndim)(*values) for values in (array.shape, [s // array.itemsize for s in array.strides])]
        kept += numbers
        code, bits = _CODES[dtype]
        setattr(asked, name, _Tensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, *numbers, 0))
    message = ctypes.create_string_buffer(400)
    status = row.attention(row.self, ctypes.byref(asked), message, len(message))
    return status, message.value.decode()


class AnyPlugin:
    """The tests of every plug-in of attention, of which `plugin` is the subject: to be mixed into a TestCase."""

    def test_a_wrong_corner_is_far(self):
        c = call(causal=True, lq=2, lk=5)
        self.plugin.attention(c)
        self.assertFalse(far(c))
        c.align = BOTTOM_RIGHT
        self.assertTrue(far(c))

    def test_views_are_read_and_written_through_their_strides_and_nothing_else_is(self):
        """Memory lies as attest lays it out: poison around each tensor, off the alignment; out in ggml's own order, and in another."""
        for dtype in self.plugin.describe["dtypes"]:
            for order in (0, 2, 1, 3), (0, 1, 2, 3):
                c = call(b=2, hq=3, lq=4, lk=5, d=3, dtype=dtype)
                c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
                c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
                c.out = np.zeros(tuple(c.out.shape[axis] for axis in order), c.out.dtype).transpose(order)
                memory = in_an_arena(c, shift=1)
                before, out = memory.copy(), c.out
                with self.subTest(dtype=dtype, order=order):
                    self.assertEqual(self.plugin.attention(c), (DONE, ""))
                    self.assertFalse(far(c))
                    out[...] = 0
                    np.testing.assert_array_equal(memory, before)
