"""torch.nn.functional.scaled_dot_product_attention on a GPU of NVIDIA's, by its public face, and with one backend at a time.

Documents: those of _torch_sdpa.py, of the same function; for this device, how they are read besides:
- which calls a backend takes: "Each of the fused kernels has specific input limitations." and "In the event that a fused
  implementation is not available, a warning will be raised with the reasons", which are in aten/src/ATen/native/transformers/cuda
  of https://github.com/pytorch/pytorch/tree/v2.11.0, sdp_utils.cpp (page sdp_utils.cpp) and, of the operator behind flash,
  flash_api.cpp (page flash_api.cpp): types, masks and widths that they name are not asked of that backend;
- precision: of the fused backends nothing is said; the math backend promises float32, as on the CPU, where
  torch.backends.cuda.matmul.allow_tf32 is at its default, False. Nothing is said of exp, for which fused kernels take the
  instruction ex2.approx.ftz.f32: 2 ulp and flushed subnormals by NVIDIA's PTX ISA.
Empty rows, NaN, batches, equal bits: as on the CPU, nothing is claimed.
"""

from torch.nn.attention import SDPBackend

from ._forms import refuse
from ._quotes import refusals
from ._torch_call import ADDED, HOST
from ._torch_sdpa import Flash, FlashLse, Math, Sdpa

REFUSED = refusals("""
page sdp_utils.cpp
    ! the operator takes no mask | does not support non-null attn_mask.
    ! the operator takes is_causal of squares alone | Flash attention does not support the is_causal flag when seqlen_q != seqlen_k.
page flash_api.cpp | ! the operator wants a multiple of 8 as D | head_size must be a multiple of 8, this is ensured by padding!
""")
_HALVES = ("f16", "bf16")
_NO_MASK = {"keep": False, "bias": False, "kv_lengths": False, "window": False, "align": ["top_left"]}
# "All fused kernels requires query, key and value to be 4 dimensional" and "require the last dimension of the input to have
# stride 1.", says sdp_utils.
_FUSED = {"strides": "last_dim_contiguous"}
_FORMS = {name: values for name, values in Sdpa.forms.items() if name != "rank"}


def generous(dtypes):
    """The promises for these types: 4 ulp hold ex2.approx and its argument; flushed subnormals are those of .ftz."""
    flushed = {"flush_to_zero": {dtype: True for dtype in dtypes if dtype != "f64"}}
    return flushed | {"exp_ulp": {"f32": 4}} if "f32" in dtypes else flushed


class CudaSdpa(Sdpa):
    """Default dispatch: PyTorch chooses the backend."""

    contract = generous(Sdpa.dtypes) | ADDED


class CudaFlash(Flash):
    """FlashAttention: two types, no mask, heads of up to 256 numbers."""

    dtypes = _HALVES
    contract = generous(dtypes) | ADDED
    supports = {**_FUSED, **_NO_MASK, "dims": {"dv": "=d", "d": [1, 256, 1]}}
    forms = {name: _FORMS[name] for name in ("scale", "gqa")}


class CudaFlashLse(FlashLse):
    """The operator behind it, which gives the log-sum-exp too and which no document describes. It is not asked for
    a width that is no multiple of 8, of which the public function makes a copy with zeros."""

    dtypes = _HALVES
    contract = generous(dtypes) | ADDED
    supports = {**FlashLse.supports, **_NO_MASK, "dims": {"dv": "=d", "d": [8, 256, 8]}}
    forms = {"scale": Sdpa.forms["scale"]}
    operator = "_scaled_dot_product_flash_attention"

    def inputs(self, call, place=HOST):
        inputs = super().inputs(call, place)
        refuse("attn_mask" in inputs, "the operator takes no mask")
        refuse(call.causal and call.q.shape[2] != call.k.shape[2], "the operator takes is_causal of squares alone")
        refuse(call.q.shape[3] % 8, "the operator wants a multiple of 8 as D")
        return inputs


class CudaEfficient(Sdpa):
    """Memory-efficient attention, of heads whose rows are of a multiple of 16 bytes, and as many heads of keys as of queries."""

    backend = SDPBackend.EFFICIENT_ATTENTION
    dtypes = ("f32", *_HALVES)
    contract = generous(dtypes) | ADDED
    supports = {**_FUSED, "gqa": False, "dims": {"d": [4, None, 4], "dv": [4, None, 4]}}
    forms = {name: values for name, values in _FORMS.items() if name != "gqa"}


class CudaCudnn(Sdpa):
    """The attention of cuDNN, which plans each shape anew, of heads of up to 256 numbers."""

    backend = SDPBackend.CUDNN_ATTENTION
    dtypes = _HALVES
    times = {"plan_ms": 70, "warm_up_ms": 1000}
    contract = generous(dtypes) | ADDED
    supports = {**_FUSED, "dims": {"d": [8, 256, 8], "dv": [8, 256, 8]}}
    forms = _FORMS


class CudaMath(Math):
    contract = Math.contract | generous(Math.dtypes)
