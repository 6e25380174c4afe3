"""Subjects torch:NAME: the attention of PyTorch on the CPU.

The contracts, with the sentences of the documents they come from, are in _torch_sdpa.py and _torch_mha.py. Tensors are
views of the arena where the operator takes any strides: same strides, same address modulo 256, nothing is copied.
"""

from functools import partial

from ._torch_mha import MultiheadAttention
from ._torch_sdpa import Flash, FlashLse, Math, Sdpa

_VARIANTS = {
    "sdpa": (Sdpa, {}),
    "math": (Math, {}),
    "flash": (Flash, {}),
    "flash-lse": (FlashLse, {}),
    "mha": (MultiheadAttention, {}),
    "mha-slow": (MultiheadAttention, {"path": "slow"}),
    "mha-weights": (MultiheadAttention, {"path": "slow", "weights": "averaged"}),
}

SUBJECTS = {name: partial(kind, name, **how) for name, (kind, how) in _VARIANTS.items()}
