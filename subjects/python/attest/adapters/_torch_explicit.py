"""Attention written out in PyTorch's own operators on the CPU, as its users write it: eager, and under torch.compile.

Documents: the docstrings of torch.matmul, torch.nn.functional.softmax and torch.where, the page of scaled_dot_product_attention
with its "Efficient implementation equivalent to the following", and what _torch_compile.py quotes. They are read as follows:
- softmax: the form softmax=f32 promises float32 there, and no more;
- matmul is in the type of its arguments; its precision is not stated, and
  https://docs.pytorch.org/docs/2.15/notes/numerical_accuracy.html states none for 16-bit types on the CPU.
torch.compile promises the function's result, and nothing on its precision: its pattern matcher may make
scaled_dot_product_attention of what is written here, which is what the compiled subject is for.
Nothing is claimed of rows without keys (the softmax of a row of -inf), determinism, batches, NaN.
"""

import math

import torch

from . import _torch_script as script
from ._forms import may_be_empty, words
from ._quotes import quotes
from ._torch_call import ADDED, HOST, NO_PROMISE, TYPES, Subject, ask, describe, keep_of, narrowed
from ._torch_compile import COMPILED, SHAPES, TIMES, ask_compiled, need_compiler

_IN_FLOAT = {"f16": "f16-all,softmax=f32", "bf16": "bf16-all,softmax=f32", "f32": "f32", "f64": "f64"}

DOCUMENTS = quotes(r"""
docstring of torch.matmul | attention | Matrix product of two tensors.
docstring of torch.nn.functional.softmax
    attention | \text{Softmax}(x_{i}) = \frac{\exp(x_i)}{\sum_j \exp(x_j)}
    form.softmax=f32 | If specified, the input tensor is casted to dtype before the operation is performed. This is useful for preventing data type overflows.
docstring of torch.where | form.mask=where | Return a tensor of elements selected from either input or other, depending on condition.
""")


class Explicit(Subject):
    documents = DOCUMENTS
    forms = {
        "scale": ["scores", "query", "divided"],  # the operand multiplied; divided: the scores by sqrt(D), where that is the scale
        "mask": ["where", "masked_fill", {"value": "added", "contract": ADDED}],  # masks of booleans
        "softmax": ["type", {"value": "f32", "contract": {"policy": _IN_FLOAT}}],  # in the scores' own type, or in float32
        "gqa": ["repeated", "grouped"],  # key heads repeated, or query heads in a dimension of groups
    }

    dtypes = tuple(TYPES)
    contract = NO_PROMISE

    def describe(self):
        return describe(self, {"softcap": True, "dims": may_be_empty("b", "hq", "hkv", "lq", "lk")}, self.contract, self.dtypes)

    def answer(self, call, place):
        return self.run(call, self.arguments(call, place)), None

    def run(self, call, arguments):
        return ask(lambda: attention(**arguments))

    def arguments(self, call, place=HOST):
        said = self.said(call)
        keep = keep_of(call, None if call.keep is None else narrowed(place.enter(call.keep, "bool")), place.device)
        bias = None if call.bias is None else narrowed(place.enter(call.bias, call.dtype))
        q, k, v = (place.enter(view, call.dtype) for view in (call.q, call.k, call.v))
        scale = None if call.scale_is_default else call.scale
        return dict(query=q, key=k, value=v, keep=keep, bias=bias, scale=scale, softcap=call.softcap, scaled=said["scale"],
                    masked=said["mask"], in_float=said["softmax"] == "f32" and call.dtype != "f64", gqa=said["gqa"])

    def script(self, call, beside=None):
        return script.explicit(attention, self.arguments(call), None, call, self.device)


class ExplicitCompiled(Explicit):
    """The same under torch.compile, whose kernels are for one shape or for many, and which promises no format of a step."""

    documents = DOCUMENTS | COMPILED
    times = TIMES
    forms = {**Explicit.forms, "softmax": words(Explicit.forms["softmax"]), "shapes": list(SHAPES)}

    def __init__(self, name, device=None, **pinned):
        super().__init__(name, device, **pinned)
        need_compiler(device)

    def run(self, call, arguments):
        return ask_compiled(attention, self.said(call)["shapes"], **arguments)

    def script(self, call, beside=None):
        return script.explicit(attention, self.arguments(call), SHAPES[self.said(call)["shapes"]], call, self.device)


def attention(query, key, value, keep, bias, scale, softcap, scaled, masked, in_float, gqa):
    closed = float("-inf")
    groups, heads = key.size(1), query.size(1)
    if heads != groups and gqa == "grouped":
        query, key, value = query.unflatten(1, (groups, heads // groups)), key.unsqueeze(2), value.unsqueeze(2)
        keep, bias = (t if t is None else t.unsqueeze(2) if t.size(1) == 1 else t.unflatten(1, (groups, heads // groups))
                      for t in (keep, bias))
    elif heads != groups:
        key, value = key.repeat_interleave(heads // groups, 1), value.repeat_interleave(heads // groups, 1)
    if scale is None and scaled == "divided":
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    else:
        scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
        scores = (query * scale) @ key.transpose(-2, -1) if scaled == "query" else query @ key.transpose(-2, -1) * scale
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if keep is not None and masked == "where":
        scores = torch.where(keep, scores, closed)
    elif keep is not None and masked == "masked_fill":
        scores = scores.masked_fill(~keep, closed)
    elif keep is not None:
        scores = scores + torch.zeros_like(keep, dtype=scores.dtype).masked_fill(~keep, closed)
    weights = torch.softmax(scores, -1, dtype=torch.float32) if in_float else torch.softmax(scores, -1)
    out = weights.to(value.dtype) @ value
    return out.flatten(1, 2) if out.dim() == 5 else out
