"""ONNX Runtime's contrib operator com.microsoft.SparseAttention, version 1, on the CPUExecutionProvider.

Document: the operator's schema in onnxruntime 1.31, which docs/ContribOperators.md prints, and what the operator answers to
calls that it does not take. How it is read:
- block_mask: key j takes part in row i where j is no later than i and the block of both is 1; a mask that is the same for all
  samples and leaves each block as a whole goes in so. Rows are counted as keys are: by tokens of a sample;
- total_sequence_length and key_total_sequence_lengths: as in GroupQueryAttention, but that each sample's own number is given; what
  follows the tokens of a shorter sample of a prompt is padding, of whose output nothing is said;
- past_key and present_key are one buffer;
- unidirectional: the last token sees all keys, so that a call without a causal mask goes in with each query as the last token of
  a sample of its own;
- do_rotary: as in GroupQueryAttention.
Nothing is said on empty rows, precision, determinism: nothing is claimed. There are kernels for float32 and float16.
"""

from copy import copy

import numpy as np

from attest import Unsupported

from ._forms import drawn, refuse
from ._masks import BOTTOM_RIGHT, diagonal_as_keep, narrowed, windowed
from ._onnx_call import DEFAULT_THREADS, SESSIONS, UNUSED, Operator, check, heads_inside, scale_attribute, session
from ._onnx_node import Node
from ._onnxruntime_gqa import Tokens
from ._quotes import quotes
from ._rotary import caches, turned_back

DTYPES = ("f16", "f32")
_LARGEST = 2**20  # numbers in the keys of a call whose queries each have a sample of their own
_MOST_BLOCKS = 2**28  # blocks of a mask, which lists each that is open: a gigabyte


DOCUMENTS = quotes("""
errors of onnxruntime.capi.onnxruntime_pybind11_state
    ! SparseAttention has one head_size, a multiple of 8 | head_size must be a multiple of 8. Got head_size
    ! with rotary embeddings head_size is a multiple of 16 | head_size shall be a multiple of 16.
attributes of com.microsoft SparseAttention-1 | ! SparseAttention has no softcap | [do_rotary INT, kv_num_heads INT, num_heads INT, rotary_interleaved INT, scale FLOAT, sparse_block_size INT]
inputs of com.microsoft SparseAttention-1 | ! SparseAttention has no bias | [query T, key T, value T, past_key T, past_value T, block_row_indices M, block_col_indices M, total_sequence_length M, key_total_sequence_lengths M, cos_cache T, sin_cache T]
schema of com.microsoft SparseAttention-1
    causal ! SparseAttention is unidirectional | Only supports unidirectional attention with cache of past key and value in linear buffers.
    align ! the samples of a continued prompt have one past_sequence_length | Scalar tensor of maximum total sequence length (past_sequence_length + sequence_length) among keys.
    gqa | Number of attention heads for query
    gqa | Number of attention heads for key and value
    keep window ! this mask leaves no block as a whole | block_mask can be used to configure sparse layout for different head.
    keep form.layouts | When number of sparse layout is 1, all heads have same sparse layout. Otherwise, different layouts are used cyclically.
    kv_lengths | 1D tensor with shape (batch_size) where each value is total sequence length of key excluding paddings.
    scale form.scale | Scaling factor applied prior to softmax. The default value is 1/sqrt(head_size)
    form.qkv ! SparseAttention has one head_size, a multiple of 8 | packed QKV with shape is(batch_size, sequence_length, d) where d is (num_heads + 2 * kv_num_heads) * head_size.
    form.block ! a block mask of so many keys lists more blocks than memory is worth | Number of tokens per sparse block. Choices: 16, 32, 64, 128
    form.rotary | Whether to use rotary position embedding. Default value is 0.
    form.rotary | Cos cache of rotary with shape (max_rotary_sequence_length, head_size / 2).
    form.rotary=interleaved | Rotary use interleaved pattern or not. Default value is 0.
    ! a block mask is the same for all samples | The row indices of CSR format of block mask with shape (num_layout, max_blocks + 1).
""")


