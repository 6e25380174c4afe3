"""ONNX Runtime's contrib operator com.microsoft.GroupQueryAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints, and what the operator answers to
calls that it does not take. How it is read:
- seqlens_k and total_sequence_length count past and new: a prompt has as many new keys as queries, query i is token i, and what
  follows the `seqlens_k[b] + 1` tokens of a shorter sample is padding, of whose output nothing is said: it goes where the problem
  has no key for a query, and any other prompt with shorter samples is not asked. Later the new tokens are the last of each
  sample's, a diagonal at the bottom right. There are no samples without tokens;
- past_key: that all keys may lie there the operator says itself, in its words on "shared KV";
- local_window_size: with sliding_window_cache the whole window stays resident among the L most recent positions, min(T, W) <=
  L(T): the window counts the query's own token, and holds one key more than window_left. The content of past_key is then given as a
  formula, `resident` below;
- attention_bias: masks go in as one of 0 and -inf. Whether the softcap comes before or after it is not said, so both at once are
  not asked;
- do_rotary: new keys and queries are turned, by the angles of their tokens' numbers; what lies in the cache has been. They go in
  turned back (_rotary.py);
- head_sink: one of -inf adds nothing to the denominator. A first key of zeros that is open to every query, with a value of zeros, adds
  exp of its bias, as the sink of a head does, and exp(0), as smooth_softmax: so these say that key;
- quantised caches: keys and values that are small multiples of their scale are kept as they are.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There are kernels for float32 and float16. Norms
of q and k are for other devices; caches of 4 bits are left alone, since the order of the two
in a byte is not said.
"""

from copy import copy

import numpy as np

from attest import Unsupported

from ._forms import drawn, may_be_empty, refuse
from ._masks import BOTTOM_RIGHT, TOP_LEFT, added_to, lengths_as_keep, narrowed, windowed
from ._onnx_call import (
    DEFAULT_THREADS, SESSIONS, UNUSED, Operator, attribute, buffer, check, heads_inside, rolled, scale_attribute,
    session,
)
from ._onnx_node import Node
from ._onnx_scores import Rest
from ._onnxruntime_quantised import quantised, steps
from ._quotes import quotes
from ._rotary import caches, turned_back

DTYPES = ("f16", "f32")
LARGEST_INT = 2**63 - 1  # the largest number of an attribute


