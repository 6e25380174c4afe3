"""A Triton kernel as a subject of attest: flash attention, forward, tile by tile with an online softmax.

    attest fuzz examples/triton_subject.py                        # on the first GPU
    TRITON_INTERPRET=1 attest fuzz examples/triton_subject.py     # by Triton's interpreter, on the host

docs/cuda.md says what happens to the tensors. Needs torch and triton (--python EXE names the interpreter that has them).
"""
import os

import attest

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:  # told as such; `pytest --attest` skips the file
    raise attest.Unsupported(f"{error}: it needs torch and triton") from None

TILE = 32  # queries, and keys, of a tile


@triton.jit(do_not_specialize=["q_b", "q_h", "q_l", "q_d", "k_b", "k_h", "k_l", "k_d", "v_b", "v_h", "v_l", "v_d", "o_b", "o_h", "o_l", "o_d",
                               "heads", "group", "queries", "keys", "width", "value_width", "tiles"])
def forward(q, k, v, out, lengths, scale,
            q_b, q_h, q_l, q_d, k_b, k_h, k_l, k_d, v_b, v_h, v_l, v_d, o_b, o_h, o_l, o_d,
            heads, group, queries, keys, width, value_width, tiles, causal, bottom_right,
            COLUMNS: tl.constexpr, TILE: tl.constexpr):
    """One tile of queries of one head. Offsets in 64 bits: strides of a large batch leave 32 behind."""
    program = tl.program_id(0)
    tile, h, b = program % tiles, program // tiles % heads, (program // tiles // heads).to(tl.int64)
    kv_head, h = (h // group).to(tl.int64), h.to(tl.int64)
    length = keys
    if lengths is not None:
        length = tl.load(lengths + b)
    rows = tile * TILE + tl.arange(0, TILE)
    columns = tl.arange(0, COLUMNS).to(tl.int64)
    lines = rows.to(tl.int64)
    in_width, in_value = columns < width, columns < value_width
    ahead = 0
    if bottom_right:
        ahead = length - queries
    diagonal = rows + ahead

    q_tile = tl.load(q + b * q_b + h * q_h + lines[:, None] * q_l + columns[None, :] * q_d,
                     mask=(rows < queries)[:, None] & in_width[None, :], other=0.0)
    top = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    values = tl.zeros([TILE, COLUMNS], tl.float32)
    last = length
    if causal:
        last = tl.minimum(length, (tile + 1) * TILE + ahead)  # tl.max(diagonal) + 1, which ptxas gets wrong (docs/findings-gpu.md)
    for first in range(0, last, TILE):
        key = first + tl.arange(0, TILE)
        line = key.to(tl.int64)
        k_tile = tl.load(k + b * k_b + kv_head * k_h + line[None, :] * k_l + columns[:, None] * k_d,
                         mask=(key < length)[None, :] & in_width[:, None], other=0.0)
        score = tl.dot(q_tile, k_tile, input_precision="ieee") * scale
        takes_part = (key[None, :] < length) & ((key[None, :] <= diagonal[:, None]) | (causal == 0))
        score = tl.where(takes_part, score, float("-inf"))
        now = tl.maximum(top, tl.max(score, 1))
        shift = tl.where(now == float("-inf"), 0.0, now)  # no key of the row so far
        weight = tl.exp(score - shift[:, None])
        kept = tl.exp(top - shift)
        total = total * kept + tl.sum(weight, 1)
        v_tile = tl.load(v + b * v_b + kv_head * v_h + line[:, None] * v_l + columns[None, :] * v_d,
                         mask=(key < length)[:, None] & in_value[None, :], other=0.0)
        values = values * kept[:, None] + tl.dot(weight.to(v_tile.dtype), v_tile, input_precision="ieee")
        top = now
    result = tl.where(total[:, None] == 0, 0.0, values / tl.where(total == 0, 1.0, total)[:, None])
    tl.store(out + b * o_b + h * o_h + lines[:, None] * o_l + columns[None, :] * o_d, result.to(out.dtype.element_ty),
             mask=(rows < queries)[:, None] & in_value[None, :])


# Products of f16 and bf16 run on tensor cores, which truncate their sums (kappa 3); those of f32 are asked for as "ieee". exp is
# 2^(x log2 e) by ex2.approx.f32, for which the PTX ISA gives a relative error of 2^-22, 2 ulp; a division may be div.full.f32, at
# most 2 ulp; Triton says nothing of subnormal numbers.
@attest.subject(device="cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda",
                dtypes=["float16", "bfloat16", "float32"],
                supports={"gqa": True, "dims": {"d": [1, 128, 1], "dv": [1, 128, 1]}},
                contract={"policy": {"f16": "f16", "bf16": "bf16", "f32": "f32"}, "kappa": {"f16": 3, "bf16": 3},
                          "empty_row": "zero", "masked_unread": "beyond_length", "batch_invariant": "bitwise",
                          "deterministic": "rerun", "exp_ulp": 4, "div_ulp": 2, "flush_to_zero": True, "fold": "none",
                          "normalise": ["after"], "sum_of": ["unrounded"], "kv_tile_min": TILE, "key_order": "ascending",
                          "splits_max": 1, "lse_merge": "none"})
def flash(q: torch.Tensor, k, v, *, scale, causal=False, align="top_left", kv_lengths=None, out):
    batch, heads, queries, width = q.shape
    kv_heads, keys, value_width = v.shape[1:]
    if kv_lengths is not None:
        kv_lengths = kv_lengths.contiguous()
    tiles = triton.cdiv(queries, TILE)
    columns = 64 if max(width, value_width) <= 64 else 128
    forward[(batch * heads * tiles,)](
        q, k, v, out, kv_lengths, scale, *q.stride(), *k.stride(), *v.stride(), *out.stride(),
        heads, heads // kv_heads, queries, keys, width, value_width, tiles, causal, align == "bottom_right",
        COLUMNS=columns, TILE=TILE)
