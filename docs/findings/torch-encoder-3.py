# torch:encoder-float-mask fails guards, version torch 2.15.0+cu132
# law: writes(call) = elements of out
# problem: op=mha b=1 l=1 m=1 e=8 heads=2 kv_heads=2 head_dim=4 dtype=f32 self=1 bias=shared biases=none weights=power_of_two seed=0
import numpy as np

x = np.array([[[0.7377390265464783, -0.45399731397628784, 2.840879440307617, 0.3666759133338928, 1.3625205755233765, -1.4443182945251465, 1.4520092010498047, 1.4932383298873901]]], np.float32)
w_q = np.array([[0, 0, -1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0], [-0.5, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, -0.5, 0], [0, 0, 0, 0.5, 0, 0, 0, 0], [0, -2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, -2, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]], np.float32)
w_k = np.array([[0, 0.5, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, -2], [0, 0, 0, 0, 0, 2, 0, 0], [0, 0, 0, 0.25, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0.25, 0], [0, 0, 0, 0, -2, 0, 0, 0], [0.25, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0.25, 0, 0, 0, 0, 0]], np.float32)
w_v = np.array([[0, 0, 0, 0, 1, 0, 0, 0], [-0.25, 0, 0, 0, 0, 0, 0, 0], [0, 0, -0.5, 0, 0, 0, 0, 0], [0, 0.25, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0.25, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2, 0, 0], [0, 0, 0, 0, 0, 0, 0, -1], [0, 0, 0, 0, 0, 0, 0.5, 0]], np.float32)
w_out = np.array([[0, 0, 0, 0, 0, 0, -0.25, 0], [0, -0.25, 0, 0, 0, 0, 0, 0], [0, 0, 0, 2, 0, 0, 0, 0], [0, 0, 0, 0, -0.5, 0, 0, 0], [-0.25, 0, 0, 0, 0, 0, 0, 0], [0, 0, 2, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, -0.25, 0, 0]], np.float32)
bias = np.broadcast_to(np.array([[[[0.8381692171096802]]]], np.float32), (1, 2, 1, 1, ))
scale = 0.5

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

print('expected\n', expected)

import torch
torch.set_num_threads(2)


def stack(heads, dtype):
    """Two layers of 512 features, whose blocks and feed-forward parts give 0."""
    layer = torch.nn.TransformerEncoderLayer(512, heads, 1, batch_first=True, dtype=dtype)
    made = torch.nn.TransformerEncoder(layer, 2).eval()  # enable_nested_tensor is the default
    for layer in made.layers:
        for part in (layer.self_attn, layer.linear1, layer.linear2):
            for parameter in part.parameters():
                parameter.zero_()
    return made


def fill(encoder, given, heads, up, weight):
    """The block's weights and biases as those of the first layer, whose tokens are halves() of x / up; all norms have this weight and its
    square as epsilon."""
    attention, columns = encoder.layers[0].self_attn, torch.arange(8)
    rows = (torch.arange(heads)[:, None] * (512 // heads) + torch.arange(8 // heads)).ravel()  # where each head's features lie
    for part, name in enumerate("qkv"):
        more = 8 if name == "q" else 1
        attention.in_proj_weight[part * 512 + rows[:, None], columns] = given[f"w_{name}"] * more * up
        attention.in_proj_bias[part * 512 + rows] = 0 if given[f"b_{name}"] is None else given[f"b_{name}"] * more
    for half, sign in (0, 1), (256, -1):
        attention.out_proj.weight[columns[:, None] + half, rows] = given["w_out"] * sign
        attention.out_proj.bias[columns + half] = 0 if given["b_out"] is None else given["b_out"] * sign
    for layer in encoder.layers:
        for norm in (layer.norm1, layer.norm2):
            norm.weight[:], norm.eps = weight, weight**2


def halves(x):
    """Tokens of 512 features: x, its negative 256 features behind it, and zeros."""
    made = x.new_zeros(*x.shape[:-1], 512)
    made[..., :8], made[..., 256:264] = x, -x
    return made


def encoded(encoder, x, options):
    """What the encoder gives on its fast path; of rows of padding, what it gives on the slow one."""
    torch.backends.mha.set_fastpath_enabled(True)
    y = encoder(x, **options)
    padding = options.get("src_key_padding_mask")
    if padding is not None:
        torch.backends.mha.set_fastpath_enabled(False)
        padding = padding if padding.dtype == torch.bool else padding == float("-inf")
        y = torch.where(padding[..., None], encoder(x, **options), y)
    return y


given = {"x": torch.tensor(x, dtype=torch.float32), "w_q": torch.tensor(w_q, dtype=torch.float32), "w_k": torch.tensor(w_k, dtype=torch.float32), "w_v": torch.tensor(w_v, dtype=torch.float32), "w_out": torch.tensor(w_out, dtype=torch.float32), "b_q": None, "b_k": None, "b_v": None, "b_out": None}
with torch.no_grad():
    encoder = stack(2, torch.float32)
    fill(encoder, given, 2, 2.0**50, 2.0**40)
    x = halves(given["x"] * 2.0**-50)
    try:
        got = encoded(encoder, x, dict(src_key_padding_mask=torch.tensor([[0.8381692171096802]], dtype=torch.float32)))[..., :8]
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        raise SystemExit(f"refused: {error}")
    x = x[..., :8]
    got = torch.where((got == x) & (x != 0), torch.zeros_like(got), got)
got = got.double().numpy()
print('got\n', got)
