# torch:nested fails guards, version torch 2.15.0+cu132
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 causal=1 values=constant:1 q_form=zero k_form=zero seed=0
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[1]]]], np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import torch
torch.set_num_threads(2)
from torch.nn.functional import scaled_dot_product_attention


def nested(t, rows, made):
    """The rows (sample, positions) of t [B, H, L, D] as a nested tensor [len(rows), H, positions, D]: made of a list, of values
    and offsets, as a view of the padded tensor where the rows are its samples and begin at position 0, or in the strided
    layout."""
    parts = [t[sample][:, positions].transpose(0, 1) for sample, positions in rows]
    lengths = [len(positions) for _, positions in rows]
    padded = [sample for sample, _ in rows] == list(range(len(t))) and all(p == list(range(len(p))) for _, p in rows)
    if made == "strided":
        return torch.nested.as_nested_tensor([part.transpose(0, 1) for part in parts], layout=torch.strided)
    if made == "narrow" and padded:
        x = torch.nested.narrow(t.transpose(1, 2).contiguous(), 1, 0, torch.tensor(lengths), layout=torch.jagged).contiguous()
    elif made == "values":
        x = torch.nested.nested_tensor_from_jagged(torch.cat(parts), torch.tensor([0, *lengths]).cumsum(0))
    else:
        x = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    return x.transpose(1, 2)


def attention(q, k, v, rows, made, **options):
    """The output [H, queries, Dv] of each row (sample, its queries from and to, its keys)."""
    queries = nested(q, [(sample, list(range(*span))) for sample, span, _ in rows], made)
    keys, values = (nested(t, [(sample, keys) for sample, _, keys in rows], made) for t in (k, v))
    return scaled_dot_product_attention(queries, keys, values, **options).unbind()


rows = [(0, (0, 1), [0])]  # (sample, its queries from and to, its keys)
try:
    parts = attention(torch.tensor(q, dtype=torch.float32), torch.tensor(k, dtype=torch.float32), torch.tensor(v, dtype=torch.float32), rows, 'list', is_causal=True)
except (AssertionError, IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = torch.empty((1, 1, 1, 1), dtype=torch.float64)
for (sample, (first, last), _), part in zip(rows, parts):
    got[sample, :, first:last] = part
got = got.numpy()
print('got\n', got)
