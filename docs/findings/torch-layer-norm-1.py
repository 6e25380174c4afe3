# torch:layer_norm fails policy-bound, version torch 2.15.0+cu132
# law: out and sum_out lie in [lo, hi] of docs/layer-norm.md
# seen: out[0,0,0,0] = nan, expected 0, permitted -2.908517030742522e+30 .. 2.908517030742522e+30 (nothing else is permitted)
# problem: op=layer_norm rows=1 hidden=1 dtype=f32 epsilon=0x1p+0 gamma=none beta=none values=huge seed=0
import numpy as np

x = np.array([[6.099598127063879e+36]], np.float32)
epsilon = 1

# what LayerNorm means, in float64
t = x.astype(np.float64)
t = t - t.mean(-1, keepdims=True)
with np.errstate(all='ignore'):
    expected = t / np.sqrt((t * t).mean(-1, keepdims=True) + epsilon)

at = (0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-2.908517030742522e+30, 2.908517030742522e+30]')

import torch
torch.set_num_threads(2)
try:
    got = torch.nn.functional.layer_norm(torch.tensor(x, dtype=torch.float32), (1,), eps=epsilon)
except (IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
got = got.double().numpy()
print('got     ', got[at])
