# torch:block-causal-alone fails policy-bound, version torch 2.15.0+cu132
# law: out lies in [lo, hi] of docs/mha.md
# seen: out[0,0,0,0] = -0.07614194601774216, expected 0, permitted -9.80908925027372e-45 .. 9.80908925027372e-45 (7.76e+42 x the permitted distance)
# problem: op=mha b=1 l=2 m=2 e=2 heads=2 kv_heads=2 head_dim=1 dtype=f32 self=1 causal=1 biases=none weights=one_hot seed=0 edits=x[0,0,0]:0x0p+0;x[0,0,1]:0x0p+0;x[0,1,0]:0x0p+0;w_q[0,0]:0x0p+0;w_k[1,0]:0x0p+0;w_v[1,0]:0x0p+0;w_out[1,1]:0x0p+0
import numpy as np

x = np.array([[[0, 0], [0, 0.15228389203548431]]], np.float32)
w_q = np.array([[0, 0], [0, 1]], np.float32)
w_k = np.array([[0, 1], [0, 0]], np.float32)
w_v = np.array([[0, 1], [0, 0]], np.float32)
w_out = np.array([[-1, 0], [0, 0]], np.float32)
scale = 1

# what an attention block means, in float64, rounded where its contract rounds
def wide(t):
    return t.astype(np.float64)

def stored(t):  # as it is stored between two products
    with np.errstate(over='ignore'):
        return wide(t.astype(np.float32))

def split(t, heads):  # [b,tokens,width] as [b,heads,tokens,head_dim]
    return t.reshape(*t.shape[:2], heads, -1).transpose(0, 2, 1, 3)

q = split(stored(wide(x) @ wide(w_q).T), 2)
k = split(stored(wide(x) @ wide(w_k).T), 2)
v = split(stored(wide(x) @ wide(w_v).T), 2)
K, V = (np.repeat(t, 1, axis=1) for t in (k, v))
s = scale * (q @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    heads = w @ V
heads = stored(heads.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))
expected = heads @ wide(w_out).T

at = (0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-9.80908925027372e-45, 9.80908925027372e-45]')

import torch
torch.set_num_threads(2)
mha = torch.nn.MultiheadAttention(2, 2, bias=True, add_bias_kv=False, batch_first=True, dtype=torch.float32).eval()
mha.out_proj.weight = torch.nn.Parameter(torch.tensor(w_out, dtype=torch.float32), requires_grad=False)
mha.in_proj_weight = torch.nn.Parameter(torch.cat([torch.tensor(w_q, dtype=torch.float32), torch.tensor(w_k, dtype=torch.float32), torch.tensor(w_v, dtype=torch.float32)]), requires_grad=False)
mha.in_proj_bias = torch.nn.Parameter(torch.zeros(6, dtype=torch.float32), requires_grad=False)
mha.out_proj.bias = torch.nn.Parameter(torch.zeros(2, dtype=torch.float32), requires_grad=False)
x = torch.tensor(x, dtype=torch.float32)
memory = x
inputs = x, memory, memory
try:
    with torch.no_grad():
        got = mha(*inputs, need_weights=False, is_causal=True)[0]
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().numpy()
print('got     ', got[at])
