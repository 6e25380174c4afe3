# torch-cuda:default fails guards, version torch 2.11.0+cu130 on NVIDIA H200
# law: writes(call) = elements of out and lse
# problem: op=attention b=2 hq=1 hkv=1 lq=1 lk=1 d=8 dv=8 dtype=f32 keep=dense keep_axes=14 mask_layout=transposed q_layout=padded_rows k_layout=padded_rows v_layout=bshd out_layout=odd_base values=uniform:1 seed=18862308 form.causal=mask form.mask_type=float
import numpy as np

q = np.array([[[[-0.9755859375, 0.8759765625, -0.162109375, -0.03515625, 0.990234375, -0.935546875, 0.419921875, -0.3740234375]]], [[[-0.150390625, -0.3994140625, 0.28515625, -0.1083984375, -0.345703125, -0.859375, -0.0634765625, 0.646484375]]]], np.float32)
k = np.array([[[[0.0078125, 0.8095703125, -0.3701171875, -0.890625, 0.80859375, 0.9716796875, 0.951171875, 0.466796875]]], [[[0.9052734375, 0.1123046875, -0.30078125, 0.208984375, 0.5830078125, -0.654296875, -0.00390625, 0.748046875]]]], np.float32)
v = np.array([[[[-0.642578125, 0.5556640625, -0.4970703125, -0.728515625, -0.0712890625, 0.9404296875, 0.1376953125, -0.853515625]]], [[[-0.5810546875, 0.0263671875, 0.54296875, 0.8564453125, -0.8779296875, -0.1513671875, 0.7685546875, -0.2353515625]]]], np.float32)
keep = np.broadcast_to(np.array([[[[True]]]], np.bool_), (2, 1, 1, 1, ))
scale = 0.35355339059327373

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = np.where(keep, s, -np.inf)
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
    got = torch.nn.functional.scaled_dot_product_attention(query=laid(q, torch.float32, (11, 11, 11, 1), 0), key=laid(k, torch.float32, (11, 11, 11, 1), 0), value=torch.tensor(v, dtype=torch.float32), attn_mask=torch.tensor([[[[0.0]]], [[[0.0]]]], dtype=torch.float32))
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got\n', got)
