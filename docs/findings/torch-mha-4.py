# torch:mha fails guards, version torch 2.15.0+cu132
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=2 hkv=2 lq=1 lk=0 d=1 dv=1 dtype=f32 lengths=full values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0]], [[0]]]], np.float32)
k = np.zeros((1, 2, 0, 1,), np.float32)
v = np.zeros((1, 2, 0, 1,), np.float32)
kv_lengths = np.array([0], np.int32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import torch
torch.set_num_threads(2)
mha = torch.nn.MultiheadAttention(2, 2, batch_first=True, dtype=torch.float32).eval()
inputs = torch.tensor(q, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2), torch.tensor(k, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2), torch.tensor(v, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2)
with torch.no_grad():  # projections that pass the heads through
    for p in mha.parameters():
        p.zero_()
    w_q, w_k, w_v = mha.in_proj_weight.chunk(3)
    for w in (w_q, w_k, w_v, mha.out_proj.weight):
        w.copy_(torch.eye(2))
    try:
        got = mha(*inputs, need_weights=False, key_padding_mask=torch.zeros((1, 0), dtype=torch.bool))[0]
    except (IndexError, RuntimeError, ValueError) as error:
        raise SystemExit(f"refused: {error}")
got = got[:, :, :2].reshape(1, 1, 2, 1).transpose(1, 2).double().numpy()
print('got\n', got)
