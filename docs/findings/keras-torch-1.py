# keras:torch fails guards, version keras 3.15.1, torch 2.15.0+cu132
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 causal=1 bias=zero values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[0]]]], np.float32)
bias = np.array([[[[0]]]], np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = s + bias.astype(np.float64)
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
try:
    got = np.asarray(keras.ops.convert_to_numpy(keras.ops.dot_product_attention(query=keras.ops.convert_to_tensor(q.transpose(0, 2, 1, 3), "float32"), key=keras.ops.convert_to_tensor(k.transpose(0, 2, 1, 3), "float32"), value=keras.ops.convert_to_tensor(v.transpose(0, 2, 1, 3), "float32"), bias=keras.ops.convert_to_tensor(bias[:, :, :, :], "float32"), is_causal=True)), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got\n', got)
