"""Subjects openvino:NAME: OpenVINO's operators ScaledDotProductAttention and MVN, and graphs of LayerNorm and RMSNorm, on the
CPU device.

The contracts, with the sentences of the documents they come from, are in _openvino_sdpa.py and _openvino_norm.py. OpenVINO's
Python tensors have no strides, so a view is packed before the call unless it is contiguous already: then its memory goes in as it is.
"""

from functools import partial

from ._openvino_norm import GRAPHS, Norm
from ._openvino_sdpa import ScaledDotProductAttention

_VARIANTS = {
    "sdpa": {},
    "sdpa-static": {"build": "static"},
    "sdpa-bf16": {"precision": "bf16"},
}

SUBJECTS = {name: partial(ScaledDotProductAttention, name, **how) for name, how in _VARIANTS.items()}
_WAYS = {"": {}, "-constants": {"constants": True}, "-f16": {"precision": "f16"}, "-bf16": {"precision": "bf16"}}
SUBJECTS |= {graph + way: partial(Norm, graph + way, graph, **how) for graph in GRAPHS for way, how in _WAYS.items()}
