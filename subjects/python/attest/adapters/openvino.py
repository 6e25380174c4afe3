"""Subjects openvino:NAME: OpenVINO's operator ScaledDotProductAttention on the CPU device.

The contract, with the sentences of the documents it comes from, is in _openvino_sdpa.py. OpenVINO's Python tensors have
no strides, so a view is packed before the call unless it is contiguous already: then its memory goes in as it is.
"""

from functools import partial

from ._openvino_sdpa import ScaledDotProductAttention

_VARIANTS = {
    "sdpa": {},
    "sdpa-static": {"build": "static"},
    "sdpa-bf16": {"precision": "bf16"},
}

SUBJECTS = {name: partial(ScaledDotProductAttention, name, **how) for name, how in _VARIANTS.items()}
