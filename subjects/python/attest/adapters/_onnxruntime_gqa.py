"""ONNX Runtime's contrib operator com.microsoft.GroupQueryAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints. The sentences relied on:
- causal: "Whether to apply a causal mask. Must be 0 or 1. Default value is 1. Set to 0 for bidirectional attention";
- seqlens_k: "1D Tensor of shape (batch_size). Equivalent to (total_sequence_lengths - 1)"; total_sequence_length: "Scalar
  tensor equivalent to the maximum total sequence length (past + new) of the batch. Used for checking inputs and determining
  prompt vs token generation case". So a prompt has as many new keys as queries, query i is token i, and what follows the
  `seqlens_k[b] + 1` tokens of a shorter sample is padding, of whose output nothing is said: it goes where the problem has no
  key for a query, and any other prompt with shorter samples is not asked. Later the new tokens are the last of each sample's,
  a diagonal at the bottom right. There are no samples without tokens: "Any `S >= 1` is accepted" is said of the new ones, and
  with sliding_window_cache no total is "too small for sequence_length", as the operator answers;
- "When past context is present, the existing operator restriction still applies: `sequence_length > 1` requires `batch_size
  == 1`";
- past_key: "When past_key uses same tensor as present_key(k-v cache), it is of length max_sequence_length... otherwise of
  length past_sequence_length". That all keys may lie there the operator says itself: "key sequence length must be 0 for
  shared KV (no new KV to append)";
- local_window_size: "left_window_size for causal local attention (like Mistral). Must be -1 when causal is 0", and with
  sliding_window_cache "the whole window stays resident" in "`L` most recent positions", `min(T, W) <= L(T)`: the window
  counts the query's own token, and holds one key more than window_left. What `past_key` then holds is given as a formula,
  `resident` below;
- attention_bias: "additional add to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length,
  total_sequence_length)". Masks go in as one of 0 and -inf. Whether the softcap comes before or after it is not said, so both
  at once are not asked;
- query: "or packed QKV with shape(batch_size, sequence_length, d) where d is (num_heads * head_size + 2 * kv_num_heads *
  head_size)": one head_size for all; "head_size must be a multiple of 8" is what the operator answers to another;
- scale: "Custom scale will be used if specified. Default value is 1/sqrt(head_size)"; softcap: "Softcap value for attention
  weights. Default value is 0"; qk_output: "Output values of QK matrix multiplication before (1) or after (2) softmax
  normalization", but "qk_output is not implemented with sliding_window_cache=1", as the operator answers.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There are kernels for float32 and float16. Rotary
embedding, smooth softmax, norms of q and k and quantised caches compute something else and are left alone.
"""

import numpy as np

from attest import Unsupported

from ._masks import BOTTOM_RIGHT, TOP_LEFT, narrowed, windowed
from ._onnx_call import (
    DEFAULT_THREADS, SESSIONS, TYPES, UNUSED, Operator, added, attribute, buffer, check, describe, heads_inside,
    rolled, scale_attribute, session,
)
from ._onnx_node import Node

DTYPES = ("f16", "f32")
LARGEST_INT = 2**63 - 1  # of an attribute


class GroupQueryAttention(Operator):
    """com.microsoft GroupQueryAttention."""

    forms = {
        **SESSIONS,
        "qkv": ["separate", "packed"],  # three inputs, or one
        # Past and present: where they are needed; of length 0 before a prompt; in one buffer; with all keys; of a window's size.
        "cache": ["needed", "empty", "shared", "all", "window"],
        "present": ["asked", "none"],  # whether present_key and present_value are outputs; they are where there is a past
        "qk_output": ["none", "1", "2"],
        "scale": ["as_called", "explicit"],
    }

    def describe(self):
        supports = {"gqa": True, "softcap": True, "window": True, "dims": {"d": [8, None, 8], "dv": "=d"}}
        return describe(DTYPES, supports, {}, self.offered())

    def node(self, call):
        check(call, "GroupQueryAttention", DTYPES, window=True)
        said = self.said(call)
        if call.k.shape[3] % 8 or call.v.shape[3] != call.k.shape[3]:
            raise Unsupported("GroupQueryAttention has one head_size, a multiple of 8")
        attributes = {"num_heads": call.q.shape[1], "kv_num_heads": call.k.shape[1], **scale_attribute(call, said["scale"])}
        attributes.update(diagonal(call))
        if call.softcap > 0:
            if call.bias is not None or call.keep is not None:
                raise Unsupported("the document does not say whether the softcap comes before or after attention_bias")
            attributes["softcap"] = attribute("softcap", call.softcap, call.dtype)

        tokens = Tokens(call, said["cache"])
        query, key, value = (heads_inside(x) for x in (tokens.queries(call.q), tokens.new(call.k), tokens.new(call.v)))
        if said["qkv"] == "packed":
            if key.shape[1] != query.shape[1]:
                raise Unsupported("packed QKV has as many keys as queries")
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

        inputs = [("query", query), ("key", key), ("value", value), ("past_key", past_key), ("past_value", past_value),
                  ("seqlens_k", (tokens.lengths - 1).astype(np.int32)),
                  ("total_sequence_length", np.array(tokens.total, np.int32)),
                  ("cos_cache", None), ("sin_cache", None), ("position_ids", None),
                  ("attention_bias", bias_of(call, tokens))]
        outputs = ["output"]
        if past_key is not None or said["present"] == "asked":
            outputs += ["present_key", "present_value"]
        if said["qk_output"] != "none":
            if said["cache"] == "window":
                raise Unsupported("qk_output is not implemented with sliding_window_cache=1")
            attributes["qk_output"] = int(said["qk_output"])
            outputs += [""] * (3 - len(outputs)) + ["output_qk"]
        return Node("GroupQueryAttention", "com.microsoft", 17, attributes, inputs, outputs, call.threads or DEFAULT_THREADS,
                    shared=shared, ahead=tokens.ahead, **session(said, mask=("attention_bias",), kv=("key", "value")))


