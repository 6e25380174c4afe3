# keras:tensorflow fails policy-bound, version keras 3.15.1, tensorflow 2.21.0
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.19557032130075808, expected 0.19557031749304313, permitted 0.1955703174930373 .. 0.1955703174930489 (6.6e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=2 dtype=f64 values=constant:1 seed=0 edit=k[0,0,0,0]:0x0p+0;k[0,0,0,1]:0x0p+0;v[0,0,1,0]:0x0p+0;v[0,0,1,1]:0x0p+0
import numpy as np

q = np.array([[[[1, 1]]]], np.float64)
k = np.array([[[[0, 0], [1, 1]]]], np.float64)
v = np.array([[[[1, 1], [0, 0]]]], np.float64)
scale = 0.7071067811865475

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f64 returns something in [0.1955703174930373, 0.1955703174930489]')

import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
try:
    got = np.asarray(keras.ops.convert_to_numpy(keras.ops.dot_product_attention(query=keras.ops.convert_to_tensor(q.transpose(0, 2, 1, 3), "float64"), key=keras.ops.convert_to_tensor(k.transpose(0, 2, 1, 3), "float64"), value=keras.ops.convert_to_tensor(v.transpose(0, 2, 1, 3), "float64"))), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
