# torch-cuda:efficient fails policy-bound, version torch 2.11.0+cu130 on NVIDIA H100 80GB HBM3
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,1] = -1.5, expected 0, permitted -0.001163975434391331 .. 0.001163975434391331 (1.29e+03 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=8 dv=8 dtype=f16 causal=1 k_layout=broadcast_heads v_layout=broadcast_heads values=integers:1 q_form=zero k_form=zero seed=0
import numpy as np

q = np.array([[[[0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16)
k = np.broadcast_to(np.array([[[[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16), (1, 1, 2, 8, ))
v = np.broadcast_to(np.array([[[[3, 0, 4, 2, -2, 4, 1, -1], [3, -3, -4, 3, 0, -3, -2, 2]]]], np.float16), (1, 1, 2, 8, ))
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

at = (0, 0, 0, 1)
print('expected', expected[at])
print('a kernel that keeps the policy f16-all returns something in [-0.001163975434391331, 0.001163975434391331]')

import torch
torch.set_default_device('cuda')
def laid(array, dtype, strides, offset):
    span = offset + 1 + sum((n - 1) * s for n, s in zip(array.shape, strides))
    t = torch.full((span,), float("nan"), dtype=dtype).as_strided(array.shape, strides, offset)
    given = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)  # an axis that is broadcast is written once
    t[given].copy_(torch.tensor(array[given]))
    return t
try:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float16), key=laid(k, torch.float16, (16, 0, 8, 1), 0), value=laid(v, torch.float16, (16, 0, 8, 1), 0), is_causal=True)
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got     ', got[at])
