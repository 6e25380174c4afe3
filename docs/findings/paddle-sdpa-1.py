# paddle:sdpa fails policy-bound, version paddlepaddle 3.3.1
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.7310585975646973, expected 0.5, permitted 0.49999687320954384 .. 0.5000031267904561 (7.39e+04 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0x0p+0 values=constant:1 seed=0 edit=k[0,0,0,0]:0x0p+0;v[0,0,0,0]:0x0p+0
import numpy as np

q = np.array([[[[1]]]], np.float32)
k = np.array([[[[0], [1]]]], np.float32)
v = np.array([[[[0], [1]]]], np.float32)
scale = 0

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
print('a kernel that keeps the policy f32 returns something in [0.49999687320954384, 0.5000031267904561]')

import paddle, paddle.compat.nn.functional
paddle.set_device("cpu")
try:
    got = paddle.nn.functional.scaled_dot_product_attention(query=paddle.to_tensor(q.transpose(0, 2, 1, 3)), key=paddle.to_tensor(k.transpose(0, 2, 1, 3)), value=paddle.to_tensor(v.transpose(0, 2, 1, 3)), scale=0.0).numpy()
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
