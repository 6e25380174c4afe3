# torch.matmul, bfloat16, CPU with AMX: a row of NaN in the first matrix makes the row before it NaN, where K is above 32 and no multiple of 32.
# Explicit attention meets it as soon as one query sees no key: its weights are NaN, and so becomes the output of the query before it.
# Seen with torch 2.11.0+cu130 (oneDNN 3.10.2) on an Intel Xeon with amx_bf16.
import os
import subprocess
import sys

import torch

if "ONEDNN_MAX_CPU_ISA" not in os.environ:
    flags = open("/proc/cpuinfo").read()
    print("torch", torch.__version__, "with" if "amx_bf16" in flags else "WITHOUT", "amx_bf16", flush=True)
for keys in 32, 33, 64, 65:
    scores = torch.zeros(17, keys, dtype=torch.bfloat16)
    scores[8] = -torch.inf  # the mask leaves no key to query 8
    out = torch.softmax(scores, -1) @ torch.ones(keys, 16, dtype=torch.bfloat16)
    print(keys, "keys: NaN in rows", out.isnan().any(1).nonzero().flatten().tolist(), "where 8 alone is right", flush=True)
if "ONEDNN_MAX_CPU_ISA" not in os.environ:
    print("the same with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16", flush=True)
    subprocess.run([sys.executable, __file__], env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}, check=True)
