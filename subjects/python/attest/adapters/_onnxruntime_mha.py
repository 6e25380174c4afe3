"""ONNX Runtime's contrib operator com.microsoft.MultiHeadAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints. How it is read:
- unidirectional: without a past, query i is token i; after a past of P tokens it is token P + i;
- mask_filter_value: a masked score is finite, where a problem of attest means -inf: a documented difference (docs/findings.md);
- past_key and past_value have one head_size, so no past unless Dv = D;
- key: what is packed is not asked: "Packed KV not implemented for CPU";
- past_sequence_length: with one, past and present are one buffer;
- cache_indirection: as in DecoderMaskedMultiHeadAttention;
- qk: normalized by the scale, as ONNX Runtime's own tests have it ("Output scaled Q * K^T"). Whether masks are in it is not said, and
  makes no difference to what is made of it; whether a bias is would, so that it is not read beside one;
- bias of the projections: one of zeros says nothing new.
Nothing is said on empty rows, precision, determinism: nothing is claimed. One num_heads serves query, key and value.
There is a float32 kernel; float16 runs on it through inserted casts; bfloat16 is refused.
"""

import numpy as np

from attest import Unsupported

from ._forms import drawn, may_be_empty, refuse
from ._masks import added_to, lengths_as_keep, narrowed
from ._onnx_call import (
    BEHIND, DEFAULT_THREADS, MOVED, SESSIONS, UNMOVED, Operator, buffer, check, crossed, heads_inside, past_length, scale_attribute,
    session, split, token_mask,
)
from ._onnx_node import Node
from ._onnx_scores import normalised_scores
from ._quotes import quotes

DTYPES = ("f16", "f32")


DOCUMENTS = quotes("""
attributes of com.microsoft MultiHeadAttention-1 | ! MultiHeadAttention has one num_heads for query, key and value ! MultiHeadAttention has no softcap | [mask_filter_value FLOAT, num_heads INT, scale FLOAT, unidirectional INT]
schema of com.microsoft MultiHeadAttention-1
    causal | Whether every token can only attend to previous tokens. Default value is 0.
    bias | bias added to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)
    keep | When its shape is (batch_size, kv_sequence_length), value 0 means padding or 1 otherwise.
    kv_lengths | When key has right-side padding, its shape could be (batch_size): it is actual length of each key sequence excluding paddings.
    keep kv_lengths form.filter_value | The value to be filled in the attention mask. Default value is -10000.0f
    scale form.scale | Custom scale will be used if specified. Default value is 1/sqrt(head_size)
    form.layout ! a key and value of four dimensions take no past | Key with shape (batch_size, kv_sequence_length, hidden_size), or packed KV with shape (batch_size, kv_sequence_length, num_heads, 2, head_size), or past_key with shape (batch_size, num_heads, kv_sequence_length, head_size)
    form.padding | Key padding mask with shape (batch_size), (3 * batch_size + 2), (batch_size, kv_sequence_length), (batch_size, total_sequence_length), or (batch_size, sequence_length, total_sequence_length)
    form.past ! past_value, like a value of four dimensions, has the key's head_size | past state for value with shape (batch_size, num_heads, past_sequence_length, head_size)
    form.past=shared | or (batch_size, num_heads, max_sequence_length, head_size) when buffer sharing is used
    form.past=shared | The past_sequence_length buffer sharing is used with
    form.present | present state for key with shape (batch_size, num_heads, total_sequence_length, head_size)
    form.beam ! beams are of a buffer | A buffer of shape [batch_size, beam_width, max_sequence_length] where an [i, j, k] entry specifies
    form.qk_output | normalized Q * K, of shape (batch_size, num_heads, sequence_length, total_sequence_length).
    form.projection_bias | Bias tensor with shape (hidden_size + hidden_size + v_hidden_size)
    ! this mask is no length of keys | Key padding mask with shape (batch_size), (3 * batch_size + 2)
""")


