"""The ONNX standard operator Attention on ONNX Runtime's CPUExecutionProvider.

Document: "Attention", versions 23 and 24, in the operator schemas of ONNX 1.23. How it is read:
- empty rows: the erratum that makes them zero has no opset bump, so it holds for models already written;
- softcap: the pattern is MatMul, softcap, Add, Softmax, so before the mask;
- precision: the function body gives every step the type of Q. With softmax_precision it casts to that before Softmax and back
  behind it. Softmax is Exp of the scores and mask as they are, so that no power of 2 takes its place, and stands before the product
  with V: weights are divided by their sum, all of them, before they meet the values;
- a negative scale has no root and is outside the operator, zero is inside. scale and softcap are 32-bit attributes;
- diagonals: behind a past of P keys query i sees key P + i and those before it, however many queries and new keys there are. A
  problem says that as a causal mask at the bottom right, where there are as many of either, and else as a window of P keys to the
  right of the diagonal;
- a last dimension of length 1 could be a short mask or a broadcast one, and is not asked.
Nothing is said on determinism, on batches, on NaN: nothing is claimed. Version 25 adds windows, which onnxruntime
1.31 refuses ("Unrecognized attribute: left_window_size"). bfloat16 is in the type list, but without a kernel here;
double has no kernel either and runs as the function body.
"""

import numpy as np

from attest import Unsupported

from ._forms import drawn, may_be_empty, refuse
from ._masks import BOTTOM_RIGHT, TOP_LEFT, keep_of, lengths_as_keep, narrowed, windowed
from ._onnx_call import (
    DEFAULT_THREADS, MOVED, SESSIONS, TYPES, UNMOVED, Operator, attribute, check, heads_inside, past_length, scale_attribute,
    session, split,
)
from ._onnx_node import Node
from ._onnx_scores import Rest
from ._quotes import quotes

ELEMENT = {"f32": 1, "f16": 10, "f64": 11}  # TensorProto.DataType


DOCUMENTS = quotes("""
schema of ai.onnx Attention-24
    attention | The following pattern is applied by this operator:
    causal | If `is_causal` is set to `1`, causal masking is applied with bottom-right (offset-aware) alignment: query `i` attends key `j` iff `j <= i + offset`
    window ! the only window of Attention is the one that a past leaves to the right of a diagonal | query `i` attends key `j` iff `j <= i + offset`
    align | `offset = past_sequence_length` when `past_key` is provided; `offset = nonpad_kv_seqlen - q_sequence_length` (per batch) when an external cache is indicated by `nonpad_kv_seqlen` without `past_key`; `offset = 0` when neither is provided
    gqa | `q_num_heads > kv_num_heads`, `q_num_heads % kv_num_heads == 0`
    bias | a float mask of the same type as query, key, value that is added to the attention score.
    keep | A boolean mask where a value of `True` indicates that the element should take part in attention
    mask_added keep | a boolean `attn_mask` intersects the allowed set (its disallowed positions contribute `-inf` to the bias), while a float `attn_mask` is added to the attention scores rather than disabling positions
    bias keep ! this mask varies along more than it has axes for ! this mask varies along more than the keys | Shape must be broadcastable to `(batch_size, q_num_heads, q_sequence_length, total_sequence_length)`
    kv_lengths | A vector of integers of shape `(batch_size,)` that indicates the number of valid (ie, non-padding) tokens in each sample. A padding mask can be derived from this. This should not be used together with `past_key` and `past_value` inputs
    softcap | Softcap value for attention weights.
    softcap_before_bias form.qk_output=1 form.qk_output=read_1 | If set to `1`, qk_matmul_output is the output after the softcap operation (before mask addition).
    scale | Scaling factor applied to $Q*K^T$.
    scale ! Attention scales Q and K by sqrt(scale): a negative scale has none | scale `Q`, `K` by `sqrt(scale)` before matmul.
    empty_row | A fully-masked query row (no key attended, including the negative-offset leading rows) produces a zero output row, not `NaN`
    policy | If softmax precision is not provided, the same precision as the input of softmax (Q and K) is used.
    form.opset | Errata (in-place behavioral correction, no opset bump)
    form.layout | 4D tensor with shape `(batch_size, q_num_heads, q_sequence_length, head_size)` or 3D tensor with shape `(batch_size, q_sequence_length, q_hidden_size)`.
    form.mask=short ! the last key is attended to: no shorter mask says this | The last dimension can also be shorter than `total_sequence_length` and will be padded to `total_sequence_length` with negative infinity.
    form.mask_type | Two types of masks are supported: a boolean mask
    form.past | The Attention op performs a Concat operation on the past and incoming key and value to form the present key and value, respectively.
    form.present | Updated key cache with shape
    form.scale | Default value is `1/sqrt(head_size)`.
    form.qk_output form.qk_output=read_0 | If set to `0`, qk_matmul_output is the output of qk matmul.
    form.qk_output=2 form.qk_output=read_2 | If set to `2`, qk_matmul_output includes the attention mask and softcap (if provided) applied to the output of qk matmul.
    form.qk_output=3 form.qk_output=read_3 | If set to `3`, qk_matmul_output is the output after the softmax operation.
    form.softmax_precision | The floating-point precision used in softmax computation.
schema of ai.onnx Softmax-13 | policy | Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)
""")


