# torch.nn.functional.scaled_dot_product_attention, memory-efficient backend: one query, 65 heads whose keys and values are expanded from
# one head (multi-query attention, decoding). No mask, no flag. Compared with the math backend on the same tensors.
# Seen with torch 2.11.0+cu130 on an NVIDIA H100: 64 heads differ by 1e-6 in float32, 65 by 2.65.
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.set_default_device("cuda")
torch.manual_seed(0)
for heads in 64, 65:
    q = torch.randn(2, heads, 1, 64)
    k, v = (torch.randn(2, 1, 9, 64).expand(2, heads, 9, 64) for _ in range(2))
    out = {}
    for backend in SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION:
        with sdpa_kernel(backend):
            out[backend] = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    print(heads, "heads: largest difference", (out[SDPBackend.EFFICIENT_ATTENTION] - out[SDPBackend.MATH]).abs().max().item())