DOCUMENTS = quotes("""
errors of onnxruntime.capi.onnxruntime_pybind11_state
    ! GroupQueryAttention has one head_size, a multiple of 8 | head_size must be a multiple of 8.
    ! qk_output is not implemented with sliding_window_cache=1 | GroupQueryAttention (CPU): qk_output is not implemented with sliding_window_cache=1.
    ! a sample has at least one token | is out of range [0,
    ! total_sequence_lengths are of past and new tokens: no fewer than there are queries | query and key must have the same sequence length when past_key is not provided.
    ! total_sequence_lengths are of past and new tokens: no fewer than there are queries ! with sliding_window_cache no total_sequence_length is shorter than the step | is too small for sequence_length
    ! past context is needed | query and key must have the same sequence length when past_key is provided, or key sequence length must be 0 for shared KV (no new KV to append).
    ! sliding_window_cache: head_size must be a multiple of 16 for an 8-bit KV cache | ) must be a multiple of 16 for an 8-bit KV cache.
    ! with rotary embeddings head_size is a multiple of 16 | head_size shall be a multiple of 16.
schema of com.microsoft GroupQueryAttention-1
    causal | Whether to apply a causal mask. Must be 0 or 1. Default value is 1. Set to 0 for bidirectional attention.
    align ! new tokens are the last of each sample's total_sequence_length: a diagonal at the bottom right ! total_sequence_lengths are of past and new tokens: no fewer than there are queries | Scalar tensor equivalent to the maximum total sequence length (past + new) of the batch. Used for checking inputs and determining prompt vs token generation case.
    gqa | Number of attention heads for q
    gqa | Number of attention heads for k and v
    bias keep | additional add to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)
    kv_lengths | 1D Tensor of shape (batch_size). Equivalent to (total_sequence_lengths - 1).
    window ! local_window_size is a left window, of causal attention ! local_window_size must be -1 when causal is 0 | left_window_size for causal local attention (like Mistral). Must be -1 when causal is 0.
    window | the whole window stays resident, and eviction reclaims `G` positions at once
    softcap ! the document does not say whether the softcap comes before or after attention_bias | Softcap value for attention weights. Default value is 0.
    scale form.scale | Custom scale will be used if specified. Default value is 1/sqrt(head_size)
    form.qkv ! GroupQueryAttention has one head_size, a multiple of 8 ! packed QKV has as many keys as queries | packed QKV with shape(batch_size, sequence_length, d) where d is (num_heads * head_size + 2 * kv_num_heads * head_size).
    form.cache | When past_key uses same tensor as present_key(k-v cache), it is of length max_sequence_length... otherwise of length past_sequence_length.
    form.cache=window | After a step, rows `[0, L)` of `present_key` and `present_value` hold the `L` most recent positions in increasing position order, so row `i` holds absolute position `T - L + i`.
    form.cache=window | L(T) = T - G * ceil((T - C) / G)
    form.cache=window | The last dimension is indexed by absolute key position and stays total_sequence_length when sliding_window_cache is 1
    form.qk_output | Output values of QK matrix multiplication before (1) or after (2) softmax normalization. Default value is 0 (don't output).
    form.qk_output=read_2 | Values of QK matrix multiplication, either before or after softmax normalization
    form.rotary | Whether to use rotary position embedding. Default value is 0.
    form.rotary | 2D tensor with shape (max_sequence_length, head_size / 2).
    form.rotary=interleaved | Rotate using interleaved pattern. Default value is 0 (False).
    form.rotary=positions | 2D tensor with shape (batch_size, sequence_length). When processing the first prompt the kernel uses only the first element
    form.sink ! no first key is a factor in the denominator of each head | 1D tensor with shape (num_heads). Each head has a smooth factor adding to the denominator of softmax.
    form.sink=smooth | Use a smooth factor in softmax.
    form.kept_as=int8_tensor form.kept_as=int8_channel | When quantization is enabled, `past_key` and `past_value` inputs can be of type `float8e4m3fn`, `uint8` or `int8`. The corresponding `k_scale` and `v_scale` tensors must be provided.
    form.kept_as=int8_tensor | A single scale for the entire tensor. Scale example shape: `[1]`.
    form.kept_as=int8_channel | A scale for each channel. Scale example shape: `[1, num_heads_k, 1, head_size]`.
    ! a sample has at least one token | Equivalent to (total_sequence_lengths - 1).
    ! sequence_length > 1 requires batch_size == 1 when past context is present | When past context is present, the existing operator restriction still applies: `sequence_length > 1` requires `batch_size == 1`.
    ! sliding_window_cache requires local_window_size > 0 ! no cache is made for a window so much longer than the keys | Requires local_window_size > 0 and a cache capacity of at least local_window_size
""")


# A window is one of causal attention, and the diagonal that of a prompt or of a past, which is of one sample or before one query;
# there are no samples without tokens, and no softcap beside a mask.
_DRAWN = " && ".join((
    "lq<=lk", "lengths!=some_zero", "(lq==1 || b==1 || lq==lk)",
    "(window_right<=0 || causal)", "(window_left<0 || causal || window_right==0)",
    "(lengths==none || lengths==full || lq==1 || align==bottom_right && (causal || window_right==0))",
    "(!causal && window_right!=0 || align==bottom_right || lq==lk)",
    "(softcap==0 || keep==none && bias==none)"))


_SHORT = "(values==constant || values==integers || values==large_integers)"  # numbers that eight bits hold
# A first key of zeros that every query sees, with one bias a head.
_SINK = ("null_key && lk>1 && keep==none && window_left<0 && lengths!=one && (!causal && window_right<0 || align==bottom_right) && "
         "(bias==none || bias_axes==8 || bias_axes==10 || bias_axes==2 || bias_axes==0)")


