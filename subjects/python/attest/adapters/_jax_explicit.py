"""Attention written in the steps of jax.numpy, which XLA fuses when it compiles them: what users write who want their own.

Documents: those of these functions in jax 0.10.2. They define results and promise no precision. Nothing is said on
empty rows (-inf minus -inf makes them NaN), NaN, determinism or batches: nothing is claimed.
"""

import inspect

import jax
import jax.numpy as jnp

from ._arguments import laid
from ._array_sdpa import Asked
from ._forms import may_be_empty
from ._jax_sdpa import Jax, masks_of
from ._quotes import quotes

DOCUMENTS = quotes(r"""
docstring of jax.numpy.einsum | attention | Einstein summation
docstring of jax.nn.softmax | attention | \mathrm{softmax}(x) = \frac{\exp(x_i)}{\sum_j \exp(x_j)}
docstring of jax.numpy.tanh | softcap | Calculate element-wise hyperbolic tangent of input.
docstring of jax.numpy.where | keep form.mask_type=bool | Select elements from two arrays based on a condition.
docstring of jax.jit | form.compiled=jit | Sets up fun for just-in-time compilation with XLA.
""")


def explicit(query, key, value, scale, mask=None, bias=None, softcap=None):
    group = query.shape[1] // key.shape[1]
    key, value = (jnp.repeat(array, group, axis=1) for array in (key, value))
    logits = jnp.einsum("bhtd,bhsd->bhts", query, key) * scale
    if softcap is not None:
        logits = softcap * jnp.tanh(logits / softcap)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = jnp.where(mask, logits, -jnp.inf)
    return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(logits, axis=-1), value)


class Explicit(Jax):
    documents = DOCUMENTS
    forms = {
        "compiled": ["jit", "eager"],
        "mask": ["narrowed", "full"],
        "mask_type": ["bool", "bias"],
    }
    supports = {"softcap": True, "dims": may_be_empty("b", "lq", "lk")}
    function = staticmethod(explicit)
    source = "explicit"
    static = ("scale", "softcap")

    def asked(self, call):
        said = self.said(call)
        arguments = {name: laid(call, view, "bhld") for name, view in (("query", "q"), ("key", "k"), ("value", "v"))}
        arguments |= masks_of(call, said | {"causal": "mask", "window": "mask", "lengths": "mask"})
        options = {"scale": call.scale}
        if call.softcap > 0:
            options["softcap"] = call.softcap
        return Asked(arguments, options, "bhld")

    def head(self, asked, said):
        return super().head(asked, said) + inspect.getsource(explicit)