# No query sees a later key, and a mask is one of whole blocks that all samples share.
_DRAWN = " && ".join((
    "lq<=lk", "lengths!=some_zero", "(causal || window_right==0 || window_left<0 && window_right<0)",
    "(!causal && window_right!=0 || align==bottom_right || lq==lk && (lengths==none || lengths==full))",
    "(lengths==none || lengths==full || lq==1 || !causal && window_right!=0 || lq==lk)",
    "(keep==none || keep==open || keep==closed || keep==blocks && (keep_axes==8 || keep_axes==10))"))


class SparseAttention(Operator):
    """com.microsoft SparseAttention."""

    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        "constants": ["none", "mask"],
        "qkv": ["separate", "packed"],  # three inputs, or one
        "block": ["16", "32", "64", "128"],  # tokens in a block
        "layouts": ["one", "heads"],  # one layout where all heads have the same, or as many as there are heads
        "scale": ["as_called", "explicit"],
        "rotary": ["none", drawn("halves", "d%16==0"), drawn("interleaved", "d%16==0")],
    }

    def describe(self):
        supports = {"gqa": True, "softcap": False, "window": True, "bias": False, "dims": {"d": [8, None, 8], "dv": "=d"},
                    "drawn": _DRAWN}
        return self.described(DTYPES, supports, {})

    def node(self, call):
        check(call, "SparseAttention", DTYPES, window=True)
        said = self.said(call)
        (_, heads, lq, d), groups = call.q.shape, call.k.shape[1]
        refuse(d % 8 or call.v.shape[3] != d, "SparseAttention has one head_size, a multiple of 8")
        refuse(call.softcap > 0, "SparseAttention has no softcap")
        refuse(call.bias is not None, "SparseAttention has no bias")
        if not (call.causal or call.window_right == 0):
            call = each_alone(call)
        lq = call.q.shape[2]
        block = int(said["block"])
        attributes = {"num_heads": heads, "kv_num_heads": groups, "sparse_block_size": block,
                      **scale_attribute(call, said["scale"])}

        tokens = Tokens(call, "needed", continued=len(call.q))
        if lq > 1 and tokens.past and np.any(tokens.lengths != tokens.total):
            raise Unsupported("the samples of a continued prompt have one past_sequence_length")
        query, key, value = tokens.queries(call.q), tokens.new(call.k), tokens.new(call.v)
        cos, sin = None, None
        if said["rotary"] != "none":
            refuse(d % 16, "with rotary embeddings head_size is a multiple of 16")
            attributes.update(do_rotary=1, rotary_interleaved=int(said["rotary"] == "interleaved"))
            asked, added, _ = tokens.numbered(lq, False)
            cos, sin = caches(tokens.total + 4, d, call.q.dtype)
            query, key = (turned_back(x, numbers, said["rotary"] == "interleaved") for x, numbers in ((query, asked), (key, added)))
        query, key, value = (heads_inside(x) for x in (query, key, value))
        if said["qkv"] == "packed":
            query, key, value = np.concatenate([query, key, value], 2), None, None
        blocks = tokens.total // block + 1
        past_key, past_value = (cache(x[:, :, :tokens.past], blocks * block) for x in (call.k, call.v))
        rows, columns = compressed(blocks_of(call, tokens, block, blocks, said["layouts"]))
        inputs = [("query", query), ("key", key), ("value", value), ("past_key", past_key), ("past_value", past_value),
                  ("block_row_indices", rows), ("block_col_indices", columns),
                  ("total_sequence_length", np.array(tokens.total, np.int32)),
                  ("key_total_sequence_lengths", tokens.lengths.astype(np.int32)), ("cos_cache", cos), ("sin_cache", sin)]
        return Node("SparseAttention", "com.microsoft", 17, attributes, inputs, ["output", "present_key", "present_value"],
                    call.threads or DEFAULT_THREADS, shared={"past_key": "present_key", "past_value": "present_value"},
                    ahead=tokens.ahead, **session(said, mask=("block_row_indices", "block_col_indices")))


