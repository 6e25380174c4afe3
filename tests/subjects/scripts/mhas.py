"""Subjects of mha for tests/python/test_mha.py."""
import attest
import numpy as np


@attest.subject(op="mha", supports={"align": ["top_left"]})
def facts(x, w_q, w_k, w_v, w_out, *, memory, b_q, b_k, b_v, b_out, bias, keep, kv_lengths, heads, kv_heads, head_dim, scale, causal,
          align, stages, threads):
    out = np.zeros_like(x)
    said = [heads, kv_heads, head_dim, scale, causal, align == "bottom_right", threads, memory is None, b_out is None, w_v[1, 2],
            keep is None, w_q.strides[0] // w_q.itemsize]
    out[0, 0, :len(said)] = said
    shapes = {"q": (1, heads, 2, head_dim), "heads": (1, 2, heads * head_dim)}
    return (out, {stage: np.full(shapes[stage], 7, np.float32) for stage in stages}) if stages else out


@attest.subject(op="mha")
def writes_out(x, w_q, w_k, w_v, w_out, *, heads, out):
    out[...] = 2


@attest.subject(op="mha")
def one_buffer(x, w_q, w_k, w_v, w_out, *, heads, kv_heads):
    """Raises unless the three projections lie one behind the other."""
    address = [w.__array_interface__["data"][0] for w in (w_q, w_k, w_v)]
    assert address[1] - address[0] == w_q.shape[0] * w_q.strides[0], "w_k is not behind w_q"
    assert address[2] - address[1] == w_k.shape[0] * w_k.strides[0], "w_v is not behind w_k"
    return np.zeros_like(x)


@attest.subject(op="mha")
def forgets_a_stage(x, w_q, w_k, w_v, w_out, *, heads, stages):
    return x, {}


@attest.subject
def attention(q, k, v, *, scale):
    return q