def _softmax_in(precision):
    every = {"f16": f"f16-all,softmax={precision}", "f32": f"f32,softmax={precision}", "f64": f"f64,softmax={precision}"}
    return {"value": precision, "contract": {"policy": every}}


# The problems without a window, and those whose window a past says.
_WINDOW = ("window_left<0 && (window_right<0 || !causal && align==top_left && window_right>0 && window_right<lk && "
           "(lengths==none || lengths==full))")


def _alone(axes):
    """The problems whose mask varies along these axes alone (8: the keys)."""
    return f"(keep==none || keep_axes=={axes}) && (bias==none || bias_axes=={axes})"


class Attention(Operator):
    """ai.onnx Attention."""

    documents = DOCUMENTS
    forms = {
        "opset": ["24", "23"],  # 24 adds nonpad_kv_seqlen
        "layout": ["4d", "3d"],  # (B, H, L, D) or (B, L, H*D)
        **SESSIONS,
        "mask": ["lowest", "broadcast", "full", drawn("1d", _alone(8)), drawn("0d", _alone(0)), "short"],  # see shaped()
        "mask_type": ["bool", "float"],  # the type of a keep mask alone
        "past": ["needed", drawn("half", MOVED), drawn("empty", UNMOVED)],  # never all keys: "KV sequence length must be greater than 0"
        "present": ["needed", "asked"],  # whether present_key and present_value are outputs without a past, too
        "scale": ["as_called", "explicit"],
        # The mode of qk_matmul_output, where it is asked for; from read_0 on it is judged: Y is made of it, see behind().
        "qk_output": ["none", "0", "1", "2", "3", *(f"read_{mode}" for mode in range(4))],
        "softmax_precision": ["none"] + [_softmax_in(precision) for precision in ELEMENT],
    }

    def describe(self):
        supports = {"gqa": True, "softcap": True, "window": True, "drawn": _WINDOW, "dims": may_be_empty("b", "hq", "hkv", "lq", "lk")}
        if self.pinned.get("past") == "half":
            supports["align"] = ["bottom_right"]
        return self.described(TYPES, supports, {
            "policy": {"f16": "f16-all", "f32": "f32", "f64": "f64"},
            "empty_row": "zero",
            "softcap_before_bias": True,
            "mask_added": True,
            "exp2": False,
            "normalise": ["before"],
            "lse_merge": "none",
        })

    def node(self, call):
        check(call, "Attention", TYPES, window=True)
        said = self.said(call)
        refuse(call.scale < 0, "Attention scales Q and K by sqrt(scale): a negative scale has none")
        attributes = scale_attribute(call, said["scale"])
        if call.softcap > 0:
            attributes["softcap"] = attribute("softcap", call.softcap, call.dtype)
        if call.causal or windowed(call):
            attributes["is_causal"] = 1
        if said["softmax_precision"] != "none":
            attributes["softmax_precision"] = ELEMENT[said["softmax_precision"]]

        keep, nonpad, past = self.keys(call, said)
        q = call.q
        past_k, k = split(call.k, past)
        past_v, v = split(call.v, past)
        if said["layout"] == "3d":
            attributes.update(q_num_heads=q.shape[1], kv_num_heads=k.shape[1])
            q, k, v = heads_inside(q), heads_inside(k), heads_inside(v)
        inputs = [("Q", q), ("K", k), ("V", v), ("attn_mask", self.mask(call, keep, said)), ("past_key", past_k),
                  ("past_value", past_v), ("nonpad_kv_seqlen", nonpad)]
        # With a past, "past and present key and value are all needed".
        outputs = ["Y", "present_key", "present_value"] if past is not None or said["present"] == "asked" else ["Y"]
        rest = None
        if said["qk_output"] != "none":
            mode = int(said["qk_output"][-1])
            attributes["qk_matmul_output_mode"] = mode
            outputs += [""] * (3 - len(outputs)) + ["qk_matmul_output"]
            rest = behind(mode, call) if said["qk_output"].startswith("read") else None
        return Node("Attention", "", int(said["opset"]), attributes, inputs, outputs, call.threads or DEFAULT_THREADS,
                    rest=rest, **session(said, mask=("attn_mask",), kv=("K", "V")))

    def keys(self, call, said):
        """(keep, nonpad_kv_seqlen, past length): which keys there are, and where the diagonal is.

        nonpad_kv_seqlen puts the diagonal at the bottom right and excludes a past, so lengths go in as
        nonpad_kv_seqlen where that is what the problem says, and else join the mask. A bottom-right diagonal without
        lengths is a past, or for more queries than keys a nonpad_kv_seqlen of Lk for every sample.
        """
        lq, lk = call.q.shape[2], call.k.shape[2]
        lengths = call.kv_lengths
        if windowed(call):
            one_diagonal = call.window_left < 0 and not call.causal and call.align == TOP_LEFT and 0 < call.window_right < lk
            if not one_diagonal or lengths is not None and np.any(lengths != lk):
                raise Unsupported("the only window of Attention is the one that a past leaves to the right of a diagonal")
            return call.keep, None, call.window_right
        bottom_right = call.causal and call.align == BOTTOM_RIGHT
        has_nonpad = said["opset"] == "24" and said["past"] == "needed"
        if bottom_right and has_nonpad and (lengths is not None or lk < lq):
            if lengths is None:
                lengths = np.full(call.k.shape[0], lk)
            return call.keep, lengths.astype(np.int64), None
        if lengths is not None and has_nonpad and not call.causal:
            return call.keep, lengths.astype(np.int64), None

        past = past_length(call, said["past"])
        keep = call.keep
        if lengths is not None:
            real = lengths_as_keep(lengths, lk)
            keep = real if keep is None else narrowed(keep, (0, 1, 2)) & real
        return keep, None, past

    def mask(self, call, keep, said):
        """The one attn_mask: bool, or float where there is a bias, or None."""
        if keep is None and call.bias is None:
            return None
        number = TYPES[call.dtype]
        keys_alone = keep is call.keep and not any(any(t.strides[:3]) for t in (keep, call.bias) if t is not None)
        axes = (0, 1, 2, 3) if said["mask"] == "0d" else (0, 1, 2)
        if keep is not None:
            keep = narrowed(keep, axes)
        if call.bias is not None:
            mask = narrowed(call.bias, axes)
            mask = mask if keep is None else np.where(keep, mask, number(-np.inf))
        elif said["mask_type"] == "float":
            mask = np.where(keep, number(0), number(-np.inf))
        else:
            mask = keep
        return shaped(mask, said["mask"], keys_alone, (*call.q.shape[:3], call.k.shape[2]))


