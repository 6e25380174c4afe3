# torch:encoder-block fails policy-bound, version torch 2.15.0+cu132
# law: out lies in [lo, hi] of docs/mha.md
# seen: out[0,0,0,0] = nan, expected 0 (nothing else is permitted)
# problem: op=mha b=1 l=1 m=1 e=2 heads=2 kv_heads=2 head_dim=1 dtype=f32 self=1 bias=shared biases=none weights=one_hot seed=0 edits=x[0,0,0]:0x0p+0;x[0,0,1]:0x0p+0;w_q[0,0]:0x0p+0;w_k[1,0]:0x0p+0;w_v[1,0]:0x0p+0;w_out[0,0]:0x0p+0;w_out[1,1]:0x0p+0
import numpy as np

x = np.array([[[0, 0]]], np.float32)
w_q = np.array([[0, 0], [0, 1]], np.float32)
w_k = np.array([[0, 1], [0, 0]], np.float32)
w_v = np.array([[0, 1], [0, 0]], np.float32)
w_out = np.array([[0, 0], [0, 0]], np.float32)
bias = np.broadcast_to(np.array([[[[0.8381692171096802]]]], np.float32), (1, 2, 1, 1, ))
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
s = s + bias.astype(np.float64)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    heads = w @ V
heads = stored(heads.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))
expected = heads @ wide(w_out).T

at = (0, 0, 0)
print('expected', expected[at])

import torch
torch.set_num_threads(2)
def laid(array, dtype, strides, offset):
    span = offset + 1 + sum((n - 1) * s for n, s in zip(array.shape, strides))
    t = torch.full((span,), float("nan"), dtype=dtype).as_strided(array.shape, strides, offset)
    given = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)  # an axis that is broadcast is written once
    t[given].copy_(torch.tensor(array[given]))
    return t


def layer(width, heads, dtype):
    """A layer with features of its own beside those of the width, in norm_first, whose feed-forward part gives 0."""
    made = torch.nn.TransformerEncoderLayer(4 * width, heads, 1, batch_first=True, norm_first=True, dtype=dtype).eval()
    for parameter in (*made.self_attn.parameters(), *made.linear1.parameters(), *made.linear2.parameters()):
        parameter.zero_()
    return made


def fill(layer, given, heads, weight, epsilon):
    """The block's weights and biases as those of a layer that gets paired() tokens; norm1 has this weight, both norms this epsilon."""
    width = given["x"].shape[2]
    d = width // heads
    rows = (torch.arange(heads)[:, None] * 4 * d + torch.arange(d)).ravel()  # where each head's features lie
    columns = 2 * torch.arange(width)  # where those of x and of the result lie
    attention = layer.self_attn
    for part, name in enumerate("qkv"):
        twice = 2 if name == "q" else 1
        attention.in_proj_weight[part * 4 * width + rows[:, None], columns] = given[f"w_{name}"] * twice
        attention.in_proj_bias[part * 4 * width + rows] = 0 if given[f"b_{name}"] is None else given[f"b_{name}"] * twice
    attention.out_proj.weight[columns[:, None], rows] = given["w_out"]
    attention.out_proj.bias[columns] = 0 if given["b_out"] is None else given["b_out"]
    layer.norm1.weight[:], layer.norm1.eps, layer.norm2.eps = weight, epsilon, epsilon


def paired(x):
    """Tokens of four times as many features: each one and its negative, and zeros."""
    return torch.nn.functional.pad(torch.stack([x, -x], -1).flatten(2), (0, 2 * x.shape[2]))


given = {"x": torch.tensor(x, dtype=torch.float32), "w_q": torch.tensor(w_q, dtype=torch.float32), "w_k": torch.tensor(w_k, dtype=torch.float32), "w_v": torch.tensor(w_v, dtype=torch.float32), "w_out": torch.tensor(w_out, dtype=torch.float32), "b_q": None, "b_k": None, "b_v": None, "b_out": None}
with torch.no_grad():
    encoder = layer(2, 2, torch.float32)
    fill(encoder, given, 2, 2.0**30, 4.0**-20)
    x = paired(given["x"] * 2.0**-50)
    try:
        got = encoder(x, src_mask=laid(bias, torch.float32, (0, 0, 1, 1), 0)[0, 0, :, :])[..., :4:2]
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        raise SystemExit(f"refused: {error}")
    x = x[..., :4:2]
    got = torch.where((got == x) & (x != 0), torch.zeros_like(got), got)
got = got.double().numpy()
print('got     ', got[at])
