"""Subjects onnxruntime:NAME: the attention operators of ONNX Runtime, CPUExecutionProvider.

The contracts, with the sentences of the documents they come from, are in _onnxruntime_attention.py and
_onnxruntime_mha.py. `Attention` and `MultiHeadAttention` cover the most; the variants say the same problems in
another of the operator's ways. Tensors of ONNX Runtime have no strides, so every view is packed before the call.
"""

from functools import partial

import numpy as np

from ._onnxruntime_attention import Attention
from ._onnxruntime_mha import MultiHeadAttention

_VARIANTS = {
    "Attention": (Attention, {}),
    "Attention-3d": (Attention, {"layout": "3d"}),
    "Attention-23": (Attention, {"opset": 23}),
    "Attention-static": (Attention, {"static": True}),
    "Attention-float-mask": (Attention, {"float_mask": True}),
    "Attention-broadcast-mask": (Attention, {"broadcast": True}),
    "Attention-past": (Attention, {"past": True}),
    "MultiHeadAttention": (MultiHeadAttention, {}),
    "MultiHeadAttention-bnsh": (MultiHeadAttention, {"layout": "bnsh"}),
    "MultiHeadAttention-static": (MultiHeadAttention, {"static": True}),
    "MultiHeadAttention-past": (MultiHeadAttention, {"past": True}),
    "MultiHeadAttention-filter-lowest": (MultiHeadAttention, {"filter_value": float(np.finfo(np.float32).min)}),
}

SUBJECTS = {name: partial(kind, name, **how) for name, (kind, how) in _VARIANTS.items()}
