"""OpenVINO's ScaledDotProductAttention-13 on the CPU device.

Documents:
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/sequence/scaled-dot-product-attention.html
and https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/precision-control.html, the pages of
the release before the one that is pinned, which cites them. They are read as follows:
- the pseudo-code: scale * q k^T, then the mask added, then Softmax; scale is 1/sqrt(query.shape[-1]) by default; in it False
  becomes -inf and a float mask is added; the product with v comes behind Softmax, whose weights are divided by their sum;
- causal: the diagonal starts at the top left; a causal mask that is anything else goes in as a mask;
- dimensions: one head of keys for all queries, but no groups;
- precision: float32 is float32 in ACCURACY mode, which promises no more of 16-bit tensors; under a hint every step between
  tensors of any type may be in the precision that a compiled model says it took, float16 ones included: where there are
  instructions for bfloat16 alone, that is bfloat16 under the hint f16 too.
Nothing is said on empty rows (the pseudo-code would give NaN), determinism, batches, NaN: nothing is claimed.
"""

from functools import lru_cache

import numpy as np
import openvino as ov
from openvino import opset13

from attest import Refused, Unsupported

from . import _openvino_script as script
from ._forms import Formed, described, drawn, may_be_empty, refuse
from ._kept import Kept
from ._masks import added, causal_alone, keep_of, narrowed, starts_top_left
from ._quotes import citing, quotes

TYPES = {"f32": ov.Type.f32, "bf16": ov.Type.bf16, "f16": ov.Type.f16}
ROUNDOFF = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
_models = Kept(64)  # requests and their constants
_core = ov.Core()


DOCUMENTS = quotes("""
signature of openvino.opset13.scaled_dot_product_attention | ! ScaledDotProductAttention has no softcap | (query, key, value, attention_mask, scale, causal, name)
page ScaledDotProductAttention-13
    attention | ScaledDotProductAttention provides functionality according to the following pseudo-code using other operations from OpenVINO opset and numpy:
    dtypes | any supported floating-point type
    bias keep kv_lengths window form.mask form.mask_type ! ScaledDotProductAttention takes a mask of the query's type ! this mask varies along the batch | at least 3 dimensional tensor of type T or boolean and shape [N, ..., L or 1, S]
    causal mask_added form.causal=flag | numpy.triu(Broadcast(ConvertLike(-inf, query), [L, S]), k=1)
    causal form.causal=flag | attention_mask is ignored if causal is set to True.
    gqa form.kv=narrow ! ScaledDotProductAttention has no groups of heads, only one head of keys for all | Each batch dimension should be either constant across the input tensors (query, key, and value), indicating that they have the same batch size, or they should be broadcastable to the same value.
    scale form.scale ! this scale is no {call.dtype}, the type of the operator's input | a scalar tensor of type T, an alternative scale factor instead of 1/sqrt(query.shape[-1]) used by default in the pseudo-code above.
page precision-control
    policy form.precision=accuracy | In ACCURACY mode, the device cannot convert floating point tensors to a smaller floating point type
    form.precision | allows you to specify the exact precision the user wants
    form.precision | the value provided is not guaranteed to be used by Runtime (mainly in cases where the current device does not have the required hardware capabilities)
docstring of openvino.opset13.scaled_dot_product_attention
    form.causal=beside_mask | In this case attention_mask input is ignored.
    form.rank ! one head of keys for all of several samples takes an axis for heads | Query tensor of shape [N, ..., L, E] and floating-point datatype.
    form.rank ! one head of keys for all of several samples takes an axis for heads | Key tensor of shape [N, ..., S, E] and floating-point datatype.
""")


@lru_cache(maxsize=None)
def effective(hint):
    """The precision that a model under this hint says it took: f32, bf16 or f16."""
    x = opset13.parameter([-1, 4], ov.Type.f32)
    compiled = _core.compile_model(ov.Model([opset13.relu(x)], [x]), "CPU", {"INFERENCE_PRECISION_HINT": hint})
    return compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()


def _hinted(hint):
    """That value of the form `precision`. Where the device takes float32 under the hint, the promises for float32 stay."""
    taken = effective(hint)
    policy = {} if taken == "f32" else {"policy": {dtype: f"*={taken},storage={dtype},output={dtype}" for dtype in TYPES}}
    return {"value": hint, "contract": {**policy, "flush_to_zero": True}}


