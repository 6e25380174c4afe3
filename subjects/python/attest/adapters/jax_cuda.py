"""Subjects jax-cuda:NAME: the attention of JAX on a GPU of NVIDIA's.

The contracts, with the sentences of the documents they come from, are in _jax_sdpa.py and _jax_cuda_sdpa.py.
"""

import os
from functools import partial

os.environ["JAX_PLATFORMS"] = "cuda"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a worker a thread, each with three quarters of the memory

from ._jax_cuda_sdpa import CudaExplicit, CudaResidual, CudaSdpa, Cudnn

SUBJECTS = {
    "sdpa": partial(CudaSdpa, "sdpa", implementation="xla"),
    "sdpa-residual": partial(CudaResidual, "sdpa-residual", implementation="xla"),
    "cudnn": partial(Cudnn, "cudnn", implementation="cudnn"),
    "explicit": partial(CudaExplicit, "explicit"),
}
