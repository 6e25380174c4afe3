"""Subjects onnxruntime:NAME: the attention and normalisation operators of ONNX Runtime, and graphs of standard ones,
CPUExecutionProvider.

The contracts are at the head of each subject's module, the sentences they come from in its quotes. Those with variants
draw the form of each call, too; the variants are short for one form that stays. Tensors of ONNX Runtime have no strides, so
every view is packed before the call.
"""

from functools import partial

from . import _onnxruntime_block as block, _onnxruntime_session as engine
from ._onnx_attention import Attention
from ._onnxruntime_contrib_attention import ContribAttention
from ._onnxruntime_decoder_mha import DecoderMaskedMultiHeadAttention
from ._onnxruntime_explicit import Explicit
from ._onnxruntime_gqa import GroupQueryAttention
from ._onnxruntime_layer_norm import (
    LayerNormalization, RMSNormalization, SimplifiedLayerNormalization, SkipLayerNormalization, SkipSimplifiedLayerNormalization,
)
from ._onnxruntime_mha import MultiHeadAttention
from ._onnxruntime_qattention import QAttention
from ._onnxruntime_sparse import SparseAttention

_VARIANTS = {
    "Attention": (Attention, {}),
    "Attention-3d": (Attention, {"layout": "3d"}),
    "Attention-23": (Attention, {"opset": "23"}),
    "Attention-static": (Attention, {"build": "static"}),
    "Attention-float-mask": (Attention, {"mask_type": "float"}),
    "Attention-broadcast-mask": (Attention, {"mask": "broadcast"}),
    "Attention-past": (Attention, {"past": "half"}),
    "MultiHeadAttention": (MultiHeadAttention, {}),
    "MultiHeadAttention-bnsh": (MultiHeadAttention, {"layout": "bnsh"}),
    "MultiHeadAttention-static": (MultiHeadAttention, {"build": "static"}),
    "MultiHeadAttention-past": (MultiHeadAttention, {"past": "half"}),
    "MultiHeadAttention-filter-lowest": (MultiHeadAttention, {"filter_value": "lowest"}),
    "GroupQueryAttention": (GroupQueryAttention, {}),
    "contrib-Attention": (ContribAttention, {}),
    "DecoderMaskedMultiHeadAttention": (DecoderMaskedMultiHeadAttention, {}),
    "QAttention": (QAttention, {}),
    "SparseAttention": (SparseAttention, {}),
    "explicit": (Explicit, {}),
    "block": (block.MultiHeadAttention, {}),
    "block-extended": (block.MultiHeadAttention, {"optimisation": "extended"}),
    "block-basic": (block.MultiHeadAttention, {"optimisation": "basic"}),
    "block-none": (block.MultiHeadAttention, {"optimisation": "none"}),
    "block-inputs": (block.MultiHeadAttention, {"weights": "inputs"}),
    "block-bias": (block.MultiHeadAttention, {"bias": "operator"}),
    "block-split": (block.MultiHeadAttention, {"projection": "split"}),
    "block-bnsh": (block.MultiHeadAttention, {"projection": "bnsh"}),
    "contrib-block": (block.Attention, {}),
    "contrib-block-extended": (block.Attention, {"optimisation": "extended"}),
    "contrib-block-basic": (block.Attention, {"optimisation": "basic"}),
    "contrib-block-none": (block.Attention, {"optimisation": "none"}),
    "contrib-block-inputs": (block.Attention, {"weights": "inputs"}),
    "LayerNormalization": (LayerNormalization, {}),
    "LayerNormalization-axes": (LayerNormalization, {"axes": 2}),
    "LayerNormalization-statistics": (LayerNormalization, {"statistics": True}),
    "RMSNormalization": (RMSNormalization, {}),
    "RMSNormalization-axes": (RMSNormalization, {"axes": 2}),
    "SimplifiedLayerNormalization": (SimplifiedLayerNormalization, {}),
    "SkipLayerNormalization": (SkipLayerNormalization, {}),
    "SkipLayerNormalization-bias": (SkipLayerNormalization, {"bias": True}),
    "SkipSimplifiedLayerNormalization": (SkipSimplifiedLayerNormalization, {}),
    "SkipSimplifiedLayerNormalization-2d": (SkipSimplifiedLayerNormalization, {"rank": 2}),
    "SkipSimplifiedLayerNormalization-bias": (SkipSimplifiedLayerNormalization, {"bias": True}),
}

SUBJECTS = {name: partial(kind, f"onnxruntime:{name}", engine, **how) for name, (kind, how) in _VARIANTS.items()}