class ScaledDotProductAttention(Formed):
    documents = DOCUMENTS
    forms = {
        "build": ["dynamic", "static"],  # static: shapes pinned in the model, one a shape
        "constants": ["none", "mask", "kv", drawn("scale", scale="explicit"), drawn("mask_scale", scale="explicit")],  # part of the model instead of inputs
        "mask": ["short", "full", drawn("3d", "b==1 || lengths==none && (keep==none || keep_axes%2==0) && (bias==none || bias_axes%2==0)")],  # with length 1 where it is broadcast, written out, or without the batch
        "mask_type": ["bool", "float"],  # the type of a mask alone
        "causal": ["flag", "mask", "beside_mask"],  # beside_mask: as flag, and beside it a mask, which it makes no use of
        "rank": ["4d", drawn("3d", "hkv==hq || form.kv==full || b==1"), "5d"],  # query, key and value: samples and heads are one axis, or a third one stands before them
        "kv": ["full", "narrow"],  # narrow: key and value have length 1 along the batch and the heads where all have the same
        "scale": ["as_called", "explicit"],
        "precision": ["accuracy", _hinted("bf16"), _hinted("f16")],  # ACCURACY mode, or the hint inference_precision
    }

    def __init__(self, name, **pinned):
        super().__init__(f"openvino:{name}", **pinned)
        if not pinned or "build" in pinned:  # a model of dynamic shapes is compiled once
            self.times = {"plan_ms": 60}
        self.version = f"openvino {ov.__version__.split('-')[0]}"

    def describe(self):
        # The processor's products of bfloat16 take subnormals for zero (AVX512_BF16), and nothing promises otherwise.
        contract = self.promised({"policy": {"f32": "f32"}, "flush_to_zero": {"bf16": True}, "mask_added": True,
                                  "normalise": ["before"], "lse_merge": "none"})
        return described("attention", TYPES, {
            "scale": "any", "dims": may_be_empty("b", "hq", "hkv", "lq", "lk"), "forms": self.offered(), "drawn": "hkv==hq || hkv==1",
            "shapes_share_plans": self.pinned.get("build") != "static",
        }, contract, documents=self.quoted(citing("openvino 2025")), **self.times)

    def attention(self, call):
        node = self.node(call)
        out = run(node)
        if out.size != call.out.size:  # as of keys that are constants, of which there are none
            raise Refused(f"openvino: it gave an output of the shape {list(out.shape)}")
        call.out[...] = out.view(call.out.dtype).reshape(call.out.shape)

    def node(self, call):
        refuse(call.softcap > 0, "ScaledDotProductAttention has no softcap")
        if call.k.shape[1] not in (1, call.q.shape[1]):
            raise Unsupported("ScaledDotProductAttention has no groups of heads, only one head of keys for all")
        refuse(call.bias is not None and call.bias_dtype != call.dtype, "ScaledDotProductAttention takes a mask of the query's type")
        said = self.said(call)
        key, value = (narrowed(x, (0, 1)) if said["kv"] == "narrow" and call.q.shape[0] > 1 else x for x in (call.k, call.v))
        inputs = {"query": call.q, "key": key, "value": value}
        causal = said["causal"] != "mask" and causal_alone(call) and starts_top_left(call)
        mask = None if causal else mask_of(call)
        if said["causal"] == "beside_mask" and causal:
            mask = np.arange(call.k.shape[2])[None, None, None] > 0
        if mask is not None:
            inputs["attention_mask"] = shaped(mask, call, said)
        if not call.scale_is_default or said["scale"] == "explicit":
            # "a scalar of type T with value 0 ... signals that applying an attention mask is not necessary"
            inputs.setdefault("attention_mask", np.zeros((), call.q.dtype))
            inputs["scale"] = scalar(call)
        inputs = ranked(inputs, call, said["rank"])
        constants = {"none": (), "mask": ("attention_mask",), "kv": ("key", "value"), "scale": ("scale",),
                     "mask_scale": ("attention_mask", "scale")}[said["constants"]]
        precision = None if said["precision"] == "accuracy" else said["precision"]
        return Node(inputs, call.dtype, causal, call.threads, said["build"] == "static", precision, constants)

    def script(self, call, beside=None):
        return script.source(self.node(call), call)


class Node:
    """One node with the arrays it is run on; 16-bit bfloat16 as its bits."""

    def __init__(self, inputs, dtype, causal, threads, static, precision, constants=()):
        self.inputs = {name: np.require(array, requirements="CW") for name, array in inputs.items()}
        self.dtype, self.causal, self.threads, self.static, self.precision = dtype, causal, threads, static, precision
        self.constants = constants

    def fed(self):
        """The arrays that a run hands over, by name."""
        return {name: array for name, array in self.inputs.items() if name not in self.constants}

    def type_of(self, array):
        return ov.Type.boolean if array.dtype == np.bool_ else TYPES[self.dtype]

    def shape_of(self, array):
        return list(array.shape) if self.static else [-1] * array.ndim

    def config(self):
        config = {"EXECUTION_MODE_HINT": "ACCURACY"} if self.precision is None else {
            "INFERENCE_PRECISION_HINT": self.precision}
        return {**config, "INFERENCE_NUM_THREADS": self.threads} if self.threads else config


