# torch-cuda:default fails guards, version torch 2.11.0+cu130 on NVIDIA H200
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=8 dv=8 dtype=bf16 window_left=1 keep=half keep_axes=2 mask_layout=odd_base q_layout=odd_base k_layout=broadcast_batch v_layout=padded_rows out_layout=transposed values=normal:1 q_form=short_significand seed=664825601 form.mask_type=float
import numpy as np

q = np.array([[[[-1, 0.5, 0.625, 0.078125, 0.03125, 1.25, 0.375, 0.625]]]], np.float32)  # bfloat16 values, exact in float32
k = np.broadcast_to(np.array([[[[0.400390625, 0.0400390625, -1.125, -1.2734375, -1.015625, -0.498046875, -1.5546875, -0.2373046875]]]], np.float32), (1, 1, 1, 8, ))  # bfloat16 values, exact in float32
v = np.array([[[[-0.59375, 0.23046875, 1.125, -0.09375, 1.75, 1.3671875, 0.171875, -0.83984375]]]], np.float32)  # bfloat16 values, exact in float32
keep = np.broadcast_to(np.array([[[[True]]]], np.bool_), (1, 1, 1, 1, ))
scale = 0.35355339059327373

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(keep, s, -np.inf)
s = np.where(g - j <= 1, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import torch
torch.set_default_device('cuda')
def laid(array, dtype, strides, offset):
    span = offset + 1 + sum((n - 1) * s for n, s in zip(array.shape, strides))
    t = torch.full((span,), float("nan"), dtype=dtype).as_strided(array.shape, strides, offset)
    given = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)  # an axis that is broadcast is written once
    t[given].copy_(torch.tensor(array[given]))
    return t
try:
    got = torch.nn.functional.scaled_dot_product_attention(query=laid(q, torch.bfloat16, (8, 8, 8, 1), 1), key=laid(k, torch.bfloat16, (0, 8, 8, 1), 0), value=laid(v, torch.bfloat16, (11, 11, 11, 1), 0), attn_mask=torch.tensor([[[[0.0]]]], dtype=torch.bfloat16))
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got\n', got)
