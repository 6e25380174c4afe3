"""A Python subject for attest: plain attention in numpy, and the same with a defect for attest to find.

    attest fuzz examples/attention_subject.py:plain
    attest fuzz examples/attention_subject.py:forgets_scale
"""
import attest
import numpy as np


def attention(q, k, v, scale, causal, align, bias):
    """In float32, rounded to the type of q once, at the end."""
    s = (q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2)) * np.float32(scale)
    if bias is not None:
        s = s + bias.astype(np.float32)
    if causal:
        rows, keys = s.shape[-2:]
        offset = keys - rows if align == "bottom_right" else 0
        s = np.where(np.arange(keys) <= np.arange(rows)[:, None] + offset, s, -np.inf)
    largest = s.max(axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isneginf(largest), 0, largest))
    total = p.sum(axis=-1, keepdims=True)
    out = p @ v.astype(np.float32) / np.where(total == 0, 1, total)
    return out.astype(q.dtype)


options = {"dtypes": ["float16", "float32"], "supports": {"far": True},
           "contract": {"policy": {"f16": "f16", "f32": "f32"}, "empty_row": "zero", "deterministic": "rerun"}}


@attest.subject(**options)
def plain(q, k, v, *, scale, causal=False, align="top_left", bias=None):
    return attention(q, k, v, scale, causal, align, bias)


@attest.subject(**options)
def forgets_scale(q, k, v, *, scale, causal=False, align="top_left", bias=None):
    return attention(q, k, v, 1.0, causal, align, bias)
