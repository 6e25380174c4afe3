# torch:sdpa fails policy-bound, version torch 2.15.0+cu132
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0, expected 1, permitted 0.9936285832218869 .. 1.0063714167781133 (157 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=16 d=1 dv=1 dtype=f16 scale=-0x1p+0 causal=1 values=constant:1 q_form=zero k_form=zero seed=0
import numpy as np

q = np.array([[[[0]]]], np.float16)
k = np.array([[[[0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0], [0]]]], np.float16)
v = np.array([[[[1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1], [1]]]], np.float16)
scale = -1

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
print('a kernel that keeps the policy f16-all returns something in [0.9936285832218869, 1.0063714167781133]')

import torch
torch.set_num_threads(2)
try:
    got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float16), key=torch.tensor(k, dtype=torch.float16), value=torch.tensor(v, dtype=torch.float16), is_causal=True, scale=-1.0)
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().numpy()
print('got     ', got[at])
