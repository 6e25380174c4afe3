# torch:mha fails guards, version torch 2.15.0+cu132
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=2 hkv=2 lq=1 lk=1 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero seed=0 form.input=jagged
import numpy as np

q = np.array([[[[0]], [[0]]]], np.float32)
k = np.array([[[[0]], [[0]]]], np.float32)
v = np.array([[[[1]], [[1]]]], np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import torch
torch.set_num_threads(2)
mha = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float32).eval()
x = torch.cat([torch.tensor(q, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2), torch.tensor(k, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2), torch.tensor(v, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 2),
               torch.zeros(1, 1, 2, dtype=torch.float32)], 2)
x = torch.nested.as_nested_tensor(list(x), layout=torch.jagged)
inputs = x, x, x  # the same tensor: the fast path
rows = (torch.arange(2)[:, None] * 4 + torch.arange(1)).ravel()
features = torch.arange(2)
with torch.no_grad():  # projections that pass the heads through
    for p in mha.parameters():
        p.zero_()
    w_q, w_k, w_v = mha.in_proj_weight.chunk(3)
    w_q[rows, features] = 2
    w_k[rows, features + 2] = w_v[rows, features + 4] = 1
    mha.out_proj.weight[features, rows] = 1
    try:
        got = torch.stack(mha(*inputs, need_weights=False)[0].unbind())
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        raise SystemExit(f"refused: {error}")
got = got[:, :, :2].reshape(1, 1, 2, 1).transpose(1, 2).double().numpy()
print('got\n', got)
