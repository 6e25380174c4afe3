# jax:sdpa fails result-class, version jax 0.10.2
# law: isfinite(out) wherever every conforming result is finite
# seen: out[0,0,0,0] = nan, expected 0, permitted -2.7036384852618306e-37 .. 2.7036384852618306e-37 (nothing else is permitted)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=2 dtype=f32 values=ends:1 q_form=one k_form=short_significand v_form=zero seed=0 edit=k[0,0,1,0]:0x0p+0
import numpy as np

q = np.array([[[[1, 1]]]], np.float32)
k = np.array([[[[1.2760588759535192e+38, 0], [0, 0]]]], np.float32)
v = np.array([[[[0, 0], [0, 0]]]], np.float32)
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
print('a kernel that keeps the policy f32 returns something in [-2.7036384852618306e-37, 2.7036384852618306e-37]')

import jax, jax.numpy as jnp
try:
    got = np.asarray(jax.jit(jax.nn.dot_product_attention, static_argnames=('scale', 'is_causal', 'local_window_size', 'implementation', 'return_residual'))(query=jnp.asarray(q.transpose(0, 2, 1, 3), jnp.float32), key=jnp.asarray(k.transpose(0, 2, 1, 3), jnp.float32), value=jnp.asarray(v.transpose(0, 2, 1, 3), jnp.float32), implementation='xla'), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got     ', got[at])
