"""ONNX Runtime's contrib operator com.microsoft.Attention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints, and what the operator answers to
calls that it does not take. How it is read:
- the weights of the projections are merged and there is one input: as many new keys as queries;
- unidirectional and mask_filter_value: as in MultiHeadAttention;
- mask_index: of "(3 * batch_size + 2)" the document says the shape alone, attention_common.h beside the kernel what it holds:
  lengths of keys, then where each sample's queries and its keys start. The mask of four dimensions is not asked: "4D mask in
  attention cpu kernel is not supported", as the operator answers.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There is a float32 kernel; float16 runs on it
through inserted casts; bfloat16 is refused.

The projections are exact, so what goes in is what attention gets: the input holds q, k and v side by side and the weights are
the identity, or the weights hold them, a row for each token, and the input says which token. NaN and infinities spread over a row
in them and are not asked. Rotary embedding is left alone.
"""

import numpy as np

from attest import Unsupported

from ._forms import drawn, may_be_empty, refuse
from ._masks import BOTTOM_RIGHT, added_to, diagonal_as_keep, lengths_as_keep, narrowed, windowed
from ._onnx_call import (
    DEFAULT_THREADS, SESSIONS, Operator, buffer, check, heads_inside, scale_attribute, session, split,
    token_mask,
)
from ._onnx_node import Node
from ._quotes import quotes

DTYPES = ("f16", "f32")
_WIDEST = 1024  # width of the projections, which have _WIDEST^2 elements, and rows of as many tokens


DOCUMENTS = quotes("""
attributes of com.microsoft Attention-1 | ! Attention has one num_heads for query, key and value ! Attention has no softcap | [do_rotary INT, mask_filter_value FLOAT, num_heads INT, past_present_share_buffer INT, qkv_hidden_sizes INTS, rotary_embedding_dim INT, scale FLOAT, unidirectional INT]
errors of onnxruntime.capi.onnxruntime_pybind11_state | ! Attention cannot have both past and attention_bias | Attention cannot have both past and attention_bias
schema of com.microsoft Attention-1
    causal | Whether every token can only attend to previous tokens. Default value is 0.
    align | The total_sequence_length is past_sequence_length + kv_sequence_length.
    bias | additional add to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)
    keep | raw attention mask with shape (batch_size, total_sequence_length) or (batch_size, sequence_length, total_sequence_length) with value 0 for masked and 1 otherwise
    kv_lengths ! this mask differs between queries ! this mask is no range of keys | When input has right-side padding, mask_index is one dimension with shape (batch_size), where value is actual sequence length excluding padding.
    keep kv_lengths window form.filter_value | The value to be filled in the attention mask. Default value is -10000.0f
    scale form.scale | Custom scale will be used if specified. Default value is 1/sqrt(head_size)
    form.projection ! a NaN or an infinity spreads over its row in the projections ! projections wider than {_WIDEST} are not made | The weights for input projection of Q, K and V are merged. The data is stacked on the second dimension.
    form.projection_bias | Bias tensor with shape (hidden_size + hidden_size + v_hidden_size)
    form.hidden_sizes | The qkv_hidden_sizes is required only when K and V have different hidden sizes.
    form.mask_index | Attention mask with shape (batch_size, 1, max_sequence_length, max_sequence_length), (batch_size, total_sequence_length) or (batch_size, sequence_length, total_sequence_length), or index with shape (batch_size) or (2 * batch_size) or (3 * batch_size + 2)
    form.mask_index=ends_starts ! this mask differs between queries ! this mask is no range of keys | When input has left-side padding, mask_index has shape (2 * batch_size), where the values are the exclusive end positions followed by the inclusive start positions.
    form.past | past state for key and value with shape (2, batch_size, num_heads, past_sequence_length, head_size)
    form.past ! when there is past state, hidden dimension for Q, K and V shall be the same | When there is past state, hidden dimension for Q, K and V shall be the same.
    form.past=shared | Corresponding past and present are same tensor, its size is (2, batch_size, num_heads, max_sequence_length, head_size)
    form.past=shared | When past_present_share_buffer is used, it is required to specify past_sequence_length (could be 0).
    ! kv_sequence_length equals to sequence_length in self-attention | For self attention, kv_sequence_length equals to sequence_length (sequence length of Q).
""")


# Masks that may leave each sample a range of keys.
_RANGES = "window_left<0 && window_right<0 && (keep==none || (keep==prefix || keep==suffix || keep==one) && (lq==1 || keep_axes==9))"
# New keys are those of the queries; others are a past.
_DRAWN = "lk==lq || lk>lq && d==dv && bias==none"


