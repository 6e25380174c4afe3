"""A node as a few lines of Python that run it without attest: what `attest export --to python` pastes."""

import inspect

import numpy as np

from ._arguments import cut_of, literal

_SOURCES = {"query": "q", "key": "k", "value": "v"}


def source(node, call):
    """Lines that expect the call's arrays in scope by their names, bfloat16 ones as float32, and leave the output in `got`."""
    feed = ",\n        ".join(f'"{name}": {_expression(name, array, node, call)}' for name, array in node.inputs.items())
    shape = "list(a.shape)" if node.static else "[-1] * a.ndim"
    bf16 = node.dtype == "bf16"
    number = "ov.Type.bf16" if bf16 else f"ov.Type.{node.dtype}"
    kind = f"ov.Type.boolean if a.dtype == bool else {number}"
    tensor = "ov.Tensor(a, ov.Shape(list(a.shape)), t)" if bf16 else "ov.Tensor(a)"
    if bf16:
        tensor += " if t == ov.Type.bf16 else ov.Tensor(a)"
    got = "request.get_output_tensor().data"
    if bf16:
        got = f"({got}.view(np.uint16).astype(np.uint32) << 16).view(np.float32)"
    stored = {name for name in node.inputs if name in node.constants}
    bits = "bits = lambda a: (np.array(a, np.float32).view(np.uint32) >> 16).astype(np.uint16)\n" if bf16 else ""
    return f"""\
import openvino as ov
from openvino import opset13
{bits}feed = {{{feed}}}
feed = {{n: np.require(a, requirements="CW") for n, a in feed.items()}}
kinds = {{n: {kind} for n, a in feed.items()}}
tensor = lambda a, t: {tensor}
stored = {stored or "()"}  # part of the model
parameters = {{n: opset13.parameter({shape}, kinds[n]) for n, a in feed.items() if n not in stored}}
nodes = [parameters[n] if n in parameters else ov.op.Constant(tensor(a, kinds[n])) for n, a in feed.items()]
node = opset13.scaled_dot_product_attention(*nodes, causal={node.causal})
try:
    model = ov.Core().compile_model(ov.Model([node], list(parameters.values())), "CPU", {node.config()!r})
    request = model.create_infer_request()
    for i, n in enumerate(parameters):
        request.set_input_tensor(i, tensor(feed[n], kinds[n]))
    request.infer()
    got = {got}{"" if node.inputs["query"].ndim == 4 else f".reshape{call.out.shape}"}
except RuntimeError as error:
    raise SystemExit(f"refused: {{error}}")
"""


def _expression(name, array, node, call):
    numbers = node.dtype == "bf16" and array.dtype != np.bool_
    if name in _SOURCES:
        given = getattr(call, _SOURCES[name])
        cut = "" if array.shape == given.shape else f".reshape({array.shape})" if array.size == given.size else (
            f"[{', '.join(':1' if stride == 0 else ':' for stride in given.strides[:2])}].reshape({array.shape})")
        return f"bits({_SOURCES[name]}{cut})" if numbers else f"{_SOURCES[name]}{cut}"
    text = cut_of(array, call) or literal(array, node.dtype if numbers else array.dtype.name)
    return f"bits({text})" if numbers else text


def norm(subject, call, functions):
    """A graph of _openvino_norm; `functions` make it, the last of them as a whole."""
    made = "\n\n".join(map(inspect.getsource, functions))
    names = ["x", *(name for name in ("gamma", "beta") if getattr(call, name) is not None)]
    bf16, width = call.dtype == "bf16", subject.width(call)
    more = "" if subject.constants else f", *(ops.parameter([{width}], kind) for _ in kept[1:])"
    bits = "bits = lambda a: (np.array(a, np.float32).view(np.uint32) >> 16).astype(np.uint16)\n" if bf16 else ""
    tensor = "ov.Tensor(a, ov.Shape(list(a.shape)), kind)" if bf16 else "ov.Tensor(a, shared_memory=True)"
    array = "bits(a)" if bf16 else "a"
    got = "request.get_output_tensor().data"
    if bf16:
        got = f"({got}.view(np.uint16).astype(np.uint32) << 16).view(np.float32)"
    return f"""\
import openvino as ov
from openvino import opset13 as ops


{made}

{bits}kind = ov.Type.{call.dtype}
kept = [np.require({array}, requirements="CW") for a in ({', '.join(names)},)]
tensor = lambda a: {tensor}
inputs = [ops.parameter([-1, {width}], kind){more}]
weights = {"[ov.op.Constant(tensor(a)) for a in kept[1:]]" if subject.constants else "inputs[1:]"}
gamma, beta = {_taken(names)}
y = {functions[-1].__name__}(inputs[0], gamma, beta, {call.epsilon!r}, ops.constant(np.array([-1], np.int64)), kind)
try:
    request = ov.Core().compile_model(ov.Model([y], inputs), "CPU", {subject.config(call.threads)!r}).create_infer_request()
    for i, a in enumerate(kept[:len(inputs)]):
        request.set_input_tensor(i, tensor(a))
    request.infer()
    got = {got}
except RuntimeError as error:
    raise SystemExit(f"refused: {{error}}")
"""


def _taken(names):
    """gamma and beta among the weights of the script, which has those of these names behind x."""
    return ", ".join(f"weights[{names.index(name) - 1}]" if name in names else "None" for name in ("gamma", "beta"))
