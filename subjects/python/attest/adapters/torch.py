"""Subjects torch:NAME: attention, norms and blocks of PyTorch on the CPU.

The contracts, with the sentences of the documents they come from, are in _torch_NAME.py. Tensors are views of the
arena where the operator takes any strides: same strides, same address modulo 256, nothing is copied.
"""

from functools import partial

from ._torch_block import Block
from ._torch_encoder import EncoderNorm
from ._torch_encoder_block import EncoderBlock
from ._torch_encoder_stack import Encoder
from ._torch_explicit import Explicit, ExplicitCompiled
from ._torch_flex import Flex, FlexCompiled, FlexTraced
from ._torch_layer_norm import LayerNorm, RmsNorm
from ._torch_mha import MultiheadAttention
from ._torch_nested import Nested
from ._torch_sdpa import Flash, FlashLse, Math, Sdpa

_VARIANTS = {
    "sdpa": (Sdpa, {}),
    "math": (Math, {}),
    "flash": (Flash, {}),
    "flash-lse": (FlashLse, {}),
    "nested": (Nested, {}),
    "explicit": (Explicit, {}),
    "explicit-compiled": (ExplicitCompiled, {}),
    "flex": (Flex, {}),
    "flex-traced": (FlexTraced, {}),
    "flex-compiled": (FlexCompiled, {}),
    "mha": (MultiheadAttention, {}),
    "mha-slow": (MultiheadAttention, {"path": "slow"}),
    "mha-weights": (MultiheadAttention, {"path": "slow", "weights": "averaged"}),
    "block": (Block, {}),
    "block-fast": (Block, {"path": "fast"}),
    "block-fast-weights": (Block, {"path": "fast", "weights": "averaged"}),
    "block-nested": (Block, {"path": "fast", "input": "nested"}),
    "block-slow": (Block, {"path": "slow"}),
    "block-weights": (Block, {"path": "slow", "weights": "per_head"}),
    "block-float-mask": (Block, {"mask_type": "float"}),
    "block-second": (Block, {"batch": "second"}),
    "block-unbatched": (Block, {"batch": "none"}),
    "block-three": (Block, {"projection": "three"}),
    "block-separate": (Block, {"projection": "separate"}),
    "block-bias-kv": (Block, {"last_key": "bias_kv"}),
    "block-causal-alone": (Block, {"path": "fast", "causal": "alone"}),
    "encoder-block": (EncoderBlock, {}),
    "encoder-block-causal-alone": (EncoderBlock, {"causal": "alone"}),
    "encoder": (Encoder, {}),
    "encoder-float-mask": (Encoder, {"mask_type": "float"}),
    "layer_norm": (LayerNorm, {}),
    "layer_norm-axes": (LayerNorm, {"axes": 2}),
    "rms_norm": (RmsNorm, {}),
    "rms_norm-axes": (RmsNorm, {"axes": 2}),
    "encoder-norm1": (EncoderNorm, {"norm": 1}),
    "encoder-norm2": (EncoderNorm, {"norm": 2}),
}

SUBJECTS = {name: partial(kind, name, **how) for name, (kind, how) in _VARIANTS.items()}