class ContribAttention(Operator):
    """com.microsoft Attention."""

    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        "constants": ["none", "mask", "weights"],
        "projection": ["identity", "tokens"],  # whether the input or the weights hold q, k and v
        "projection_bias": ["zeros", "none"],
        "hidden_sizes": ["as_needed", "explicit"],
        "mask_index": ["shortest", "2d", "3d", drawn("ends_starts", _RANGES), drawn("cumulative", _RANGES)],  # at least of so many dimensions; (2B); (3B + 2)
        "past": ["needed", drawn("empty", "d==dv && bias==none"), drawn("shared", "d==dv && bias==none")],  # shared: in one buffer with the present
        "scale": ["as_called", "explicit"],
        "filter_value": ["default", "lowest"],  # mask_filter_value: the documented default, or the lowest finite number
    }

    def describe(self):
        return self.described(DTYPES, {"gqa": False, "softcap": False, "window": True, "drawn": _DRAWN, "dims": may_be_empty("b")}, {})

    def node(self, call):
        check(call, "Attention", DTYPES, window=True)
        said = self.said(call)
        (_, heads, lq, d), (lk, dv) = call.q.shape, call.v.shape[2:]
        refuse(call.k.shape[1] != heads, "Attention has one num_heads for query, key and value")
        refuse(call.softcap > 0, "Attention has no softcap")
        refuse(lk < lq, "kv_sequence_length equals to sequence_length in self-attention")
        past = lk - lq if lk > lq or said["past"] != "needed" else None
        refuse(past is not None and dv != d, "when there is past state, hidden dimension for Q, K and V shall be the same")

        attributes = {"num_heads": heads, **scale_attribute(call, said["scale"])}
        if dv != d or said["hidden_sizes"] == "explicit":
            attributes["qkv_hidden_sizes"] = [heads * d, heads * d, heads * dv]
        if said["filter_value"] == "lowest":
            attributes["mask_filter_value"] = float(np.finfo(np.float32).min)
        if unidirectional(call):
            attributes["unidirectional"] = 1

        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        rows, weights = projected(call.q, k, v, said["projection"])
        bias = np.zeros(weights.shape[1], weights.dtype) if said["projection_bias"] == "zeros" else None
        mask_index, attention_bias = masks(call, said["mask_index"])
        refuse(past is not None and attention_bias is not None, "Attention cannot have both past and attention_bias")
        inputs = [("input", rows), ("weights", weights), ("bias", bias), ("mask_index", mask_index),
                  ("past", None if past is None else np.stack([past_k, past_v])), ("attention_bias", attention_bias)]
        outputs = ["output"] if past is None else ["output", "present"]
        shared = {}
        if said["past"] == "shared":
            attributes["past_present_share_buffer"] = 1
            inputs[4] = ("past", np.stack([buffer(past_k, lk), buffer(past_v, lk)]))
            inputs.append(("past_sequence_length", np.array([past], np.int32)))
            shared = {"past": "present"}
        return Node("Attention", "com.microsoft", 17, attributes, inputs, outputs, call.threads or DEFAULT_THREADS, shared=shared,
                    **session(said, mask=("mask_index", "attention_bias"), weights=("weights", "bias")))


def projected(q, k, v, form):
    """(input, weights) whose product is q, k and v side by side."""
    stacked = np.concatenate([heads_inside(x) for x in (q, k, v)], 2)
    refuse(not np.isfinite(stacked).all(), "a NaN or an infinity spreads over its row in the projections")
    b, length, width = stacked.shape
    refuse((width if form == "identity" else b * length) > _WIDEST, f"projections wider than {_WIDEST} are not made")
    if form == "identity":
        return stacked, np.eye(width, dtype=stacked.dtype)
    return np.eye(b * length, dtype=stacked.dtype).reshape(b, length, b * length), stacked.reshape(b * length, width)


def unidirectional(call):
    """Whether the attribute says the causal mask: the first query stands behind the past, whose length all samples share."""
    if not call.causal or windowed(call):
        return False
    lq, lk = call.q.shape[2], call.k.shape[2]
    if call.align != BOTTOM_RIGHT:
        return lq == lk
    return call.kv_lengths is None or bool(np.all(call.kv_lengths == lk))


def masks(call, form):
    """(mask_index, attention_bias). Lengths alone are a mask_index of one dimension; a mask that is the same for all heads one of
    two or three; what differs between heads is an attention_bias of -inf."""
    b, heads, lq, lk = *call.q.shape[:3], call.k.shape[2]
    keep = None if call.keep is None else narrowed(call.keep, (0, 1, 2))
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if (call.causal or windowed(call)) and not unidirectional(call):
        keep = diagonal_as_keep(call) if keep is None else keep & diagonal_as_keep(call)
    if keep is not None and keep.shape[1] > 1:
        bias, keep = added_to(call, keep, call.dtype, bias), None
    if bias is not None:
        bias = np.broadcast_to(bias, (*bias.shape[:2], lq, lk))

    lengths = call.kv_lengths
    if form in ("ends_starts", "cumulative"):
        return ranges(keep, lengths, (b, heads, lq, lk), form), bias
    if keep is None and (lengths is None or form == "shortest"):
        return (None if lengths is None else lengths.astype(np.int32)), bias
    if lengths is not None:
        real = lengths_as_keep(lengths, lk)
        keep = real if keep is None else keep & real
    return token_mask(keep, (b, 1, lq, lk), form == "3d"), bias


def ranges(keep, lengths, shape, form):
    """mask_index of one dimension, of masks that leave each sample a range of keys."""
    b, _, lq, lk = shape
    real = np.ones((1, 1, 1, lk), bool) if keep is None else keep
    if lengths is not None:
        real = real & lengths_as_keep(lengths, lk)
    refuse(real.shape[2] > 1, "this mask differs between queries")
    real = np.broadcast_to(real, (b, 1, 1, lk))[:, 0, 0]
    count = real.sum(1)
    starts = np.where(count > 0, real.argmax(1), 0)
    if form == "cumulative" and starts.any() or np.any(real != ((np.arange(lk) >= starts[:, None])
                                                                & (np.arange(lk) < (starts + count)[:, None]))):
        raise Unsupported("this mask is no range of keys")
    if form == "ends_starts":
        return np.concatenate([starts + count, starts]).astype(np.int32)
    return np.concatenate([count, np.arange(b + 1) * lq, np.append(0, count.cumsum())]).astype(np.int32)