class MultiHeadAttention(Operator):
    """com.microsoft MultiHeadAttention."""

    documents = DOCUMENTS
    forms = {
        # Two dimensions more have no past.
        "layout": ["bsnh", drawn("bnsh", "d==dv && (!causal || align==top_left || lk==lq)", past="needed")],  # key and value: (B, L, H*D) or (B, H, L, D); the query is always (B, L, H*D)
        **SESSIONS,
        "padding": ["shortest", "2d", "3d", drawn("cumulative", "keep==none")],  # key_padding_mask, at least of so many dimensions; (3B + 2)
        # shared: half of the keys, in one buffer with the present
        "past": ["needed", *(drawn(past, f"d==dv && {MOVED}") for past in ("half", "all", "shared")),
                 drawn("empty", f"d==dv && {UNMOVED}")],
        "present": ["asked", "none"],  # whether present_key and present_value are outputs where there is a past of its own
        "beam": ["none", drawn("two", "b%2==0", past="shared")],  # two: rows of the batch are pairs of beams, every other token in the other's row
        "qk_output": ["none", "asked", drawn("read", "bias==none")],  # read: judged, see normalised_scores()
        "scale": ["as_called", "explicit"],
        "projection_bias": ["none", "zeros"],
        "filter_value": ["default", "lowest"],  # mask_filter_value: the documented default, or the lowest finite number
    }

    def describe(self):
        # A diagonal at the bottom right is a past.
        supports = {"gqa": False, "softcap": False, "dims": may_be_empty("b", "lq", "lk", "dv"), "drawn": f"!causal || align==top_left || {BEHIND} && (lk==lq || d==dv)"}
        if self.pinned.get("past") == "half":
            supports["align"] = ["bottom_right"]
        if self.pinned.get("past") == "half" or self.pinned.get("layout") == "bnsh":
            supports["dims"] |= {"dv": "=d"}
        return self.described(DTYPES, supports, {})

    def node(self, call):
        check(call, "MultiHeadAttention", DTYPES)
        said = self.said(call)
        heads = call.q.shape[1]
        refuse(call.k.shape[1] != heads, "MultiHeadAttention has one num_heads for query, key and value")
        refuse(call.softcap > 0, "MultiHeadAttention has no softcap")
        past = past_length(call, said["past"])
        bnsh = said["layout"] == "bnsh"
        if call.k.shape[3] != call.v.shape[3] and (past is not None or bnsh):
            raise Unsupported("past_value, like a value of four dimensions, has the key's head_size")
        refuse(past is not None and bnsh, "a key and value of four dimensions take no past")

        attributes = {"num_heads": heads, **scale_attribute(call, said["scale"])}
        if call.causal:
            attributes["unidirectional"] = 1
        if said["filter_value"] == "lowest":
            attributes["mask_filter_value"] = float(np.finfo(np.float32).min)

        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        if not bnsh:
            k, v = heads_inside(k), heads_inside(v)
        projection = None
        if said["projection_bias"] == "zeros":
            projection = np.zeros(heads * (2 * call.k.shape[3] + call.v.shape[3]), call.q.dtype)
        padding, bias = masks(call, said["padding"])
        length, indirection, shared = None, None, {}
        if said["beam"] == "two":
            refuse(said["past"] != "shared", "beams are of a buffer")
            past_k, past_v, indirection = crossed(past_k, past_v, call.k.shape[2])
        if said["past"] == "shared":
            past_k, past_v = (buffer(x, call.k.shape[2]) for x in (past_k, past_v))
            length = np.array([past], np.int32)
            shared = {"past_key": "present_key", "past_value": "present_value"}
        inputs = [("query", heads_inside(call.q)), ("key", k), ("value", v), ("projection_bias", projection),
                  ("key_padding_mask", padding), ("attention_bias", bias), ("past_key", past_k),
                  ("past_value", past_v), ("past_sequence_length", length), ("cache_indirection", indirection)]
        asked = past is not None and (said["present"] == "asked" or said["past"] == "shared")
        outputs = ["output", "present_key", "present_value"] if asked else ["output"]
        if said["qk_output"] != "none":
            outputs += [""] * (3 - len(outputs)) + ["qk"]
        return Node("MultiHeadAttention", "com.microsoft", 17, attributes, inputs, outputs, call.threads or DEFAULT_THREADS,
                    shared=shared, rest=normalised_scores("qk", call) if said["qk_output"] == "read" else None, **session(said, mask=("key_padding_mask", "attention_bias"), kv=("key", "value")))


def masks(call, least):
    """(key_padding_mask, attention_bias).

    A keep mask that is the same for all heads is a key_padding_mask: of two dimensions if it is the same for all
    queries too, else of three. One that differs between heads can only be said as an attention_bias of -inf. Lengths
    alone are a key_padding_mask of one dimension. `least`: "2d" and "3d" write out more than that, "cumulative" says where each
    sample's queries and keys start, too.
    """
    b, lq, lk = call.q.shape[0], call.q.shape[2], call.k.shape[2]
    keep = None if call.keep is None else narrowed(call.keep, (0, 1, 2))
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if keep is not None and keep.shape[1] > 1:
        bias = added_to(call, keep, call.dtype, bias)
        keep = None
    if bias is not None:
        bias = np.broadcast_to(bias, (*bias.shape[:2], lq, lk))

    lengths = call.kv_lengths
    if least == "cumulative":
        refuse(keep is not None, "this mask is no length of keys")
        lengths = np.full(b, lk) if lengths is None else lengths
        return np.concatenate([lengths, np.arange(b + 1) * lq, np.append(0, lengths.cumsum())]).astype(np.int32), bias
    if keep is None and (lengths is None or least == "shortest"):
        return (None if lengths is None else lengths.astype(np.int32)), bias
    if lengths is not None:
        real = lengths_as_keep(lengths, lk)
        keep = real if keep is None else keep & real
    return token_mask(keep, (b, 1, lq, lk), least == "3d"), bias
