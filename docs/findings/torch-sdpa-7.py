# torch:flash fails result-class, version torch 2.15.0+cu132
# law: isfinite(out) wherever every conforming result is finite
# seen: out[0,0,0,0] = inf, expected 1.7014118346046923e+38, permitted 1.7014104148353506e+38 .. 1.701413254374034e+38 (nothing else is permitted)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 values=huge:1 q_form=zero k_form=zero v_form=power_of_two seed=0 b0=1
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0], [0]]]], np.float32)
v = np.array([[[[1.7014118346046923e+38], [1.7014118346046923e+38]]]], np.float32)
scale = 1

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
print('a kernel that keeps the policy f32 returns something in [1.7014104148353506e+38, 1.701413254374034e+38]')

import torch
torch.set_num_threads(1)
try:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float32), key=torch.tensor(k, dtype=torch.float32), value=torch.tensor(v, dtype=torch.float32))
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().numpy()
print('got     ', got[at])
