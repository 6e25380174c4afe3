# torch-cuda:cudnn fails single-key, version torch 2.11.0+cu130 on NVIDIA H200
# law: one open key j  =>  out = v_j
# this law judges further calls that it derives from the problem; what follows is the problem itself
# seen: out[0,0,0,0] = nan, expected 0 (nothing else is permitted); key 0 is the only one open in this row
# problem: op=attention b=1 hq=1 hkv=1 lq=2 lk=2 d=8 dv=8 dtype=f16 causal=1 q_layout=slice values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16)
k = np.array([[[[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16)
v = np.array([[[[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16)
scale = 0.35355339059327373

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])

import torch
torch.set_default_device('cuda')
def laid(array, dtype, strides, offset):
    span = offset + 1 + sum((n - 1) * s for n, s in zip(array.shape, strides))
    t = torch.full((span,), float("nan"), dtype=dtype).as_strided(array.shape, strides, offset)
    given = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)  # an axis that is broadcast is written once
    t[given].copy_(torch.tensor(array[given]))
    return t
try:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        got = torch.nn.functional.scaled_dot_product_attention(query=laid(q, torch.float16, (27, 27, 9, 1), 10), key=torch.tensor(k, dtype=torch.float16), value=torch.tensor(v, dtype=torch.float16), is_causal=True)
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got     ', got[at])
