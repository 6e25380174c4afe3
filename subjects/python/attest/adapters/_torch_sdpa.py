"""torch.nn.functional.scaled_dot_product_attention on the CPU, by its public face.

Documents: https://docs.pytorch.org/docs/2.15/generated/torch.nn.functional.scaled_dot_product_attention.html, the same text as
the function's docstring, and https://docs.pytorch.org/docs/2.15/notes/numerical_accuracy.html. They are read as follows:
- diagonal: a causal mask that does not start at the top left, or is beside another mask, goes in as attn_mask;
- masks: windows and key lengths are such masks. The code that the document gives as equivalent fills in float("-inf") and adds
  that to the scores, so that one that overflowed in float16 makes NaN;
- precision: the math backend promises float32. Nothing is said of the others: "the output of this function may be different
  depending on what backend kernel is chosen". numerical_accuracy says so of the math backend too, and names the switch that turns it off,
  under which nothing is promised. The CPU has no TF32. That page's sentence on half-precision products, "typically done with
  intermediate accumulations (reduction) in single-precision", is no promise;
- NaN: a query of NaN makes NaN of its scores in that code, and torch.softmax of them;
- sums: torch.softmax divides the weights by their sum before they meet the values there, all of them, so that
  a mean of large numbers is finite;
- dropout_p is left at its default, 0.
Empty rows: the equivalent code gives NaN there and the implementation 0; neither is stated: nothing is claimed. Nor is
anything on batches, on equal bits of a repeated call on the CPU.
"""

from contextlib import suppress

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attest import Unsupported

from . import _torch_script as script
from ._forms import drawn, may_be_empty, refuse
from ._quotes import quotes
from ._torch_call import ADDED, HOST, NO_PROMISE, TYPES, Subject, ask, describe, keep_of, narrowed, open_keys, said_by_is_causal

_IN_FLOAT = "*=f32,storage={0},output={0}"
_AS_WRITTEN = {**ADDED, "nan": "propagates", "normalise": ["before"], "lse_merge": "none"}  # as the equivalent code has it
_REDUCED = {"policy": {"f32": "f32", "f64": "f64", "f16": "f16-all", "bf16": "bf16-all"}, **NO_PROMISE, **_AS_WRITTEN}


DOCUMENTS = quotes(r"""
page notes/numerical_accuracy | batch_invariant | Then (A@B)[0] (the first element of the batched result) is not guaranteed to be bitwise identical to A[0]@B[0] (the matrix product of the first elements of the input batches) even though mathematically it's an identical computation.
docstring of torch.nn.functional.scaled_dot_product_attention
    attention mask_added nan | attn_weight = query @ key.transpose(-2, -1) * scale_factor attn_weight += attn_bias attn_weight = torch.softmax(attn_weight, dim=-1)
    bias form.mask_type=float ! scaled_dot_product_attention documents float masks of the query's type alone | A float mask of the same type as query, key, value that is added to the attention score.
    keep kv_lengths window form.mask_type=bool | A boolean mask where a value of True indicates that the element *should* take part in attention.
    bias keep form.mask | Attention mask; shape must be broadcastable to the shape of attention weights, which is (N,..., Hq, L, S).
    causal form.causal=flag | If set to true, the attention masking is a lower triangular matrix when the mask is a square matrix.
    causal form.causal=flag | The attention masking has the form of the upper left causal bias due to the alignment (see torch.nn.attention.bias.CausalBias) when the mask is a non-square matrix.
    causal form.causal=flag | An error is thrown if both attn_mask and is_causal are set.
    nan | return attn_weight @ value
    scale form.scale | Scaling factor applied prior to softmax. If None, the default value is set to \frac{1}{\sqrt{E}}.
    gqa form.gqa | If set to True, Grouped Query Attention (GQA) is enabled, by default it is set to False.
    gqa ! the operator wants as many heads of keys as of queries, and Dv = D | key = key.repeat_interleave(query.size(-3)//key.size(-3), -3)
    gqa | Grouped Query Attention (GQA) is an experimental feature.
    form.rank ! without a batch there is one sample | N: \text{Batch size} ... : \text{Any number of other batch dimensions (optional)}
    ! scaled_dot_product_attention has no softcap | scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)
    ! the operator wants as many heads of keys as of queries, and Dv = D | Each of the fused kernels has specific input limitations.
""")