class Tokens:
    """Which keys of a call are past and which are new, and in which row each query is.

    lengths: how many tokens each sample has; total: of the batch; past: how many leading keys the longest sample has in its
    cache; a sample with fewer keys has fewer of them there, and what follows them is not read. ahead: by how many rows each
    sample's queries move up in a padded prompt: under a diagonal at the bottom right the last query is a sample's last token,
    and the first ones, where it has fewer tokens than there are queries, see no key and take the places of its padding.
    """

    def __init__(self, call, cache):
        b, _, lq, _ = call.q.shape
        lk = call.k.shape[2]
        self.lk = lk
        self.lengths = np.full(b, lk) if call.kv_lengths is None else call.kv_lengths.astype(int)
        if self.lengths.min() < 1:
            raise Unsupported("a sample has at least one new token")
        positions = call.causal or windowed(call)
        whole = bool(np.all(self.lengths == lq))
        padded = positions and call.align == BOTTOM_RIGHT
        self.ahead = ()
        if self.lengths.max() <= lq <= lk and cache != "all" and (whole or padded):
            self.total, self.added, self.past = lq, lq, 0
            if not whole:
                if cache == "window":
                    raise Unsupported("with sliding_window_cache no total_sequence_length is shorter than the step")
                self.ahead = tuple((lq - self.lengths).tolist())
            return
        if positions and call.align == TOP_LEFT and not whole:
            raise Unsupported("new tokens are the last of each sample's total_sequence_length: a diagonal at the bottom right")
        if self.lengths.min() < lq:
            raise Unsupported("total_sequence_lengths are of past and new tokens: no fewer than there are queries")
        if cache == "empty":
            raise Unsupported("past context is needed")
        self.total = int(self.lengths.max())
        self.added = 0 if cache == "all" else lq
        self.past = self.total - self.added
        if lq > 1 and b > 1 and self.past:
            raise Unsupported("sequence_length > 1 requires batch_size == 1 when past context is present")

    def queries(self, array):
        """What has a row for each query, [B, H, Lq, ...], in the operator's order."""
        return rolled(array, [-n for n in self.ahead]) if self.ahead else array

    def new(self, array):
        """The new keys or values: the last of each sample, or, in a prompt, all with its padding."""
        if self.past == 0:
            return array[:, :, :self.added]
        if np.all(self.lengths == self.total):
            return array[:, :, self.past:self.total]
        return np.stack([sample[:, n - self.added:n] for sample, n in zip(array, self.lengths)])

    def resident(self, array, window):
        """A cache of capacity C, two rows more than the window W: "rows `[0, L)` of `present_key` and `present_value` hold the
        `L` most recent positions in increasing position order", `L(T) = T if T <= C`, else `T - G * ceil((T - C) / G)` with
        `G = C - W + 1`."""
        if window < 1:
            raise Unsupported("sliding_window_cache requires local_window_size > 0")
        if window > 2 * self.lk + 8:
            raise Unsupported("no cache is made for a window so much longer than the keys")
        if self.added == 0:
            raise Unsupported("the layout of the cache is that of the tokens before the step")
        capacity, step = window + 2, 3
        cache = np.full((*array.shape[:2], capacity, array.shape[3]), UNUSED, array.dtype)
        for sample, keys, n in zip(cache, array, self.lengths):
            tokens = n - self.added if self.past else 0
            rows = tokens if tokens <= capacity else tokens - step * -(-(tokens - capacity) // step)
            sample[:, :rows] = keys[:, tokens - rows:tokens]
        return cache


def diagonal(call):
    """The attributes of the causal mask and the window."""
    causal = call.causal or call.window_right == 0
    if call.window_right > 0 and not causal:
        raise Unsupported("local_window_size is a left window, of causal attention")
    if call.window_left < 0:
        return {} if causal else {"causal": 0}
    if not causal:
        raise Unsupported("local_window_size must be -1 when causal is 0")
    return {"local_window_size": min(call.window_left + 1, LARGEST_INT)}


def bias_of(call, tokens):
    """attention_bias over the first `total` keys, or None: of 0 and -inf where a mask is said with it."""
    if call.keep is None and call.bias is None:
        return None
    bias = None if call.bias is None else narrowed(call.bias, (0, 1))
    if call.keep is not None:
        bias = added(narrowed(call.keep, (0, 1)), bias, TYPES[call.dtype])
    if tokens.ahead:
        bias = tokens.queries(np.broadcast_to(bias, (len(call.q), *bias.shape[1:])))
    return bias[..., :tokens.total]