class GroupQueryAttention(Operator):
    """com.microsoft GroupQueryAttention."""

    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        "qkv": ["separate", drawn("packed", "form.cache!=all")],  # three inputs, or one
        # Past and present: where they are needed; of length 0 before a prompt; in one buffer; with all keys; of a window's size.
        "cache": ["needed", drawn("empty", "lk==lq"), "shared", "all", drawn("window", "window_left>=0 && window_left<=2*lk+6")],
        "present": ["asked", "none"],  # whether present_key and present_value are outputs; they are where there is a past
        # read_2: the output is made of these weights.
        "qk_output": ["none", *(drawn(kind, "form.cache!=window") for kind in ("1", "2", "read_2"))],
        "scale": ["as_called", "explicit"],
        # Whether the operator turns q and the new k: pairs of halves, neighbours as pairs, halves with position_ids of their own.
        "rotary": ["none", *(drawn(turned, "d%16==0") for turned in ("halves", "interleaved", "positions"))],
        # head_sink of -inf, or in place of a first key and value of zeros; smooth_softmax likewise.
        "sink": ["none", "minus_inf", drawn("key", _SINK), drawn("smooth", f"bias==none && {_SINK}")],
        "kept_as": ["given", *(drawn(kept, f"{_SHORT} && (form.cache!=window || d%16==0)")
                               for kept in ("int8_tensor", "int8_channel"))],  # the cache, with a scale of the tensor or one for each channel
    }

    def describe(self):
        supports = {"gqa": True, "softcap": True, "window": True, "dims": {"d": [8, None, 8], "dv": "=d", **may_be_empty("b")}, "drawn": _DRAWN,
                    "null_key": True}
        return self.described(DTYPES, supports, {})

    def node(self, call):
        check(call, "GroupQueryAttention", DTYPES, window=True)
        said = self.said(call)
        refuse(call.k.shape[3] % 8 or call.v.shape[3] != call.k.shape[3], "GroupQueryAttention has one head_size, a multiple of 8")
        sink = np.full(call.q.shape[1], -np.inf, call.q.dtype) if said["sink"] == "minus_inf" else None
        if said["sink"] in ("key", "smooth"):
            call, sink = without_null_key(call)
        attributes = {"num_heads": call.q.shape[1], "kv_num_heads": call.k.shape[1], **scale_attribute(call, said["scale"])}
        attributes.update(diagonal(call))
        if call.softcap > 0:
            if call.bias is not None or call.keep is not None:
                raise Unsupported("the document does not say whether the softcap comes before or after attention_bias")
            attributes["softcap"] = attribute("softcap", call.softcap, call.dtype)

        if said["sink"] == "smooth":
            refuse(sink.any(), "no first key is a factor in the denominator of each head")
            attributes["smooth_softmax"], sink = 1, None

        tokens = Tokens(call, said["cache"])
        query, key, value = tokens.queries(call.q), tokens.new(call.k), tokens.new(call.v)
        cos, sin, ids = None, None, None
        if said["rotary"] != "none":
            refuse(call.q.shape[3] % 16, "with rotary embeddings head_size is a multiple of 16")
            attributes.update(do_rotary=1, rotary_interleaved=int(said["rotary"] == "interleaved"))
            asked, added, ids = tokens.numbered(call.q.shape[2], said["rotary"] == "positions")
            cos, sin = caches(tokens.total + 4, call.q.shape[3], call.q.dtype)
            interleaved = said["rotary"] == "interleaved"
            query, key = turned_back(query, asked, interleaved), turned_back(key, added, interleaved)
        query, key, value = (heads_inside(x) for x in (query, key, value))
        if said["qkv"] == "packed":
            refuse(key.shape[1] != query.shape[1], "packed QKV has as many keys as queries")
            query, key, value = np.concatenate([query, key, value], 2), None, None
        past_key, past_value, shared = None, None, {}
        if said["cache"] == "window":
            window = attributes.get("local_window_size", 0)
            attributes["sliding_window_cache"] = 1
            past_key, past_value = (tokens.resident(x, window) for x in (call.k, call.v))
        elif said["cache"] == "shared":
            past_key, past_value = (buffer(x[:, :, :tokens.past], tokens.total) for x in (call.k, call.v))
            shared = {"past_key": "present_key", "past_value": "present_value"}
        elif tokens.past or said["cache"] == "empty":
            past_key, past_value = call.k[:, :, :tokens.past], call.v[:, :, :tokens.past]
        scales, kept = (None, None), {}
        if said["kept_as"] != "given":
            if past_key is None:
                past_key, past_value = call.k[:, :, :0], call.v[:, :, :0]
            if said["cache"] == "window" and call.k.shape[3] % 16:
                raise Unsupported("sliding_window_cache: head_size must be a multiple of 16 for an 8-bit KV cache")
            kind = said["kept_as"].removeprefix("int8_")
            scales = [steps(x, kind, 127) for x in (call.k, call.v)]
            past_key, past_value = (quantised(x, step) for x, step in zip((past_key, past_value), scales))
            attributes.update(k_quant_type=f"PER_{kind.upper()}", v_quant_type=f"PER_{kind.upper()}", kv_cache_bit_width=8)
            kept = {"present_key": np.int8, "present_value": np.int8}

        inputs = [("query", query), ("key", key), ("value", value), ("past_key", past_key), ("past_value", past_value),
                  ("seqlens_k", (tokens.lengths - 1).astype(np.int32)),
                  ("total_sequence_length", np.array(tokens.total, np.int32)),
                  ("cos_cache", cos), ("sin_cache", sin), ("position_ids", ids), ("attention_bias", bias_of(call, tokens)),
                  ("head_sink", sink),
                  ("k_scale", scales[0]), ("v_scale", scales[1])]
        outputs = ["output"]
        if past_key is not None or said["present"] == "asked":
            outputs += ["present_key", "present_value"]
        if said["qk_output"] != "none":
            refuse(said["cache"] == "window", "qk_output is not implemented with sliding_window_cache=1")
            attributes["qk_output"] = int(said["qk_output"][-1])
            outputs += [""] * (3 - len(outputs)) + ["output_qk"]
        rest = None
        if said["qk_output"] == "read_2":
            first = int(said["sink"] in ("key", "smooth"))
            padding = np.where(lengths_as_keep(tokens.lengths, tokens.total), 0, -np.inf)
            rest = Rest("output_qk", "weights", mask=padding, keys=(first, first + tokens.total))
        return Node("GroupQueryAttention", "com.microsoft", 17, attributes, inputs, outputs, call.threads or DEFAULT_THREADS,
                    shared=shared, ahead=tokens.ahead, kept=kept, rest=rest, **session(said, mask=("attention_bias",), kv=("key", "value")))