def behind(mode, call):
    """The steps of the operator's pattern that come behind qk_matmul_output of a mode."""
    mask = None
    if mode < 2:
        keep = keep_of(call, None if call.keep is None else narrowed(call.keep))
        mask = None if call.bias is None else narrowed(call.bias).astype(np.float64)
        mask = mask if keep is None else np.where(keep, 0, -np.inf) + (0 if mask is None else mask)
    return Rest("qk_matmul_output", "weights" if mode == 3 else "scores", call.softcap if mode == 0 else 0.0, mask)


def shaped(mask, form, keys_alone, scores):
    """A mask of four dimensions, of length 1 where it is broadcast, in the shape that the form names.

    lowest:    of the lowest rank that can say it. The dimension of the queries has length 1 in a mask that varies along the keys
               alone, which goes in as (1, Lk); else it is written out. The strides decide, so that one sample's mask has
               the form it has in its batch.
    broadcast: the same, and the queries' dimension has length 1 wherever it may.
    full:      all four dimensions written out.
    1d:        (Lk,), of a mask that varies along the keys alone.
    0d:        a scalar, of one that varies along nothing.
    short:     as lowest, without the last keys that no row attends to, two keys at least.
    """
    if form == "full":
        return np.broadcast_to(mask, scores)
    if form in ("0d", "1d"):
        alone = mask.shape[:4 if form == "0d" else 3]
        if any(n != 1 for n in alone):
            raise Unsupported("this mask varies along more than it has axes for" if form == "0d"
                              else "this mask varies along more than the keys")
        return mask.reshape(mask.shape[len(alone):])
    if form == "short":
        open_keys = (mask if mask.dtype == bool else mask != -np.inf).any((0, 1, 2))
        length = max(2, 1 + int(open_keys.nonzero()[0].max(initial=-1)))
        refuse(length >= scores[3], "the last key is attended to: no shorter mask says this")
        mask = mask[..., :length]
    if form != "broadcast" and not keys_alone:
        mask = np.broadcast_to(mask, (*mask.shape[:2], scores[2], mask.shape[3]))
    while mask.ndim > 2 and mask.shape[0] == 1:
        mask = mask[0]
    return mask