class Sdpa(Subject):
    """Default dispatch: PyTorch chooses the backend."""

    documents = DOCUMENTS
    forms = {
        "rank": ["4d", drawn("3d", "b==1"), "5d"],  # (N, ..., Hq, L, E): with a batch, without one, with two
        "mask": ["given", "narrowed", "lowest"],  # see shaped()
        "mask_type": ["bool", "float"],  # the type of a mask alone
        "causal": ["flag", "mask"],
        "scale": ["as_called", "explicit"],
        "gqa": ["as_needed", "enabled"],  # enable_gqa
    }
    backend = None
    dtypes = tuple(TYPES)
    supports = {"dims": may_be_empty("b", "hq", "hkv", "lq", "lk")}
    contract = NO_PROMISE | _AS_WRITTEN

    def describe(self):
        return describe(self, self.supports, self.contract, self.dtypes)

    def prepare(self):
        super().prepare()
        if self.device:  # libraries load behind the first call, and plan
            one = torch.zeros(1, 1, 8, 8, dtype=TYPES[self.dtypes[-1]], device=self.device)
            with suppress(RuntimeError):
                self.run(one, one, one).cpu()

    def answer(self, call, place):
        inputs = self.inputs(call, place)
        return ask(lambda: self.run(**inputs)), None

    def run(self, query, key, value, **options):
        if self.backend is None:
            return scaled_dot_product_attention(query, key, value, **options)
        with sdpa_kernel(self.backend):
            return scaled_dot_product_attention(query, key, value, **options)

    def inputs(self, call, place=HOST):
        """The arguments of the function, those at their default left out."""
        refuse(call.softcap > 0, "scaled_dot_product_attention has no softcap")
        if call.bias is not None and call.bias_dtype != call.dtype:
            raise Unsupported("scaled_dot_product_attention documents float masks of the query's type alone")
        said = self.said(call)
        inputs = {name: place.enter(getattr(call, view), call.dtype) for name, view in
                  (("query", "q"), ("key", "k"), ("value", "v"))}
        flag = said["causal"] == "flag" and said_by_is_causal(call)
        mask = None if flag else mask_of(call, said, place)
        if mask is not None:
            inputs["attn_mask"] = mask
        inputs = {name: ranked(array, call, said["rank"]) for name, array in inputs.items()}
        if flag:
            inputs["is_causal"] = True
        if not call.scale_is_default or said["scale"] == "explicit":
            inputs["scale"] = call.scale
        if call.q.shape[1] != call.k.shape[1] or said["gqa"] == "enabled":
            inputs["enable_gqa"] = True
        return inputs

    def script(self, call, beside=None):
        return script.sdpa(self.inputs(call), call, self.backend, self.device)


class Math(Sdpa):
    """The backend that the document calls "a PyTorch implementation defined in C++ matching the above formulation"."""

    documents = DOCUMENTS | quotes("""
docstring of torch.nn.functional.scaled_dot_product_attention
    policy form.reduction=f32 | For math backend, all intermediates are kept in torch.float if inputs are in torch.half or torch.bfloat16.
page notes/numerical_accuracy
    policy | Computations are performed in FP32/TF32, and the final FP32 results are then downcasted back to FP16/BF16.
    form.reduction=reduced | For scenarios where reduced-precision reductions are preferred for speed, they can be enabled with the following setting: torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
""")
    forms = {**Sdpa.forms, "reduction": ["f32", {"value": "reduced", "contract": _REDUCED}]}  # for 16-bit types
    backend = SDPBackend.MATH
    contract = {"policy": {"f32": "f32", "f64": "f64", "f16": _IN_FLOAT.format("f16"), "bf16": _IN_FLOAT.format("bf16")},
                "exp_ulp": {"f32": 20, "f16": 20, "bf16": 20}, **_AS_WRITTEN}

    def answer(self, call, place):
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(self.said(call)["reduction"] == "reduced")
        try:
            return super().answer(call, place)
        finally:
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)

    def script(self, call, beside=None):
        reduced = self.said(call)["reduction"] == "reduced"
        return script.sdpa(self.inputs(call), call, self.backend, self.device,
                           "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)\n" if reduced else "")


