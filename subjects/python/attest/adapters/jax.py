"""Subjects jax:NAME: attention and standardize of JAX on the CPU.

The contract, with the sentences of the document it comes from, is in _jax_sdpa.py; _jax_explicit.py is attention in the
steps of jax.numpy, which XLA fuses.
"""

import os
from functools import partial

os.environ["JAX_PLATFORMS"] = "cpu"  # else the first device that JAX finds

from ._jax_explicit import Explicit
from ._jax_sdpa import Residual, Sdpa
from ._jax_standardize import Standardize

SUBJECTS = {
    "sdpa": partial(Sdpa, "sdpa", implementation="xla"),
    "sdpa-residual": partial(Residual, "sdpa-residual", implementation="xla"),
    "explicit": partial(Explicit, "explicit"),
    "standardize": partial(Standardize, "standardize", "fast"),
    "standardize-stable": partial(Standardize, "standardize-stable", "stable"),
}
