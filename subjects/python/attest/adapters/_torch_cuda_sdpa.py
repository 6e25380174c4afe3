"""torch.nn.functional.scaled_dot_product_attention on a GPU of NVIDIA's, by its public face, and with one backend at a time.

Documents: those of _torch_sdpa.py, of the same function; for this device, how they are read besides:
- which calls a backend takes: "Each of the fused kernels has specific input limitations." and "In the event that a fused
  implementation is not available, a warning will be raised with the reasons": types, masks and widths that those warnings name
  are not asked of that backend;
- precision: of the fused backends nothing is said; the math backend promises float32, as on the CPU, with
  "torch.backends.cuda.matmul.allow_tf32" at its default, False. Nothing is said of exp, for which fused kernels take the
  instruction ex2.approx.ftz.f32: 2 ulp and flushed subnormals by NVIDIA's PTX ISA;
- the same bits again: https://docs.pytorch.org/docs/2.11/notes/randomness.html promises nothing of the forward pass.
Empty rows, NaN, batches: as on the CPU, nothing is claimed.
"""

from torch.nn.attention import SDPBackend

from ._torch_sdpa import Flash, FlashLse, Math, Sdpa

# Nothing is promised. 4 ulp hold ex2.approx and its argument; flushed subnormals are those of .ftz.
GENEROUS = {"exp_ulp": {"f32": 4}, "flush_to_zero": {"f32": True, "bf16": True, "f16": True}}
_HALVES = ("f16", "bf16")
_NO_MASK = {"keep": False, "bias": False, "kv_lengths": False, "window": False, "align": ["top_left"]}
_FLAG = {"causal": ["flag"]}


class CudaSdpa(Sdpa):
    """Default dispatch: PyTorch chooses the backend."""

    contract = GENEROUS


class CudaFlash(Flash):
    """"Flash Attention does not support non-null attn_mask", "Expected query, key and value to all be of dtype: {Half, BFloat16}"
    and "FlashAttention ... head_dim should be less than or equal to 256" are its warnings."""

    contract = GENEROUS
    dtypes = _HALVES
    supports = {**_NO_MASK, "dims": {"dv": "=d", "d": [1, 256, 1]}}
    forms = {name: values for name, values in Sdpa.forms.items() if name in ("rank", "scale", "gqa")}

    def said(self, call):
        return {"mask": "given", "mask_type": "bool", "causal": "flag"} | super().said(call)


class CudaFlashLse(FlashLse):
    """The operator behind it, which gives the log-sum-exp too and which no document describes. What the public function makes of
    a width that is no multiple of 8, a copy with zeros, is not asked of it."""

    contract = GENEROUS
    dtypes = _HALVES
    supports = {**FlashLse.supports, **_NO_MASK, "dims": {"dv": "=d", "d": [8, 256, 8]}}
    forms = {"scale": Sdpa.forms["scale"]}
    operator = "_scaled_dot_product_flash_attention"

    def said(self, call):
        return {"mask": "given", "causal": "flag"} | super().said(call)


class CudaEfficient(Sdpa):
    """Memory-efficient attention: "Expected query, key and value to all be of dtype: {Half, Float, BFloat16}"."""

    contract = GENEROUS
    backend = SDPBackend.EFFICIENT_ATTENTION
    dtypes = ("f32", *_HALVES)


class CudaCudnn(Sdpa):
    """The attention of cuDNN, which plans each shape anew: "Expected query, key and value to all be of dtype: {Half, BFloat16}"."""

    contract = GENEROUS
    backend = SDPBackend.CUDNN_ATTENTION
    dtypes = _HALVES


class CudaMath(Math):
    contract = {**Math.contract, "exp_ulp": 4, "flush_to_zero": GENEROUS["flush_to_zero"]}