def each_alone(call):
    """The call with each query as the last token of a sample of its own, which sees all keys of its sample."""
    (samples, _, lq, _), lk = call.q.shape, call.k.shape[2]
    if windowed(call) or call.keep is not None and (call.keep.strides[2] or call.keep.strides[0]) or (
            samples * lq * max(call.k[0].size, call.v[0].size) > _LARGEST):
        raise Unsupported("SparseAttention is unidirectional")
    made = copy(call)
    made.q = call.q.transpose(0, 2, 1, 3).reshape(samples * lq, call.q.shape[1], 1, call.q.shape[3])
    made.k, made.v = (np.repeat(x, lq, 0) for x in (call.k, call.v))
    made.kv_lengths = np.repeat(np.full(samples, lk) if call.kv_lengths is None else call.kv_lengths, lq)
    if call.keep is not None:
        made.keep = np.broadcast_to(call.keep[:1, :, :1], (samples * lq, call.keep.shape[1], 1, lk))
    made.causal, made.align = True, BOTTOM_RIGHT
    return made


def cache(past, length):
    """[B, H, length, D] that begins with these keys or values."""
    made = np.full((*past.shape[:2], length, past.shape[3]), UNUSED, past.dtype)
    made[:, :, :past.shape[2]] = past
    return made


def blocks_of(call, tokens, block, blocks, layouts):
    """bool [layouts, blocks, blocks]: the block mask, whose upper triangle is closed."""
    lq, lk = call.q.shape[2], call.k.shape[2]
    keep = None if call.keep is None else narrowed(call.keep, (0, 1, 2))
    if windowed(call):
        band = diagonal_as_keep(call, causal=False)
        keep = band if keep is None else keep & band
    heads = call.q.shape[1] if layouts == "heads" else 1
    if max(heads, 1 if keep is None else keep.shape[1]) * blocks**2 > _MOST_BLOCKS:
        raise Unsupported("a block mask of so many keys lists more blocks than memory is worth")
    made = np.tril(np.ones((heads, blocks, blocks), bool))
    if keep is None:
        return made
    refuse(len(keep) > 1, "a block mask is the same for all samples")
    if keep.shape[1] > len(made):
        made = np.repeat(made, keep.shape[1], 0)
    first, whole = tokens.past, -lk % block  # columns that fill the last block
    keep = np.broadcast_to(keep[0], (keep.shape[1], lq, lk))
    for i in range(first // block, (first + lq - 1) // block + 1):
        begin, end = max(first, i * block), min(first + lq, (i + 1) * block)
        asked = np.arange(lk) <= np.arange(begin, end)[:, None]
        here = keep[:, begin - first:end - first]
        opened, closed = (np.pad(x, ((0, 0), (0, 0), (0, whole))).reshape(len(keep), end - begin, -1, block).any((1, 3))[:, :i + 1]
                          for x in (here & asked, ~here & asked))
        refuse(np.any(opened & closed), "this mask leaves no block as a whole")
        row = made[:, i, :opened.shape[1]]
        row[...] = np.where(opened | closed, opened, row)
    return made


def compressed(made):
    """(block_row_indices, block_col_indices): each layout's rows, and the columns of its blocks with -1 behind the shorter ones."""
    counts = made.sum(2)
    rows = np.zeros((len(made), made.shape[1] + 1), np.int32)
    rows[:, 1:] = counts.cumsum(1)
    padded = np.full((len(made), max(1, counts.sum(1).max())), -1, np.int32)
    numbers = np.broadcast_to(np.arange(made.shape[2], dtype=np.int32), made.shape[1:])
    for columns, layout in zip(padded, made):
        columns[:layout.sum()] = numbers[layout]
    return rows, padded
