"""Subjects paddle:NAME: the attention of PaddlePaddle on the CPU.

The contract, with the sentences of the documents it comes from, is in _paddle_sdpa.py.
"""

from functools import partial

from ._paddle_sdpa import Sdpa

SUBJECTS = {"sdpa": partial(Sdpa, "sdpa")}
