"""The documents that the adapters' tables of quotes name, as they are installed, for test_refusals.py to look
sentences up in.

docstring of NAME, source of MODULE       of a Python object by its dotted name
signature of NAME                         NAME(its parameters), so that a list of parameters can be quoted as a whole
schema of DOMAIN OP-VERSION               of an ONNX operator: its text and those of its inputs, outputs, attributes and types
attributes, inputs, outputs of the same   [names with their types]
kernels of DOMAIN OP                      [types that ONNX Runtime's CPUExecutionProvider has kernels for]; a parameter behind OP,
                                          such as T3, if it is not the first that counts
errors of MODULE                          what a compiled module can print: the words in which a library refuses
page NAME                                 a page that is not installed: the adapter's head has to have its name and address
arithmetic                                what +, - and * make of infinities, zeros and NaN, as this processor does it
"""

import functools
import importlib
import inspect
import math
import operator
import re
from pathlib import Path

_KINDS = {}


def text(document, head):
    """The document's text; `head`: the docstring of the module whose table names it. KeyError for an unknown kind."""
    kind, _, name = document.partition(" ")
    return _KINDS[kind](head if kind == "page" else name.removeprefix("of "))


def plain(words):
    """The words without the line breaks and the marks of a markup, :math:`...` and such among them."""
    return " ".join(re.sub(":[a-z]+:`", "`", words).replace("`", "").replace("**", "").split())


def known(document):
    return document.partition(" ")[0] in _KINDS


def _kind(function):
    _KINDS[function.__name__[1:]] = function


def _named(name):
    """The object of a dotted name."""
    module, rest = name, []
    while True:
        try:
            found = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest.insert(0, last)
    for part in rest:
        found = getattr(found, part)
    return found


@_kind
def _docstring(name):
    return _named(name).__doc__


@_kind
def _source(name):
    return inspect.getsource(_named(name)).replace('"\n', "").replace('                "', "")


@_kind
def _signature(name):
    return f"{name}({', '.join(inspect.signature(_named(name)).parameters)})"


@_kind
@functools.cache
def _errors(name):
    printed = re.findall(rb"[\t\x20-\x7e]{8,}", Path(importlib.import_module(name).__file__).read_bytes())
    return b"\n".join(printed).decode("ascii")


@_kind
def _page(head):
    return head


@_kind
def _arithmetic(_):
    numbers = (math.inf, -math.inf, 0.0, 1.0, math.nan)
    signs = {"+": operator.add, "-": operator.sub, "*": operator.mul}
    return "\n".join(f"{a} {sign} {b} = {does(a, b)}" for sign, does in signs.items() for a in numbers for b in numbers)


def _operator(name):
    domain, _, versioned = name.partition(" ")
    op, _, version = versioned.partition("-")
    if domain == "ai.onnx":
        import onnx

        return onnx.defs.get_schema(op, int(version), "")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return next(s for s in get_all_operator_schema() if (s.domain, s.name, s.since_version) == (domain, op, int(version)))


@_kind
def _schema(name):
    schema = _operator(name)
    parts = [*schema.inputs, *schema.outputs, *schema.attributes.values()]
    types = [constraint.description for constraint in schema.type_constraints]
    return "\n".join([schema.doc, *(f"{part.name}: {part.description}" for part in parts), *types])


@_kind
def _attributes(name):
    attributes = _operator(name).attributes
    return str([f"{key} {attributes[key].type.name}" for key in sorted(attributes)]).replace("'", "")


@_kind
def _inputs(name):
    types = [f"{part.name} {getattr(part, 'type_str', None) or part.typeStr}" for part in _operator(name).inputs]
    return str(types).replace("'", "")


@_kind
def _outputs(name):
    return str([part.name for part in _operator(name).outputs]).replace("'", "")


@_kind
def _kernels(name):
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    domain, op, *parameters = name.split(" ")
    types = {kind for kernel in get_all_opkernel_def()
             if (kernel.domain or "ai.onnx", kernel.op_name, kernel.provider) == (domain, op, "CPUExecutionProvider")
             for key, kinds in kernel.type_constraints.items() if key in (parameters or ("T", "T1")) for kind in kinds}
    return str(sorted(types)).replace("'", "")
