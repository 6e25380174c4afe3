"""A block's call as adapters of attention see one: what is masked and scaled, without numbers, and the matrices of it."""

from types import SimpleNamespace

import numpy as np

from ._masks import BOTTOM_RIGHT, diagonal_as_keep, starts_top_left


def as_attention(call, top_left=False):
    """The attention of the block's heads as the helpers of attention's adapters read a call; q, k, v and out are shapes alone,
    their elements all one zero. `top_left`: a causal mask whose diagonal starts elsewhere becomes part of `keep`."""
    memory = call.x if call.memory is None else call.memory
    b, rows, _ = call.x.shape
    hollow = lambda heads, tokens: np.broadcast_to(np.zeros((), call.x.dtype), (b, heads, tokens, call.head_dim))
    k = hollow(call.kv_heads, memory.shape[1])
    seen = SimpleNamespace(
        op="attention", q=hollow(call.heads, rows), k=k, v=k, out=hollow(call.heads, rows), bias=call.bias, keep=call.keep,
        kv_lengths=call.kv_lengths, lse=None, dtype=call.dtype, bias_dtype=None if call.bias is None else call.dtype,
        scale=call.scale, scale_is_default=call.scale_is_default, softcap=0.0, causal=call.causal, align=call.align,
        window_left=-1, window_right=-1, threads=call.threads, form={})
    if top_left and call.causal and call.align == BOTTOM_RIGHT and not starts_top_left(seen):
        diagonal = diagonal_as_keep(seen)
        seen.causal, seen.keep = False, diagonal if seen.keep is None else seen.keep & diagonal
    return seen


def side_by_side(views):
    """One view of the rows of all of these matrices, or vectors, where they lie behind each other in one buffer, else None."""
    first = views[0]
    step = first.strides[0]
    at = first.__array_interface__["data"][0]
    for view in views:
        if view.strides != first.strides or view.shape[1:] != first.shape[1:] or view.__array_interface__["data"][0] != at:
            return None
        at += view.shape[0] * step
    rows = sum(view.shape[0] for view in views)
    return np.lib.stride_tricks.as_strided(first, (rows, *first.shape[1:]), first.strides)
