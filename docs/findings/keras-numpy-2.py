# keras:numpy-LayerNormalization-as-written fails policy-bound, version keras 3.15.1, numpy 2.4.6
# law: out and sum_out lie in [lo, hi] of docs/layer-norm.md
# seen: out[0,0,0,0] = nan, expected -0.9999629259109497, permitted -1.2763189976082765 .. -0.7231544223082379 (nothing else is permitted)
# problem: op=layer_norm rows=1 hidden=2 dtype=f32 gamma=none beta=none values=normal offset=0x1p+17 seed=0
import numpy as np

x = np.array([[131072.28125, 131073.015625]], np.float32)
epsilon = 1e-05

# what LayerNorm means, in float64
t = x.astype(np.float64)
t = t - t.mean(-1, keepdims=True)
with np.errstate(all='ignore'):
    expected = t / np.sqrt((t * t).mean(-1, keepdims=True) + epsilon)

at = (0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-1.2763189976082765, -0.7231544223082379]')

import os
os.environ["KERAS_BACKEND"] = "numpy"
import keras
x, gamma, beta = keras.ops.convert_to_tensor(x, "float32"), None, None
try:
    layer = keras.layers.LayerNormalization(epsilon=epsilon, center=False, scale=False, dtype='float32')
    layer.build((None, 2))
    got = layer(x)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = np.asarray(keras.ops.convert_to_numpy(got), np.float64)
print('got     ', got[at])