class Tokens:
    """The past and the new keys of a call, and the row of each query.

    lengths: the number of tokens of each sample; total: that of the batch; past: the number of leading keys that the longest sample
    has in its cache; a sample with fewer keys has fewer of them there, and the numbers behind them are not read. ahead: the number of
    rows by which each sample's queries move up in a padded prompt: under a diagonal at the bottom right the last query is a sample's
    last token, and the first ones, where it has fewer tokens than there are queries, see no key and take the places of its padding.
    `continued`: the number of samples that a prompt may have that continues one.
    """

    def __init__(self, call, cache, continued=1):
        b, _, lq, _ = call.q.shape
        lk = call.k.shape[2]
        self.lk = lk
        self.lengths = np.full(b, lk) if call.kv_lengths is None else call.kv_lengths.astype(int)
        least, most = (int(self.lengths.min()), int(self.lengths.max())) if b else (lk, lk)
        refuse(least < 1, "a sample has at least one token")
        positions = call.causal or windowed(call)
        whole = bool(np.all(self.lengths == lq))
        padded = positions and call.align == BOTTOM_RIGHT
        self.ahead = ()
        if most <= lq <= lk and cache != "all" and (whole or padded):
            self.total, self.added, self.past = lq, lq, 0
            if not whole:
                refuse(cache == "window", "with sliding_window_cache no total_sequence_length is shorter than the step")
                self.ahead = tuple((lq - self.lengths).tolist())
            return
        if positions and call.align == TOP_LEFT and not whole:
            raise Unsupported("new tokens are the last of each sample's total_sequence_length: a diagonal at the bottom right")
        refuse(least < lq, "total_sequence_lengths are of past and new tokens: no fewer than there are queries")
        refuse(cache == "empty", "past context is needed")
        self.total = most
        self.added = 0 if cache == "all" else lq
        self.past = self.total - self.added
        refuse(lq > 1 and b > continued and self.past, "sequence_length > 1 requires batch_size == 1 when past context is present")

    def queries(self, array):
        """An array that has a row for each query, [B, H, Lq, ...], in the operator's order."""
        return rolled(array, [-n for n in self.ahead]) if self.ahead else array

    def new(self, array):
        """The new keys or values: the last of each sample, or, in a prompt, all with its padding."""
        if self.past == 0:
            return array[:, :, :self.added]
        if np.all(self.lengths == self.total):
            return array[:, :, self.past:self.total]
        return np.stack([sample[:, n - self.added:n] for sample, n in zip(array, self.lengths)])

    def numbered(self, queries, free):
        """(numbers of the queries' tokens, of the new keys', position_ids or None), integers [B, L] in the operator's order.
        `free`: numbers that position_ids gives, other than those that the lengths do."""
        first = np.zeros((len(self.lengths), 1), int)
        asked, added = (first + np.arange(n) if self.past == 0 else self.lengths[:, None] - n + np.arange(n)
                        for n in (queries, self.added))
        if not free:
            return asked, added, None
        if self.past == 0 or queries == self.total:  # only the first element of a first prompt is read
            return asked + 2, added + 2, (asked + 2).astype(np.int64)
        other = lambda numbers: (3 * numbers + 1) % (self.total + 4)
        return other(asked), other(added), other(asked).astype(np.int64)

    def resident(self, array, window):
        """A cache of capacity C, two rows more than the window W, as T tokens leave it: the quotes have the number of rows, with
        G = C - W + 1."""
        refuse(window < 1, "sliding_window_cache requires local_window_size > 0")
        refuse(window > 2 * self.lk + 8, "no cache is made for a window so much longer than the keys")
        capacity, step = window + 2, 3
        cache = np.full((*array.shape[:2], capacity, array.shape[3]), UNUSED, array.dtype)
        for sample, keys, n in zip(cache, array, self.lengths):
            tokens = n - self.added if self.past else 0
            rows = tokens if tokens <= capacity else tokens - step * -(-(tokens - capacity) // step)
            sample[:, :rows] = keys[:, tokens - rows:tokens]
        return cache


def without_null_key(call):
    """(the call without its first key, the sinks of the heads that say it): a key and a value of zeros that every query sees."""
    lk, positions = call.k.shape[2], call.causal or windowed(call)
    lengths = np.array([lk]) if call.kv_lengths is None else call.kv_lengths
    column = np.zeros((1, call.q.shape[1], 1), call.q.dtype) if call.bias is None else narrowed(call.bias, (0, 2))[..., 0]
    if (call.k[:, :, :1].any() or call.v[:, :, :1].any() or call.keep is not None or call.window_left >= 0 or lk < 2 or len(call.q) == 0
            or lengths.min(initial=lk) < 2 or positions and (call.align == TOP_LEFT or lengths.min(initial=lk) < call.q.shape[2])
            or np.any(column != column[:1, :, :1])):
        raise Unsupported("no first key is a factor in the denominator of each head")
    made = copy(call)
    made.k, made.v = call.k[:, :, 1:], call.v[:, :, 1:]
    if call.bias is not None:
        made.bias = call.bias[..., 1:] if call.bias.strides[3] else call.bias[..., :-1]
    if call.kv_lengths is not None:
        made.kv_lengths = call.kv_lengths - 1
    return made, np.array(column[0, :, 0])


def diagonal(call):
    """The attributes of the causal mask and the window."""
    causal = call.causal or call.window_right == 0
    refuse(call.window_right > 0 and not causal, "local_window_size is a left window, of causal attention")
    if call.window_left < 0:
        return {} if causal else {"causal": 0}
    refuse(not causal, "local_window_size must be -1 when causal is 0")
    return {"local_window_size": min(call.window_left + 1, LARGEST_INT)}


def bias_of(call, tokens):
    """attention_bias over the first `total` keys, or None: of 0 and -inf where a mask is said with it."""
    if call.keep is None and call.bias is None:
        return None
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if call.keep is not None:
        bias = added_to(call, narrowed(call.keep, (0, 1)), call.dtype, bias)
    if tokens.ahead:
        bias = tokens.queries(np.broadcast_to(bias, (len(call.q), *bias.shape[1:])))
    return bias[..., :tokens.total]
