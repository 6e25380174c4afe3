# torch-cuda:default fails guards, version torch 2.11.0+cu130 on NVIDIA H200
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=8 dv=8 dtype=f16 scale=0x0p+0 causal=1 keep=suffix keep_axes=13 q_layout=bshd k_layout=transposed v_layout=slice threads=1 values=normal:0.125 seed=1882488905 form.causal=mask form.mask_type=float
import numpy as np

q = np.array([[[[-0.007389068603515625, 0.1766357421875, -0.01168060302734375, 0.0904541015625, 0.214111328125, 0.242431640625, -0.003376007080078125, -0.045440673828125]]]], np.float16)
k = np.array([[[[-0.1104736328125, -0.0009446144104003906, -0.141845703125, 0.19189453125, -0.08941650390625, 0.08837890625, -0.00890350341796875, 0.04693603515625]]]], np.float16)
v = np.array([[[[-0.0462646484375, -0.043487548828125, 0.0140838623046875, 0.2071533203125, 0.00125885009765625, -0.0034885406494140625, -0.1461181640625, -0.039154052734375]]]], np.float16)
keep = np.broadcast_to(np.array([[[[True]]]], np.bool_), (1, 1, 1, 1, ))
scale = 0

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(keep, s, -np.inf)
s = np.where(j <= g, s, -np.inf)
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
    got = torch.nn.functional.scaled_dot_product_attention(query=torch.tensor(q, dtype=torch.float16), key=laid(k, torch.float16, (8, 8, 1, 1), 0), value=laid(v, torch.float16, (18, 18, 9, 1), 10), attn_mask=torch.tensor([[[[0.0]]]], dtype=torch.float16), scale=0.0)
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got\n', got)
