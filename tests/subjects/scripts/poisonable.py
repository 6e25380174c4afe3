"""Right until a call of about one shape in a hundred poisons the process; all later calls fail, each kernel in its way."""
import os

import attest
import numpy as np

poisoned = False


def attention(q, k, v, scale, way):
    global poisoned
    if poisoned and way == "error":
        raise RuntimeError("device lost")
    if poisoned and way == "crash":
        os.abort()
    s = q @ k.swapaxes(-1, -2) * np.float32(scale)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    out = p @ v / p.sum(axis=-1, keepdims=True)
    if poisoned:
        out = out * np.nan if way == "nan" else 1 + 2 * abs(out)
    poisoned = poisoned or poisons(q, k, v)
    return out.astype(np.float32)


def poisons(*tensors):
    number = 0
    for tensor in tensors:
        for n in tensor.shape:
            number = (number * 31 + n) % 2**64
    return (number * 0x9E3779B97F4A7C15 % 2**64) >> 56 < 3


options = {"dtypes": ["float32"], "contract": {"policy": {"f32": "f32"}},
           "supports": {"dims": {"lk": [1, None, 1]}}}


@attest.subject(**options)
def error(q, k, v, *, scale):
    return attention(q, k, v, scale, "error")


@attest.subject(**options)
def crash(q, k, v, *, scale):
    return attention(q, k, v, scale, "crash")


@attest.subject(**options)
def wrong(q, k, v, *, scale):
    return attention(q, k, v, scale, "wrong")


@attest.subject(**options)
def nan(q, k, v, *, scale):
    return attention(q, k, v, scale, "nan")
