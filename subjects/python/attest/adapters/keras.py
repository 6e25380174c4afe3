"""Subjects keras:BACKEND and keras:BACKEND-NORM: keras.ops.dot_product_attention, and its normalisations, on the CPU, on one
of Keras's backends.

The contracts, with the sentences of the documents they come from, are in _keras_sdpa.py and _keras_norm.py. Keras has one
backend a process, the one that KERAS_BACKEND names when it is imported.
"""

import os
from functools import partial

BACKENDS = ("numpy", "jax", "torch", "tensorflow")
NORMS = ("LayerNormalization", "layer_normalization", "RMSNormalization", "rms_normalization")


def _subject(backend, norm=None):
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if norm is not None:
        from ._keras_norm import NORMS as kinds
        return kinds[norm](backend, norm)
    from ._keras_sdpa import Sdpa
    return Sdpa(backend)


SUBJECTS = {backend: partial(_subject, backend) for backend in BACKENDS}
SUBJECTS |= {f"{backend}-{norm}": partial(_subject, backend, norm) for backend in BACKENDS for norm in NORMS}
_AS_WRITTEN = "LayerNormalization-as-written"  # elsewhere it is computed so, or by PyTorch
SUBJECTS[f"numpy-{_AS_WRITTEN}"] = partial(_subject, "numpy", _AS_WRITTEN)
