# jax:standardize fails policy-bound, version jax 0.10.2
# law: out and sum_out lie in [lo, hi] of docs/layer-norm.md
# seen: out[0,0,0,0] = -9.499003593048919e+20, expected -0.48114141821861267, permitted -0.4811421783722768 .. -0.48114065221173613 (1.24e+27 x the permitted distance)
# problem: op=layer_norm rows=1 hidden=4 dtype=f32 gamma=none beta=none values=roots_large seed=9786742863513452290 hidden0=1 edits=x[0,1]:0x0p+0;x[0,2]:0x0p+0
import numpy as np

x = np.array([[-8.902034815834915e+18, 0, 0, -1.4690710098645352e+19]], np.float32)
epsilon = 1e-05

# what LayerNorm means, in float64
t = x.astype(np.float64)
t = t - t.mean(-1, keepdims=True)
with np.errstate(all='ignore'):
    expected = t / np.sqrt((t * t).mean(-1, keepdims=True) + epsilon)

at = (0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-0.4811421783722768, -0.48114065221173613]')

from functools import partial
import jax
import jax.numpy as jnp
standardize = jax.jit(partial(jax.nn.standardize, algorithm='fast'))
got = np.asarray(standardize(jnp.asarray(x), epsilon=epsilon)).astype(np.float64)
print('got     ', got[at])