def run(node):
    """The output, bfloat16 as its bits. Raises attest.Refused with OpenVINO's own reason."""
    key = (node.dtype, node.causal, node.threads, node.static, node.precision,
           tuple((name, array.dtype.str, tuple(node.shape_of(array))) for name, array in node.inputs.items()),
           tuple((array.shape, array.tobytes()) for name, array in node.inputs.items() if name in node.constants))
    try:
        request, _ = _models.get(key, lambda: compiled(node))
        for index, array in enumerate(node.fed().values()):
            request.set_input_tensor(index, given(array, node.type_of(array)))
        request.infer()
        return request.get_output_tensor().data
    except RuntimeError as error:
        raise Refused(f"openvino: {reason(str(error))}") from error


def compiled(node):
    """(the request of a compiled model, its constants)."""
    inputs = {n: opset13.parameter(node.shape_of(a), node.type_of(a)) for n, a in node.fed().items()}
    # A constant is read where it lies, and by every run of the model: it has memory of its own, as long as the model.
    held = {n: node.inputs[n].copy() for n in node.constants if n in node.inputs}
    nodes = [inputs[n] if n in inputs else ov.op.Constant(given(held[n], node.type_of(a))) for n, a in node.inputs.items()]
    attention = opset13.scaled_dot_product_attention(*nodes, causal=node.causal)
    model = _core.compile_model(ov.Model([attention], list(inputs.values())), "CPU", node.config())
    return model.create_infer_request(), held


def given(array, kind):
    """The array's own memory as a tensor. Bits of bfloat16 need the type said beside them."""
    if kind == ov.Type.bf16:
        return ov.Tensor(array, ov.Shape(list(array.shape)), kind)
    return ov.Tensor(array, shared_memory=True)


def reason(text):
    """The lines of an OpenVINO error that say what it objects to: no paths of its sources."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("Exception from", "Check '", "While "))]
    return " ".join(said) or " ".join(text.split())


def scalar(call):
    """The scale in the type of the query; Unsupported where one rounding makes it another number."""
    with np.errstate(over="ignore", under="ignore"):
        if call.dtype == "bf16":
            bits = np.float32(call.scale).view(np.uint32)
            bits += 0x7FFF + (bits >> 16 & 1)
            stored = np.array(bits >> 16, np.uint16)
            value = float((bits & np.uint32(0xFFFF0000)).view(np.float32))
        else:
            stored = np.array(call.scale, call.q.dtype)
            value = float(stored)
    if not abs(value - call.scale) <= ROUNDOFF[call.dtype] * abs(call.scale):
        raise Unsupported(f"this scale is no {call.dtype}, the type of the operator's input")
    return stored


def mask_of(call):
    """attention_mask, bool or of the query's type, or None. Batch, heads and queries that are broadcast have length 1;
    the keys are written out."""
    cut = (0, 1, 2)
    keep = keep_of(call, None if call.keep is None else narrowed(call.keep, cut))
    if call.bias is None:
        return keep
    bias = narrowed(call.bias, cut)
    return bias if keep is None else added(keep, call.dtype, bias)


def ranked(inputs, call, rank):
    """The inputs with samples and heads in one axis ("3d"), or behind another axis of length 1 ("5d")."""
    if rank == "4d":
        return inputs
    if rank == "5d":
        return {name: array[None] if array.ndim == 4 else array for name, array in inputs.items()}
    samples, heads = call.q.shape[:2]
    made = {}
    for name, array in inputs.items():
        if array.ndim == 3:
            array = array[None]
        if array.ndim == 4 and array.shape[:2] != (1, 1):
            if name in ("key", "value") and array.shape[:2] != (samples, heads) and min(samples, heads) > 1:
                raise Unsupported("one head of keys for all of several samples takes an axis for heads")
            array = np.broadcast_to(array, (samples, heads, *array.shape[2:]))
        made[name] = array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]) if array.ndim == 4 else array
    return made


def shaped(mask, call, said):
    """A mask of four dimensions, broadcast ones of length 1, in the type and the shape that the forms name."""
    if mask.dtype == np.bool_ and said["mask_type"] == "float":
        mask = added(mask, call.dtype)
    if said["mask"] == "full":
        return np.broadcast_to(mask, (*call.q.shape[:3], call.k.shape[2]))
    while mask.ndim < 4:
        mask = mask[None]
    if said["mask"] == "3d":
        refuse(mask.shape[0] != 1, "this mask varies along the batch")
        return mask[0]
    return mask
