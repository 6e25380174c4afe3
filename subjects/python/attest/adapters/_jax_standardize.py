"""jax.nn.standardize over the last axis on the CPU, under jax.jit, with each of its algorithms for the variance.

Document: the docstring of jax.nn.standardize in jax 0.10.2. How it is read:
- algorithm: '"fast" uses mean(x^2) - mean(x)^2 which may be faster but can suffer from catastrophic cancellation', '"stable" uses
  the two-pass formula mean((x - mean(x))^2) which is numerically stable': that way to the variance is promised, each in its
  subject;
- epsilon: "correction factor added to variance to avoid division by zero".
There is no gamma, beta or residual. Precision is not stated: every step may be in the type of the input. Nor is anything on the
reciprocal root, for which 4 ulp are left, on a negative variance, NaN, repeated calls, batches. XLA's processor code takes
subnormals for zero, as in _jax_sdpa.
"""

from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from attest import Refused
from attest.formats import bits, is_coded, numbers

from ._array_sdpa import STORED
from ._quotes import citing, quotes, told

_KEPT_CALLS = 512  # a compiled function for each shape
_VARIANCE = {"fast": {"variance": "one_pass"}, "stable": {"variance": "two_pass"}}
_DOCUMENTS = quotes("""
docstring of jax.nn.standardize
    layer_norm | Standardizes input to zero mean and unit variance.
    epsilon | epsilon: correction factor added to variance to avoid division by zero
    fast | ``"fast"`` uses ``mean(x^2) - mean(x)^2`` which may be faster but can suffer from catastrophic cancellation
    stable | ``"stable"`` uses the two-pass formula ``mean((x - mean(x))^2)`` which is numerically stable.
""")


class Standardize:
    def __init__(self, name, algorithm):
        self.name = f"jax:{name}"
        self.version = f"jax {jax.__version__}"
        self.algorithm = algorithm
        self.documents = {about: _DOCUMENTS[about] for about in ("layer_norm", "epsilon")} | {"variance": _DOCUMENTS[algorithm]}
        self.compiled = jax.jit(partial(jax.nn.standardize, algorithm=algorithm))
        self.calls = 0

    def describe(self):
        supports = {"norms": ["layer"], "residual": False, "sum_out": False, "gamma": False, "beta": False, "strides": "any"}
        return {"ops": ["layer_norm"], "dtypes": ["f16", "bf16", "f32", "f64"], "concurrent": False, "plan_ms": 100,
                "documents": told(self.documents, citing("jax 0.10.2")),
                "supports": supports, "contract": {**_VARIANCE[self.algorithm], "rsqrt_ulp": 4, "flush_to_zero": "inputs"}}

    def layer_norm(self, call):
        self.calls += 1
        if self.calls % _KEPT_CALLS == 0:
            jax.clear_caches()
        with jax.enable_x64(True) if call.dtype == "f64" else nullcontext():
            out = np.asarray(self.run(jnp.asarray(numbers(call.x, call.dtype)), call.epsilon))
        if out.dtype.name != STORED[call.dtype]:
            raise TypeError(f"{self.name} gave {out.dtype.name} for {STORED[call.dtype]}")
        call.out[...] = bits(out, call.dtype)

    def script(self, call, beside=None):
        given = f"x.astype(jnp.{STORED[call.dtype]})" if is_coded(call.dtype) else "x"
        wide = 'jax.config.update("jax_enable_x64", True)\n' if call.dtype == "f64" else ""
        return (f"from functools import partial\nimport jax\nimport jax.numpy as jnp\n{wide}"
                f"standardize = jax.jit(partial(jax.nn.standardize, algorithm={self.algorithm!r}))\n"
                f"got = np.asarray(standardize(jnp.asarray({given}), epsilon=epsilon)).astype(np.float64)\n")

    def run(self, x, epsilon):
        try:
            return jax.block_until_ready(self.compiled(x, epsilon=epsilon))
        except Exception as error:  # JAX raises many types
            raise Refused(f"jax: {str(error).strip().splitlines()[0]}") from error
