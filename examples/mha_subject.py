"""A Python subject of mha for attest: an attention block in numpy, and the same with a defect for attest to find.

    attest fuzz examples/mha_subject.py:plain
    attest fuzz examples/mha_subject.py:heads_transposed
"""
import attest
import numpy as np


def projected(x, w, b):
    y = x @ w.astype(np.float32).swapaxes(-1, -2)
    return y if b is None else y + b.astype(np.float32)


def split(y, heads):
    """[B,T,heads*d] as [B,heads,T,d]."""
    batch, tokens, width = y.shape
    return y.reshape(batch, tokens, heads, width // heads).swapaxes(1, 2)


def block(x, memory, weights, biases, heads, kv_heads, scale, causal, keep, stages, join):
    """In float32; what is projected, and the concatenated heads, are rounded to the type of x."""
    dtype = x.dtype
    memory = x if memory is None else memory
    tokens = [tensor.astype(np.float32) for tensor in (x, memory, memory)]
    q, k, v = (split(projected(t, w, b), n).astype(dtype)
               for t, w, b, n in zip(tokens, weights, biases, (heads, kv_heads, kv_heads)))
    group = heads // kv_heads
    s = q.astype(np.float32) @ np.repeat(k.astype(np.float32), group, 1).swapaxes(-1, -2) * np.float32(scale)
    if keep is not None:
        s = np.where(keep, s, -np.inf)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    o = p @ np.repeat(v.astype(np.float32), group, 1) / np.where(total == 0, 1, total)  # an empty row gives 0
    joined = join(o).reshape(*x.shape[:2], -1).astype(dtype)
    out = projected(joined.astype(np.float32), weights[3], biases[3]).astype(dtype)
    return (out, {"q": q, "k": k, "v": v, "heads": joined}) if stages else out


options = {"op": "mha", "dtypes": ["float16", "float32"], "supports": {"align": ["top_left"]},
           "contract": {"policy": {"f16": "f16", "f32": "f32"}, "empty_row": "zero", "deterministic": "rerun"}}


@attest.subject(**options)
def plain(x, w_q, w_k, w_v, w_out, *, memory=None, b_q=None, b_k=None, b_v=None, b_out=None, heads, kv_heads, scale,
          causal=False, keep=None, stages=()):
    return block(x, memory, (w_q, w_k, w_v, w_out), (b_q, b_k, b_v, b_out), heads, kv_heads, scale, causal, keep, stages,
                 lambda o: o.swapaxes(1, 2))


@attest.subject(**options)
def heads_transposed(x, w_q, w_k, w_v, w_out, *, memory=None, b_q=None, b_k=None, b_v=None, b_out=None, heads, kv_heads,
                     scale, causal=False, keep=None, stages=()):
    return block(x, memory, (w_q, w_k, w_v, w_out), (b_q, b_k, b_v, b_out), heads, kv_heads, scale, causal, keep, stages,
                 lambda o: o)
