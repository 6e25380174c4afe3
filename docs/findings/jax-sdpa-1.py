# jax:sdpa fails policy-bound, version jax 0.10.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 1.0000000298023224, expected 1, permitted 0.9999999999999937 .. 1.0000000000000064 (4.63e+06 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 values=constant:1 seed=0 edit=k[0,0,0,0]:0x0p+0
import numpy as np

q = np.array([[[[1]]]], np.float64)
k = np.array([[[[0], [1]]]], np.float64)
v = np.array([[[[1], [1]]]], np.float64)
scale = 1

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
print('a kernel that keeps the policy f64 returns something in [0.9999999999999937, 1.0000000000000064]')

import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
try:
    got = np.asarray(jax.jit(jax.nn.dot_product_attention, static_argnames=('scale', 'is_causal', 'local_window_size', 'implementation', 'return_residual'))(query=jnp.asarray(q.transpose(0, 2, 1, 3), jnp.float64), key=jnp.asarray(k.transpose(0, 2, 1, 3), jnp.float64), value=jnp.asarray(v.transpose(0, 2, 1, 3), jnp.float64), implementation='xla'), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
