# Triton on an NVIDIA GPU: tl.max of an integer tensor, inside an `if` on an argument of the kernel, is not the maximum, at ptxas' default
# optimisation. Each row of `counted` must be the number of the keys up to its own: 1, 2, 3, ... . PTX is right (redux.sync.max.s32 in the
# branch); in the machine code REDUX stands under the predicate of another condition, that of the rows beyond the last.
# Seen with Triton 3.6.0 (ptxas 12.8.93 and 12.9.86, and 13.0.88 by TRITON_PTXAS_PATH) on an NVIDIA H100 and an H200.
import os
import subprocess
import sys

import torch
import triton
import triton.language as tl

T = 32  # rows, and keys, of a tile


@triton.jit(do_not_specialize=["keys", "queries", "tiles"])
def count(ones, counted, keys, queries, tiles, causal, bottom_right, T: tl.constexpr):
    rows = tl.program_id(0) % tiles * T + tl.arange(0, T)
    diagonal = rows
    if bottom_right:
        diagonal = rows + keys - queries
    last = keys
    if causal:
        last = tl.minimum(keys, tl.max(diagonal) + 1)
    sums = tl.zeros([T, T], tl.float32)
    for first in range(0, last, T):
        key = first + tl.arange(0, T)
        value = tl.load(ones + key[:, None] + tl.zeros([1, T], tl.int32), mask=(key < keys)[:, None], other=0.0)
        sees = (key[None, :] <= diagonal[:, None]) | (causal == 0)
        sums += tl.dot(tl.where(sees, 1.0, 0.0).to(tl.float16), value)
    tl.store(counted + rows, tl.max(sums, 1))


if "DISABLE_PTXAS_OPT" not in os.environ:
    print("torch", torch.__version__, "triton", triton.__version__, torch.cuda.get_device_name(), flush=True)
tiles = 4
ones = torch.ones(tiles * T, dtype=torch.float16, device="cuda")
for warps in 1, 2, 4, 8:
    counted = torch.zeros(tiles * T, device="cuda")
    count[(tiles,)](ones, counted, tiles * T, tiles * T, tiles, True, False, T=T, num_warps=warps)
    wrong = (counted.cpu() != torch.arange(1, tiles * T + 1)).nonzero().flatten().tolist()
    print(f"{warps} warps: {len(wrong)} of {tiles * T} rows are wrong"
          + (f", first row {wrong[0]}: {counted[wrong[0]].item():g} keys in place of {wrong[0] + 1}" if wrong else ""), flush=True)
if "DISABLE_PTXAS_OPT" not in os.environ:
    print("the same with DISABLE_PTXAS_OPT=1", flush=True)
    subprocess.run([sys.executable, __file__], env=os.environ | {"DISABLE_PTXAS_OPT": "1"}, check=True)
