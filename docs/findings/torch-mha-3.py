# torch:mha fails policy-bound, version torch 2.15.0+cu132
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0, expected 0.5, permitted 0.49999526387941035 .. 0.5000047361205897 (1.06e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 causal=1 align=bottom_right values=constant:1 q_form=zero k_form=zero seed=0 form.last_key=bias_kv edit=v[0,0,0,0]:0x0p+0
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0], [0]]]], np.float32)
v = np.array([[[[0], [1]]]], np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i + k.shape[2] - q.shape[2]
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [0.49999526387941035, 0.5000047361205897]')

import torch
torch.set_num_threads(2)
mha = torch.nn.MultiheadAttention(1, 1, add_bias_kv=True, batch_first=True, dtype=torch.float32).eval()
inputs = torch.tensor(q, dtype=torch.float32).transpose(1, 2).reshape(1, -1, 1), torch.tensor(k, dtype=torch.float32)[:, :, :-1].transpose(1, 2).reshape(1, -1, 1), torch.tensor(v, dtype=torch.float32)[:, :, :-1].transpose(1, 2).reshape(1, -1, 1)
with torch.no_grad():  # projections that pass the heads through
    for p in mha.parameters():
        p.zero_()
    w_q, w_k, w_v = mha.in_proj_weight.chunk(3)
    for w in (w_q, w_k, w_v, mha.out_proj.weight):
        w.copy_(torch.eye(1))
    mha.bias_k.copy_(torch.tensor([0.0], dtype=torch.float32))
    mha.bias_v.copy_(torch.tensor([1.0], dtype=torch.float32))
    try:
        got = mha(*inputs, need_weights=False, attn_mask=torch.tensor([[False]], dtype=torch.bool), is_causal=True)[0]
    except (IndexError, RuntimeError, ValueError) as error:
        raise SystemExit(f"refused: {error}")
got = got[:, :, :1].reshape(1, 1, 1, 1).transpose(1, 2).double().numpy()
print('got     ', got[at])
