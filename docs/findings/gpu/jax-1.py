# jax-cuda:sdpa fails guards, version jax 0.11.2
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f16 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0]]]], np.float16)
k = np.array([[[[0]]]], np.float16)
v = np.array([[[[0]]]], np.float16)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import jax, jax.numpy as jnp
try:
    got = np.asarray(jax.jit(jax.nn.dot_product_attention, static_argnames=('scale', 'is_causal', 'local_window_size', 'implementation', 'return_residual'))(query=jnp.asarray(q.transpose(0, 2, 1, 3), jnp.float16), key=jnp.asarray(k.transpose(0, 2, 1, 3), jnp.float16), value=jnp.asarray(v.transpose(0, 2, 1, 3), jnp.float16), implementation='xla'), np.float64)
except Exception as error:
    raise SystemExit(f"refused: {error}")
got = got.transpose(0, 2, 1, 3)
print('got\n', got)
