"""The ONNX standard operator Attention on ONNX Runtime's CPUExecutionProvider.

Document: "Attention", versions 23 and 24, in the operator schemas of ONNX 1.23. The sentences relied on:
- diagonal: "query `i` attends key `j` iff `j <= i + offset`"; "`offset = past_sequence_length` when `past_key` is
  provided; `offset = nonpad_kv_seqlen - q_sequence_length` (per batch) when an external cache is indicated by
  `nonpad_kv_seqlen` without `past_key`; `offset = 0` when neither is provided";
- empty rows: "A fully-masked query row (no key attended, including the negative-offset leading rows) produces a zero
  output row, not `NaN`" (an erratum of ONNX 1.23, "no opset bump", so it holds for models already written);
- masks: "a boolean mask where a value of `True` indicates that the element should take part in attention, or a float
  mask of the same type as query, key, value that is added to the attention score"; "Shape must be broadcastable to
  `(batch_size, q_num_heads, q_sequence_length, total_sequence_length)`"; a boolean mask's "disallowed positions
  contribute `-inf` to the bias, while a float `attn_mask` is added to the attention scores rather than disabling
  positions";
- softcap: the pattern is MatMul, softcap, Add, Softmax, so before the mask;
- precision: the function body gives every step the type of Q, and "If softmax precision is not provided, the same
  precision as the input of softmax (Q and K) is used";
- scale: "scale `Q`, `K` by `sqrt(scale)` before matmul": a negative scale is outside the operator, zero is inside.
  scale and softcap are 32-bit attributes.
Nothing is said on determinism, on batches, on NaN: nothing is claimed. Version 25 adds windows, which onnxruntime
1.31 refuses ("Unrecognized attribute: left_window_size"). bfloat16 is in the type list, but without a kernel here;
double has no kernel either and runs as the function body.
"""

import numpy as np

from attest import Unsupported

from ._onnxruntime_call import (
    BOTTOM_RIGHT, DEFAULT_THREADS, TYPES, Operator, attribute, check, describe, heads_inside, lengths_as_keep, narrowed,
    past_length, split,
)
from ._onnxruntime_session import Node, versions


class Attention(Operator):
    """ai.onnx Attention. One problem can be said in several ways; these choose:

    opset:      23, or 24, which adds nonpad_kv_seqlen.
    layout:     "4d" (B, H, L, D), or "3d" (B, L, H*D).
    static:     shapes pinned in the model, a session per shape.
    float_mask: a keep mask goes in as 0 and -inf of the query's type, not as bool.
    broadcast:  a mask keeps all its broadcast dimensions (see mask()).
    past:       keys and values are split into past and new wherever the problem can say it.
    """

    def __init__(self, name, *, opset=24, layout="4d", static=False, float_mask=False, broadcast=False, past=False):
        self.name = f"onnxruntime:{name}"
        self.version = versions()
        self.opset, self.layout, self.static = opset, layout, static
        self.float_mask, self.broadcast, self.past = float_mask, broadcast, past

    def describe(self):
        supports = {"gqa": True, "softcap": True}
        if self.past:
            supports["align"] = ["bottom_right"]
        return describe(TYPES, supports, {
            "policy": {"f16": "f16-all", "f32": "f32", "f64": "f64"},
            "empty_row": "zero",
            "softcap_before_bias": True,
        })

    def node(self, call):
        check(call, "Attention", TYPES)
        attributes = {}
        if not call.scale_is_default:
            if call.scale < 0:
                raise Unsupported("Attention scales Q and K by sqrt(scale): a negative scale has none")
            attributes["scale"] = attribute("scale", call.scale, call.dtype)
        if call.softcap > 0:
            attributes["softcap"] = attribute("softcap", call.softcap, call.dtype)
        if call.causal:
            attributes["is_causal"] = 1

        keep, nonpad, past = self.keys(call)
        q = call.q
        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        if self.layout == "3d":
            attributes.update(q_num_heads=q.shape[1], kv_num_heads=k.shape[1])
            q, k, v = heads_inside(q), heads_inside(k), heads_inside(v)
        inputs = [("Q", q), ("K", k), ("V", v), ("attn_mask", self.mask(call, keep)), ("past_key", past_k),
                  ("past_value", past_v), ("nonpad_kv_seqlen", nonpad)]
        outputs = 1 if past is None else 3  # with a past, "past and present key and value are all needed"
        return Node("Attention", "", self.opset, attributes, inputs, outputs, call.threads or DEFAULT_THREADS, self.static)

    def keys(self, call):
        """(keep, nonpad_kv_seqlen, past length): which keys there are, and where the diagonal is.

        nonpad_kv_seqlen puts the diagonal at the bottom right and excludes a past, so lengths go in as
        nonpad_kv_seqlen where that is what the problem says, and else join the mask. A bottom-right diagonal without
        lengths is a past, or for more queries than keys a nonpad_kv_seqlen of Lk for every sample.
        """
        lq, lk = call.q.shape[2], call.k.shape[2]
        lengths = call.kv_lengths
        bottom_right = call.causal and call.align == BOTTOM_RIGHT
        has_nonpad = self.opset >= 24 and not self.past
        if bottom_right and has_nonpad and (lengths is not None or lk < lq):
            if lengths is None:
                lengths = np.full(call.k.shape[0], lk)
            return call.keep, lengths.astype(np.int64), None
        if lengths is not None and has_nonpad and not call.causal:
            return call.keep, lengths.astype(np.int64), None

        past = past_length(call, self.past)
        keep = call.keep
        if lengths is not None:
            real = lengths_as_keep(lengths, lk)
            keep = real if keep is None else narrowed(keep, (0, 1, 2)) & real
        return keep, None, past

    def mask(self, call, keep):
        """The one attn_mask: bool, or float where there is a bias; of the lowest rank that can say it.

        Dimensions of batch and heads that are broadcast have length 1. That of the queries has length 1 in a mask
        that varies along the keys alone, which goes in as (1, Lk), and under `broadcast`; otherwise it is written
        out, since onnxruntime 1.31 refuses the rest (docs/findings.md) and a refusal tests nothing else. What
        decides is the strides, so that one sample's mask has the form it has in its batch. The last dimension is
        always whole: a shorter one is "padded ... with negative infinity".
        """
        if keep is None and call.bias is None:
            return None
        number = TYPES[call.dtype]
        keys_alone = keep is call.keep and not any(any(t.strides[:3]) for t in (keep, call.bias) if t is not None)
        if keep is not None:
            keep = narrowed(keep, (0, 1, 2))
        if call.bias is not None:
            mask = narrowed(call.bias, (0, 1, 2))
            mask = mask if keep is None else np.where(keep, mask, number(-np.inf))
        else:
            mask = np.where(keep, number(0), number(-np.inf)) if self.float_mask else keep

        if not (self.broadcast or keys_alone):
            mask = np.broadcast_to(mask, (*mask.shape[:2], call.q.shape[2], mask.shape[3]))
        while mask.ndim > 2 and mask.shape[0] == 1:
            mask = mask[0]
        return mask
