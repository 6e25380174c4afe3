"""A model as a few lines of Python that make it and its inputs without attest: what `attest export --to python` pastes."""

import numpy as np

# The arrays of the call that an input may have been made from.
_SOURCES = {
    "Q": ["q"], "query": ["q"], "K": ["k"], "key": ["k"], "past_key": ["k"], "V": ["v"], "value": ["v"],
    "past_value": ["v"], "attn_mask": ["keep", "bias"], "attention_bias": ["bias", "keep"],
    "key_padding_mask": ["kv_lengths", "keep"], "nonpad_kv_seqlen": ["kv_lengths"],
    "X": ["x"], "input": ["x"], "skip": ["residual"], "Scale": ["gamma"], "x": ["x"], "memory": ["memory"],
    **{f"{kind}_{of}": [f"{kind}_{of}"] for kind in "wb" for of in ("q", "k", "v", "out")},
    "gamma": ["gamma"], "B": ["beta"], "beta": ["beta"],
}


def model(node, call):
    """Lines that expect the call's arrays in scope by their names and leave the model in `model`, what it is fed in `feed`."""
    feed = ",\n        ".join(f'"{name}": {_expression(name, array, call)}' for name, array in node.given())
    opsets = ", ".join(f'h.make_opsetid("{domain}", {version})' for domain, version in node.opsets())
    shape = "a.shape" if node.static else "[None] * a.ndim"
    stored = ", constants" if node.stored() else ""
    constants = ""
    if stored:
        names = [name for name, _ in node.stored()]
        constants = ("from onnx import numpy_helper\n"
                     f"constants = [numpy_helper.from_array(np.asarray(feed.pop(n), order='C'), n) for n in {names}]\n")
    made = [_made(step) for step in node.steps]
    first = "q" if call.op == "attention" else "x"
    of_type = first
    kept = {name: np.dtype(kind).name for name, kind in node.kept.items() if np.dtype(kind) != getattr(call, first).dtype}
    if kept:
        of_type = f"np.zeros(0, {kept}.get(n, {first}.dtype))"
    if len(made) == 1:
        nodes, named, outputs = f"node = {made[0]}", "[node]", f"[info(n, {of_type}, None) for n in node.output if n]"
    else:
        nodes, named = "nodes = [" + ",\n         ".join(made) + "]", "nodes"
        outputs = f"[info(n, {first}, None) for n in {[name for name in node.outputs if name]}]"
    return f"""\
from onnx import helper as h
feed = {{{feed}}}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
{nodes}
outputs = {outputs}
{constants}graph = h.make_graph({named}, "g", [info(n, a, {shape}) for n, a in feed.items()], outputs{stored})
model = h.make_model(graph, opset_imports=[{opsets}], ir_version=10)
"""


def _made(step):
    attributes = {"domain": step.domain, **step.attributes} if step.domain else step.attributes
    arguments = "".join(f", {name}={value!r}" for name, value in attributes.items())
    return f'h.make_node("{step.op}", {step.inputs}, {step.outputs}{arguments})'


def functions(node):
    """Python that has the function of result(), if it needs one."""
    return f"\n\n{node.rest.source()}\n\n" if node.rest else ""


def result(run, node, call):
    """Python that makes [B, H, Lq, Dv] of `run`, Python for the output that is read."""
    return node.rest.text(run, _literal) if node.rest else run + outside(node, call)


def outside(node, call):
    """Python behind a result with the heads inside its rows that makes it [B, H, Lq, Dv]."""
    if call.op != "attention":
        return f".reshape{call.out.shape}"
    b, heads, lq, dv = call.out.shape
    return "" if node.heads_outside else f".reshape({b}, {lq}, {heads}, {dv}).transpose(0, 2, 1, 3)"


def _expression(name, array, call):
    """Python that gives `array` bit for bit: from an array of the call where one of the usual forms does, else literal."""
    for source_name in _SOURCES.get(name, []):
        tensor = getattr(call, source_name, None)
        for text, made in [] if tensor is None else _forms(tensor, array):
            if made.shape == array.shape and made.astype(array.dtype).tobytes() == array.tobytes():
                cast = "" if tensor.dtype == array.dtype else f".astype(np.{array.dtype.name})"
                return source_name + text + cast
    if not array.any():
        return f"np.zeros({array.shape}, np.{array.dtype.name})"
    return f"np.array({_literal(array)}, np.{array.dtype.name})"


def _forms(tensor, array):
    """(Python behind the tensor's name, what it gives) for the ways in which the adapters make an input."""
    if tensor.ndim < 4:
        yield "", tensor
        yield "[None]", tensor[None]
        yield ".T", tensor.T
        return
    length = array.shape[-2] if array.ndim > 1 else 0
    new = max(tensor.shape[2] - length, 0)
    for text, part in ("", tensor), (f"[:, :, :{length}]", tensor[:, :, :length]), (f"[:, :, {new}:]", tensor[:, :, new:]):
        yield text, part
        if array.ndim == 3 and part.size == array.size:  # heads_inside
            yield f"{text}.transpose(0, 2, 1, 3).reshape{array.shape}", part.transpose(0, 2, 1, 3).reshape(array.shape)
    yield "[0, 0]", tensor[0, 0]
    yield "[0, 0, :1]", tensor[0, 0, :1]
    yield "[0]", tensor[0]
    yield "[:1]", tensor[:1]
    yield "[:, :1]", tensor[:, :1]
    yield "[:, 0]", tensor[:, 0]
    yield "[:, 0, 0]", tensor[:, 0, 0]


def _literal(array):
    if array.ndim:
        return "[" + ", ".join(_literal(part) for part in array) + "]"
    return str(array) if np.isfinite(array) else f"np.{array}".replace("np.-", "-np.")
