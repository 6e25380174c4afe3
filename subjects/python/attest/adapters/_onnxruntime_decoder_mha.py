"""ONNX Runtime's contrib operator com.microsoft.DecoderMaskedMultiHeadAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints, and what the operator answers to
calls that it does not take. How it is read:
- one query sees what a causal mask, a window or a length leaves it, so these are said with mask_index;
- mask_filter_value: finite, as in MultiHeadAttention (docs/findings.md);
- attention_bias: a bias is said in self-attention;
- past_key: the CPU refuses one without a shared buffer and reads the buffer as if it were not reordered (docs/findings.md), so
  `shared` is what it reads and `reordered` what the document says;
- query: what is packed is one token, beside the buffer;
- qk: as in MultiHeadAttention;
- cache_indirection: rows of the batch are beams, and each token of a beam's past may lie in the row of another.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There is a float32 kernel; float16 runs on it
through inserted casts.
"""

import numpy as np

from ._forms import drawn, refuse
from ._masks import added_to, keep_of, narrowed
from ._onnx_call import (
    DEFAULT_THREADS, SESSIONS, Operator, buffer, check, crossed, heads_inside, scale_attribute, session, token_mask,
)
from ._onnx_node import Node
from ._onnx_scores import normalised_scores
from ._quotes import quotes

DTYPES = ("f16", "f32")


DOCUMENTS = quotes("""
attributes of com.microsoft DecoderMaskedMultiHeadAttention-1 | ! DecoderMaskedMultiHeadAttention has one num_heads and one head_size ! DecoderMaskedMultiHeadAttention has no softcap | [mask_filter_value FLOAT, num_heads INT, output_qk INT, past_present_share_buffer INT, scale FLOAT]
errors of onnxruntime.capi.onnxruntime_pybind11_state | ! DecoderMaskedMultiHeadAttention does not support attention bias for cross-attention | DecoderMaskedMultiHeadAttention does not support attention bias for cross-attention
schema of com.microsoft DecoderMaskedMultiHeadAttention-1
    attention ! DecoderMaskedMultiHeadAttention supports input sequence length of 1 | Multihead attention that supports input sequence length of 1.
    attention | This op supports both Self and Cross Attention
    bias | additional add to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)
    keep | Mask values of shape (batch_size, total_sequence_length) or (batch_size, kv_sequence_length)
    keep kv_lengths causal window form.filter_value | The value to be filled in the attention mask. Default value is -10000.0f
    scale form.scale | Custom scale will be used if specified. Default value is 1/sqrt(head_size)
    form.keys | Key with shape (batch_size, 1, hidden_size) for self attention or past_key with shape (batch_size, num_heads, kv_sequence_length, head_size) for cross attention
    form.keys=shared | When past_present_share_buffer is set, its shape is (batch_size, num_heads, max_sequence_length, head_size).
    form.keys=shared | When past_present_share_buffer is used, it is required to specify past_sequence_length (could be 0).
    form.keys=reordered | The keys buffer is re-ordered in such a way that its virtual sub-tensor of shape (batch_size, num_heads, max_sequence_length, head_size)
    form.keys=reordered ! the keys buffer is reordered in parts of {x} | (batch_size, num_heads, max_sequence_length, head_size / x, x) is reordered to become (batch_size, num_heads, head_size / x, max_sequence_length, x) where `x = 16 / sizeof(T)`.
    form.keys=past | past state for key with shape (batch_size, num_heads, past_sequence_length, head_size) for self attention
    form.keys=packed | packed QKV with shape (batch_size, 1, 2 * hidden_size + v_hidden_size)
    form.beam | If not provided, the beam width will be assumed to be 1.
    form.beam=two ! cross-attention has no tokens that came from another beam | A buffer of shape [batch_size, beam_width, max_output_length] where an `[i, j, k]` entry specifies which beam the `k`-th token came from for the `j`-th beam for batch `i` in the current iteration
    form.qk_output | Need output the cross attention MatMul(Q, K)
    ! DecoderMaskedMultiHeadAttention has one num_heads and one head_size | past_value with shape (batch_size, num_heads, kv_sequence_length, head_size) for cross attention
    ! DecoderMaskedMultiHeadAttention has one num_heads and one head_size | past state for value with shape (batch_size, num_heads, past_sequence_length, head_size) for self attention
""")


