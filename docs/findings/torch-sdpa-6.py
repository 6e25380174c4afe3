# torch:sdpa fails policy-bound, version torch 2.15.0+cu132
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0, expected nan, permitted nan .. nan (nothing else is permitted); a NaN in q or k was lost
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0 edit=q[0,0,0,0]:nan
import numpy as np
from numpy import inf, nan

q = np.array([[[[nan]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[0]]]], np.float32)
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
print('a kernel that keeps the policy f32 returns something in [nan, nan]')

import torch
torch.set_num_threads(2)
try:
    got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float32), key=torch.tensor(k, dtype=torch.float32), value=torch.tensor(v, dtype=torch.float32))
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().numpy()
print('got     ', got[at])
