# torch-cuda:default fails result-class, version torch 2.11.0+cu130 on NVIDIA H200
# law: isfinite(out) wherever every conforming result is finite
# seen: out[0,0,0,0] = nan, expected 0, permitted -0.0011633758237332846 .. 0.0011633758237332846 (nothing else is permitted)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 scale=-0x1p+0 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0]]]], np.float16)
k = np.array([[[[0]]]], np.float16)
v = np.array([[[[0]]]], np.float16)
scale = -1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f16-all returns something in [-0.0011633758237332846, 0.0011633758237332846]')

import torch
torch.set_default_device('cuda')
try:
    got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float16), key=torch.tensor(k, dtype=torch.float16), value=torch.tensor(v, dtype=torch.float16), scale=-1.0)
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got     ', got[at])