class DecoderMaskedMultiHeadAttention(Operator):
    """com.microsoft DecoderMaskedMultiHeadAttention."""

    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        # All keys as those of another sequence; the last one new and the others in a buffer, as the kernel reads it or as the
        # document says; or as a past of its own. Or the new one inside the query, and the buffer as the kernel reads it.
        "keys": ["cross", "shared", drawn("reordered", "d%8==0 || d%4==0 && dtype==f32"), "past", "packed"],
        "scale": ["as_called", "explicit"],
        "beam": ["none", "one", drawn("two", "b%2==0 && form.keys!=cross")],  # two: rows of the batch are pairs of beams, every other token in the other's row
        "qk_output": ["none", "asked", drawn("read", "bias==none")],  # read: judged, see normalised_scores()
        "filter_value": ["default", "lowest"],  # mask_filter_value: the documented default, or the lowest finite number
    }

    def describe(self):
        supports = {"gqa": False, "softcap": False, "window": True, "dims": {"lq": [1, 1, 1], "dv": "=d"},
                    "drawn": "bias==none || form.keys!=cross"}
        return self.described(DTYPES, supports, {})

    def node(self, call):
        check(call, "DecoderMaskedMultiHeadAttention", DTYPES, window=True)
        said = self.said(call)
        (_, heads, lq, d), lk = call.q.shape, call.k.shape[2]
        refuse(lq != 1, "DecoderMaskedMultiHeadAttention supports input sequence length of 1")
        refuse(call.k.shape[1] != heads or call.v.shape[3] != d, "DecoderMaskedMultiHeadAttention has one num_heads and one head_size")
        refuse(call.softcap > 0, "DecoderMaskedMultiHeadAttention has no softcap")

        attributes = {"num_heads": heads, **scale_attribute(call, said["scale"])}
        if said["filter_value"] == "lowest":
            attributes["mask_filter_value"] = float(np.finfo(np.float32).min)
        mask_index, bias = masks(call)
        key, value, past_key, past_value, past_length, shared = call.k, call.v, None, None, None, {}
        if said["keys"] == "cross":
            refuse(bias is not None, "DecoderMaskedMultiHeadAttention does not support attention bias for cross-attention")
        else:
            key, value = heads_inside(call.k[:, :, -1:]), heads_inside(call.v[:, :, -1:])
            past_key, past_value = call.k[:, :, :-1], call.v[:, :, :-1]
        width, indirection = {"none": None, "one": 1, "two": 2}[said["beam"]], None
        if said["beam"] == "two":
            refuse(said["keys"] == "cross", "cross-attention has no tokens that came from another beam")
            past_key, past_value, indirection = crossed(past_key, past_value, lk)
        if said["keys"] in ("shared", "reordered", "packed"):
            attributes["past_present_share_buffer"] = 1
            past_key, past_value = buffer(past_key, lk), buffer(past_value, lk)
            past_length = np.array([lk - 1], np.int32)
            shared = {"past_key": "present_key", "past_value": "present_value"}
        if said["keys"] == "reordered":
            past_key = reordered(past_key)

        query = heads_inside(call.q)
        if said["keys"] == "packed":
            query, key, value = np.concatenate([query, key, value], 2), None, None
        inputs = [("query", query), ("key", key), ("value", value), ("mask_index", mask_index),
                  ("attention_bias", bias), ("past_key", past_key), ("past_value", past_value),
                  ("past_sequence_length", past_length),
                  ("beam_width", None if width is None else np.array([width], np.int32)),
                  ("cache_indirection", indirection)]
        outputs = ["output"] if past_key is None else ["output", "present_key", "present_value"]
        if said["qk_output"] != "none":
            attributes["output_qk"] = 1
            outputs += [""] * (3 - len(outputs)) + ["qk"]
        return Node("DecoderMaskedMultiHeadAttention", "com.microsoft", 17, attributes, inputs, outputs,
                    call.threads or DEFAULT_THREADS, shared=shared,
                    rest=normalised_scores("qk", call) if said["qk_output"] == "read" else None, **session(said, mask=("mask_index", "attention_bias"), kv=("key", "value")))


def masks(call):
    """(mask_index, attention_bias): what is the same for all heads is the former, what is not a bias of -inf."""
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep, (0, 1, 2)))
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if keep is not None and keep.shape[1] > 1:
        return None, added_to(call, keep, call.dtype, bias)
    if keep is None:
        return None, bias
    return token_mask(keep, (call.q.shape[0], 1, 1, call.k.shape[2])), bias


def reordered(keys):
    b, heads, length, d = keys.shape
    x = 16 // keys.itemsize
    refuse(d % x, f"the keys buffer is reordered in parts of {x}")
    return keys.reshape(b, heads, length, d // x, x).transpose(0, 1, 3, 2, 4).reshape(keys.shape)
