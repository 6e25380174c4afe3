# jax:sdpa fails policy-bound, version jax 0.10.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0, expected -4, permitted -4.00000309944293 .. -3.99999690055707 (1.29e+06 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 keep=prefix bias=empty_lowest values=integers:1 q_form=zero k_form=zero seed=2107421680 lq0=1
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0], [0]]]], np.float32)
v = np.array([[[[-4], [0]]]], np.float32)
bias = np.array([[[[-3.4028234663852886e+38, -3.4028234663852886e+38]]]], np.float32)
keep = np.array([[[[True, False]]]], np.bool_)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = s + bias.astype(np.float64)
s = np.where(keep, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-4.00000309944293, -3.99999690055707]')

import jax, jax.numpy as jnp
try:
    got = np.asarray(jax.jit(jax.nn.dot_product_attention, static_argnames=('scale', 'is_causal', 'local_window_size', 'implementation', 'return_residual'))(query=jnp.asarray(q.transpose(0, 2, 1, 3), jnp.float32), key=jnp.asarray(k.transpose(0, 2, 1, 3), jnp.float32), value=jnp.asarray(v.transpose(0, 2, 1, 3), jnp.float32), mask=jnp.asarray(keep[:, :, :, :], jnp.bool), bias=jnp.asarray(bias[:, :, :, :], jnp.float32), implementation='xla'), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