class Flash(Sdpa):
    """FlashAttention on the CPU. "Each of the fused kernels has specific input limitations": it is not asked for Dv != D."""

    backend = SDPBackend.FLASH_ATTENTION
    supports = {"dims": {**Sdpa.supports["dims"], "dv": "=d"}}


class FlashLse(Flash):
    """The operator behind it, which gives the log-sum-exp too and which no document describes. Nothing checks what it is
    given: it is asked what the public function would ask it, tensors with elements. The log-sum-exp of a row without keys is 0 there
    (torch-flash-1), where nothing is promised; attest's word for such a row, -inf, is written by this adapter."""

    # "Attention mask dim in {2, 4}", which the public function brings about.
    forms = {"mask": ["given", "narrowed"], "causal": Sdpa.forms["causal"], "scale": Sdpa.forms["scale"]}
    supports = {"dims": {"dv": "=d"}, "lse": True, "gqa": False, "strides": "last_dim_contiguous"}
    operator = "_scaled_dot_product_flash_attention_for_cpu"

    def answer(self, call, place):
        inputs = self.inputs(call, place)
        out, lse = ask(lambda: getattr(torch.ops.aten, self.operator)(**inputs))[:2]
        return out, None if call.lse is None else lse.masked_fill(~open_keys(call).any(-1).to(lse.device), float("-inf"))

    def inputs(self, call, place=HOST):
        inputs = super().inputs(call, place)
        if "enable_gqa" in inputs or call.v.shape[3] != call.q.shape[3]:
            raise Unsupported("the operator wants as many heads of keys as of queries, and Dv = D")
        mask = inputs.get("attn_mask")
        if mask is not None and mask.dtype == torch.bool:
            zeros = torch.zeros(mask.shape, dtype=TYPES[call.dtype], device=mask.device)
            inputs["attn_mask"] = zeros.masked_fill_(~mask, float("-inf"))
        return inputs

    def script(self, call, beside=None):
        return script.flash_lse(self.inputs(call), call, self.operator, self.device)


def mask_of(call, said, place=HOST):
    """attn_mask: bool, or float where there is a bias, or None.

    A mask alone goes in on its own memory: as the problem has it ("given"), of full shape with stride 0 where it is broadcast, or
    with length 1 there ("narrowed"), or, beside that, without leading dimensions of length 1 ("lowest"). Users pass all of these.
    """
    form = (lambda t: t) if said["mask"] == "given" else narrowed
    keep = keep_of(call, None if call.keep is None else form(place.enter(call.keep, "bool")), place.device)
    if call.bias is not None:
        bias = form(place.enter(call.bias, call.dtype))
        mask = bias if keep is None else torch.where(keep, bias, float("-inf"))
    elif keep is not None and said["mask_type"] == "float":
        mask = torch.where(keep, 0.0, float("-inf")).to(TYPES[call.dtype])
    else:
        mask = keep
    while mask is not None and said["mask"] == "lowest" and mask.dim() > 0 and mask.shape[0] == 1:
        mask = mask[0]
    return mask


def ranked(array, call, rank):
    """An argument of four dimensions, or a mask of fewer, without its batch or with one more in front of the heads."""
    if rank == "4d" or array.dim() < 4:
        return array
    if rank == "5d":
        return array.unsqueeze(1)
    refuse(call.q.shape[0] != 1, "without a batch there is one sample")
    return array[0]
