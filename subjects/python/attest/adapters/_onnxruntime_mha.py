"""ONNX Runtime's contrib operator com.microsoft.MultiHeadAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints. The sentences relied on:
- unidirectional: "Whether every token can only attend to previous tokens": without a past, query i is token i; after
  a past of P tokens it is token P + i;
- key_padding_mask: "value 0 means padding or 1 otherwise. When key has right-side padding, its shape could be
  (batch_size): it is actual length of each key sequence excluding paddings"; or "(batch_size, sequence_length,
  total_sequence_length)";
- mask_filter_value: "The value to be filled in the attention mask. Default value is -10000.0f". So a masked score is
  finite, where a problem of attest means -inf: a documented difference (docs/findings.md);
- attention_bias: "bias added to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length,
  total_sequence_length)";
- scale: "Custom scale will be used if specified. Default value is 1/sqrt(head_size)";
- past_key, past_value: "(batch_size, num_heads, past_sequence_length, head_size)", so no past unless Dv = D.
Nothing is said on empty rows, precision, determinism: nothing is claimed. One num_heads serves query, key and value.
There is a float32 kernel; float16 runs on it through inserted casts; bfloat16 is refused.
"""

import numpy as np

from attest import Unsupported

from ._onnxruntime_call import (
    DEFAULT_THREADS, TYPES, Operator, attribute, check, describe, heads_inside, lengths_as_keep, narrowed, past_length,
    split,
)
from ._onnxruntime_session import Node, versions

DTYPES = ("f16", "f32")


class MultiHeadAttention(Operator):
    """com.microsoft MultiHeadAttention. One problem can be said in several ways; these choose:

    layout:       of key and value: "bsnh" (B, L, H*D), or "bnsh" (B, H, L, D). The query is always (B, L, H*D).
    static:       shapes pinned in the model, a session per shape.
    past:         keys and values are split into past and new wherever the problem can say it.
    filter_value: mask_filter_value; None leaves it at the documented default.
    """

    def __init__(self, name, *, layout="bsnh", static=False, past=False, filter_value=None):
        self.name = f"onnxruntime:{name}"
        self.version = versions()
        self.layout, self.static, self.past, self.filter_value = layout, static, past, filter_value

    def describe(self):
        supports = {"gqa": False, "softcap": False}
        if self.past:
            supports["align"] = ["bottom_right"]
        if self.past or self.layout == "bnsh":
            supports["dims"] = {"dv": "=d"}
        return describe(DTYPES, supports, {})

    def node(self, call):
        check(call, "MultiHeadAttention", DTYPES)
        heads = call.q.shape[1]
        if call.k.shape[1] != heads:
            raise Unsupported("MultiHeadAttention has one num_heads for query, key and value")
        if call.softcap > 0:
            raise Unsupported("MultiHeadAttention has no softcap")
        past = past_length(call, self.past)
        if call.k.shape[3] != call.v.shape[3] and (past is not None or self.layout == "bnsh"):
            raise Unsupported("past_value, like a value of four dimensions, has the key's head_size")
        if past is not None and self.layout == "bnsh":
            raise Unsupported("a key and value of four dimensions take no past")

        attributes = {"num_heads": heads}
        if not call.scale_is_default:
            attributes["scale"] = attribute("scale", call.scale, call.dtype)
        if call.causal:
            attributes["unidirectional"] = 1
        if self.filter_value is not None:
            attributes["mask_filter_value"] = self.filter_value

        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        if self.layout == "bsnh":
            k, v = heads_inside(k), heads_inside(v)
        padding, bias = masks(call)
        inputs = [("query", heads_inside(call.q)), ("key", k), ("value", v), ("projection_bias", None),
                  ("key_padding_mask", padding), ("attention_bias", bias), ("past_key", past_k),
                  ("past_value", past_v)]
        return Node("MultiHeadAttention", "com.microsoft", 17, attributes, inputs, 1 if past is None else 3,
                    call.threads or DEFAULT_THREADS, self.static)


def masks(call):
    """(key_padding_mask, attention_bias).

    A keep mask that is the same for all heads is a key_padding_mask: of two dimensions if it is the same for all
    queries too, else of three. One that differs between heads can only be said as an attention_bias of -inf. Lengths
    alone are a key_padding_mask of one dimension.
    """
    b, lq, lk = call.q.shape[0], call.q.shape[2], call.k.shape[2]
    number = TYPES[call.dtype]
    keep = None if call.keep is None else narrowed(call.keep, (0, 1, 2))
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if keep is not None and keep.shape[1] > 1:
        bias = np.where(keep, number(0) if bias is None else bias, number(-np.inf))
        keep = None
    if bias is not None:
        bias = np.broadcast_to(bias, (*bias.shape[:2], lq, lk))

    if keep is None:
        return (None if call.kv_lengths is None else call.kv_lengths.astype(np.int32)), bias
    if call.kv_lengths is not None:
        keep = keep & lengths_as_keep(call.kv_lengths, lk)
    keep = np.broadcast_to(keep, (b, 1, *keep.shape[2:]))
    padding = keep[:, 0, 0] if keep.shape[2] == 1 else keep[:, 0]
    return padding.astype(np.int32), bias
