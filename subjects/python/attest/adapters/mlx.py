"""Subjects mlx:NAME: the attention of MLX on the CPU.

The contract, with the sentences of the document it comes from, is in _mlx_sdpa.py.
"""

from functools import partial

from ._mlx_sdpa import Sdpa

SUBJECTS = {"sdpa": partial(Sdpa, "sdpa")}
