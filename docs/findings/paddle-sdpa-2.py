# paddle:sdpa fails policy-bound, version paddlepaddle 3.3.1
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 1.6038109389511792e-28, expected 0, permitted -9.108451639011385e-45 .. 9.108451639011385e-45 (1.76e+16 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 causal=1 values=constant:1 q_form=zero k_form=zero seed=0 edit=v[0,0,0,0]:0x0p+0
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
g = i
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-9.108451639011385e-45, 9.108451639011385e-45]')

import paddle, paddle.compat.nn.functional
paddle.set_device("cpu")
try:
    got = paddle.nn.functional.scaled_dot_product_attention(query=paddle.to_tensor(q.transpose(0, 2, 1, 3)), key=paddle.to_tensor(k.transpose(0, 2, 1, 3)), value=paddle.to_tensor(v.transpose(0, 2, 1, 3)), is_causal=True).numpy()
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
