"""Subjects keras:BACKEND: keras.ops.dot_product_attention on the CPU, on one of Keras's backends.

The contract, with the sentences of the document it comes from, is in _keras_sdpa.py. Keras has one backend a process, the one
that KERAS_BACKEND names when it is imported.
"""

import os
from functools import partial

BACKENDS = ("numpy", "jax", "torch", "tensorflow")


def _subject(backend):
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from ._keras_sdpa import Sdpa
    return Sdpa(backend)


SUBJECTS = {backend: partial(_subject, backend) for backend in BACKENDS}
