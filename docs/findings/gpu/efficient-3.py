# torch-cuda:efficient fails single-key, version torch 2.11.0+cu130 on NVIDIA H200
# law: one open key j  =>  out = v_j
# this law judges further calls that it derives from the problem; what follows is the problem itself
# seen: out[0,0,0,3] = -0.2769230604171753, expected -0.2769230306148529 (nothing else is permitted); key 0 is the only one open in this row
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=4 dv=4 dtype=f32 values=normal:1 q_form=zero k_form=zero seed=0 edit=v[0,0,0,0]:0x0p+0;v[0,0,0,1]:0x0p+0;v[0,0,0,2]:0x0p+0
import numpy as np

q = np.array([[[[0, 0, 0, 0]]]], np.float32)
k = np.array([[[[0, 0, 0, 0]]]], np.float32)
v = np.array([[[[0, 0, 0, -0.2769230306148529]]]], np.float32)
scale = 0.5

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 3)
print('expected', expected[at])

import torch
torch.set_default_device('cuda')
try:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float32), key=torch.tensor(k, dtype=torch.float32), value=torch.tensor(v, dtype=torch.float32))
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got     ', got[at])
