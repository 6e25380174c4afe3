# torch-cuda:cudnn fails guards, version torch 2.11.0+cu130 on NVIDIA H200
# law: writes(call) = elements of out and lse
# it failed in 10 of 20 runs: one run of this script may not show it
# problem: op=attention b=1 hq=1 hkv=1 lq=4 lk=4 d=16 dv=8 dtype=f16 scale=-0x1p-2 keep=suffix mask_layout=bshd lengths=ragged q_layout=broadcast_rows k_layout=odd_base v_layout=bshd out_layout=padded_rows threads=1 values=duplicated:1 v_form=zero seed=3143840798
import numpy as np

q = np.broadcast_to(np.array([[[[0.388916015625, 0.931640625, 1.701171875, 1.3994140625, -0.62939453125, 1.0615234375, -2.533203125, 0.149169921875, -0.050018310546875, -0.239013671875, -0.51220703125, 1.9931640625, 0.8955078125, 0.0156402587890625, -0.021331787109375, -1.455078125]]]], np.float16), (1, 1, 4, 16, ))
k = np.array([[[[-1.0673828125, 1.1640625, -1.146484375, -0.403564453125, -1.439453125, 0.06109619140625, -1.5830078125, -0.324462890625, -1.2841796875, 0.10479736328125, -0.9560546875, 0.6650390625, -1.076171875, -0.98388671875, -1.416015625, -0.31103515625], [-1.0673828125, 1.1640625, -1.146484375, -0.403564453125, -1.439453125, 0.06109619140625, -1.5830078125, -0.324462890625, -1.2841796875, 0.10479736328125, -0.9560546875, 0.6650390625, -1.076171875, -0.98388671875, -1.416015625, -0.31103515625], [0.87451171875, 0.6923828125, 0.0300750732421875, -1.28515625, 0.50048828125, -0.007663726806640625, -0.95556640625, 0.11187744140625, 0.509765625, 0.486083984375, -1.22265625, 0.497802734375, 0.73388671875, 0.62744140625, -0.50927734375, -0.285888671875], [0.87451171875, 0.6923828125, 0.0300750732421875, -1.28515625, 0.50048828125, -0.007663726806640625, -0.95556640625, 0.11187744140625, 0.509765625, 0.486083984375, -1.22265625, 0.497802734375, 0.73388671875, 0.62744140625, -0.50927734375, -0.285888671875]]]], np.float16)
v = np.array([[[[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]]]], np.float16)
keep = np.array([[[[False, True, True, True], [True, True, True, True], [False, False, False, True], [True, True, True, True]]]], np.bool_)
kv_lengths = np.array([2], np.int32)
scale = -0.25

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)
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
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        got = torch.nn.functional.scaled_dot_product_attention(query=laid(q, torch.float16, (16, 16, 0, 1), 0), key=laid(k, torch.float16, (64, 64, 16, 1), 1), value=laid(v, torch.float16, (32, 8, 8, 1), 0), attn_mask=torch.tensor([[[[False, True, False, False], [True, True, False, False], [False, False, False, False], [True, True, False, False]]]], dtype=torch.bool), scale=-0.25)
    torch.cuda.synchronize()
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().cpu().numpy()
print('got\n', got)
