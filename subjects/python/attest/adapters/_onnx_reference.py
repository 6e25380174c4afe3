"""ONNX's reference evaluator, onnx.reference.ReferenceEvaluator, which computes a model with NumPy.

Document: the docstring of onnx.reference.ReferenceEvaluator in ONNX 1.23, https://onnx.ai/onnx/api/reference.html: the official
specification overrides the implementation (onnx.py quotes it). So what an operator means, and what a result is held to, is its
schema. There is nothing to set: no threads, no optimisation.
"""

import warnings

import onnx
from onnx.reference import ReferenceEvaluator

from . import _onnx_script
from ._kept import Kept

_evaluators = Kept(64)


def run(node):
    """The output that is read."""
    evaluator = _evaluators.get(node.key(), lambda: ReferenceEvaluator(node.model()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, on what overflows
        return evaluator.run([node.fetched], dict(node.fed()))[0]


def source(node, call):
    """Lines that expect the call's arrays in scope by their names and leave [B, H, Lq, Dv] in `got`."""
    run = f"ReferenceEvaluator(model).run({[node.fetched]}, feed)[0]"
    return f"""\
{_onnx_script.model(node, call)}from onnx.reference import ReferenceEvaluator
{_onnx_script.functions(node)}got = {_onnx_script.result(run, node, call)}
"""


def versions():
    return f"onnx {onnx.__version__}"
