"""ONNX Runtime's contrib operator com.microsoft.QAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints. How it is read:
- it is com.microsoft.Attention of a quantised input and quantised weights: one projection for q, k and v, which here is exact (a
  number that eight bits hold, times its scale), then attention in float32;
- mask_index: of its shapes "(batch_size)" alone is told, the lengths of keys; other masks are not asked;
- past_present_share_buffer: past and present are one tensor. There is no past_sequence_length, whatever that is to say;
- do_rotary: there are no angles to give, and what the operator would turn by is not said.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There is a kernel for an uint8 input and float32 results.

Numbers that are no small multiples of one step, for each column of the weights or for all, are `unsupported`.
"""

import numpy as np

from ._forms import drawn, refuse
from ._masks import windowed
from ._onnx_call import DEFAULT_THREADS, SESSIONS, Operator, buffer, check, heads_inside, scale_attribute, session, split
from ._onnx_node import Node
from ._onnxruntime_contrib_attention import unidirectional
from ._onnxruntime_quantised import quantised, step_of
from ._quotes import quotes

DTYPES = ("f32",)
_WIDEST = 1024  # width of the projections, which have as many rows as there are tokens


DOCUMENTS = quotes("""
attributes of com.microsoft QAttention-1 | ! QAttention has one num_heads and one head_size ! QAttention has no softcap | [do_rotary INT, mask_filter_value FLOAT, num_heads INT, past_present_share_buffer INT, scale FLOAT, unidirectional INT]
inputs of com.microsoft QAttention-1 | ! QAttention has no bias of the scores | [input T1, weight T2, bias T3, input_scale T3, weight_scale T3, mask_index T4, input_zero_point T1, weight_zero_point T2, past T3]
schema of com.microsoft QAttention-1
    attention | Quantization of Multi-Head Self Attention.
    causal | Whether every token can only attend to previous tokens. Default value is 0.
    align | present state for key and value with shape (2, batch_size, num_heads, past_sequence_length + sequence_length, head_size)
    kv_lengths ! this mask is no length of keys | Attention mask index with shape (batch_size)
    kv_lengths form.filter_value | The value to be filled in the attention mask. Default value is -10000.0f
    scale form.scale | Custom scale will be used if specified. Default value is 1/sqrt(head_size)
    form.steps | scale of weight scale. It's a scalar or a 1D tensor, which means a per-tensor/per-column quantization.
    form.weight ! QAttention has one num_heads and one head_size ! projections wider than {_WIDEST} are not made | 2D input tensor with shape (input_hidden_size, 3 * hidden_size), hidden_size = num_heads * head_size
    form.zero_points | zero point of quantized input tensor.It's a scalar, which means a per-tensor/layer quantization.
    form.zero_points | zero point of quantized weight tensor. It's a scalar or a 1D tensor
    form.past | past state for key and value with shape (2, batch_size, num_heads, past_sequence_length, head_size).
    form.past=shared | Corresponding past and present are same tensor, its shape is (2, batch_size, num_heads, max_sequence_length, head_size)
    ! there is one input, for queries and for as many new keys | 3D input tensor with shape (batch_size, sequence_length, input_hidden_size)
""")


# One input for queries and new keys; of several tokens numbers that eight bits hold.
_SHORT = "(values==constant || values==integers || values==large_integers)"
_DRAWN = " && ".join((
    "lk>=lq", f"(b*lq==1 || {_SHORT})",
    "window_left<0 && window_right<0", "(!causal || lq==lk && align==top_left || align==bottom_right && (lengths==none || lengths==full))"))


class QAttention(Operator):
    """com.microsoft QAttention."""

    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        "constants": ["none", "mask", "weights"],
        "steps": ["columns", drawn("tensor", _SHORT)],  # a scale of the weights for each column, or one
        "weight": ["int8", "uint8"],
        "zero_points": ["none", "input", "both"],
        "past": ["needed", "empty", "shared"],  # shared: in one buffer with the present
        "scale": ["as_called", "explicit"],
        "filter_value": ["default", "lowest"],  # mask_filter_value: the documented default, or the lowest finite number
    }

    def describe(self):
        supports = {"gqa": False, "softcap": False, "bias": False, "keep": False, "dims": {"dv": "=d"}, "drawn": _DRAWN}
        return self.described(DTYPES, supports, {})

    def node(self, call):
        check(call, "QAttention", DTYPES)
        said = self.said(call)
        (_, heads, lq, d), lk = call.q.shape, call.k.shape[2]
        refuse(call.k.shape[1] != heads or call.v.shape[3] != d, "QAttention has one num_heads and one head_size")
        refuse(call.softcap > 0, "QAttention has no softcap")
        refuse(call.bias is not None, "QAttention has no bias of the scores")
        refuse(lk < lq, "there is one input, for queries and for as many new keys")
        refuse(call.keep is not None or windowed(call) or call.causal and not unidirectional(call), "this mask is no length of keys")
        past = lk - lq if lk > lq or said["past"] != "needed" else None

        attributes = {"num_heads": heads, **scale_attribute(call, said["scale"])}
        if said["filter_value"] == "lowest":
            attributes["mask_filter_value"] = float(np.finfo(np.float32).min)
        if call.causal:
            attributes["unidirectional"] = 1
        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        rows, row_zero = tokens(call.q.shape[0], lq, said["zero_points"] != "none")
        weight, step, weight_zero = weights(np.concatenate([heads_inside(x) for x in (call.q, k, v)], 2), said)
        state, shared = None, {}
        if past is not None:
            state = np.stack([past_k, past_v])
        if said["past"] == "shared":
            attributes["past_present_share_buffer"] = 1
            state, shared = np.stack([buffer(past_k, lk), buffer(past_v, lk)]), {"past": "present"}
        inputs = [("input", rows), ("weight", weight), ("bias", np.zeros(weight.shape[1], np.float32)),
                  ("input_scale", np.array(1, np.float32)), ("weight_scale", step),
                  ("mask_index", None if call.kv_lengths is None else call.kv_lengths.astype(np.int32)),
                  ("input_zero_point", row_zero), ("weight_zero_point", weight_zero), ("past", state)]
        outputs = ["output"] if state is None else ["output", "present"]
        return Node("QAttention", "com.microsoft", 17, attributes, inputs, outputs, call.threads or DEFAULT_THREADS, shared=shared,
                    kept={name: np.float32 for name in outputs},
                    **session(said, mask=("mask_index",), weights=("weight", "bias", "weight_scale", "weight_zero_point")))


def tokens(samples, length, shifted):
    """(input, its zero point or None): a row for each token, which says its number among all."""
    count = samples * length
    refuse(count > _WIDEST, f"projections wider than {_WIDEST} are not made")
    zero = 128 if shifted else 0
    rows = (np.eye(count, dtype=np.uint8) + np.uint8(zero)).reshape(samples, length, count)
    return rows, np.array(zero, np.uint8) if shifted else None


def weights(rows, said):
    """(weight, weight_scale, weight_zero_point or None): [tokens, 3 H D], whose rows are q, k and v side by side."""
    matrix = rows.reshape(-1, rows.shape[2])
    if said["steps"] == "columns":
        step = step_of(matrix, 100)
    else:
        step = step_of(matrix.reshape(-1, 1), 100)[0]
    numbers = quantised(matrix, np.asarray(step))
    zero = 27 if said["zero_points"] == "both" else 0
    if said["weight"] == "uint8":
        zero = 128
        return (numbers.astype(int) + zero).astype(np.uint8), np.asarray(step), np.array(zero, np.uint8)
    return numbers + np.int8(zero), np.asarray(step), np.array(zero, np.int8) if zero else None
