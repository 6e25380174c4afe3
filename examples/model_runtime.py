"""A runtime of whole models for `attest fuzz model.onnx --on model_runtime.py`: here the reference evaluator of the package onnx.

Put your engine in its place: compile the bytes of the file, and return a function of named arrays (docs/worker.md).
"""
import onnx
from onnx.reference import ReferenceEvaluator

import attest


@attest.runtime(version=onnx.__version__, builds=("reference",), layouts=attest.LAYOUTS)
def onnx_reference(model, *, build, threads):
    evaluator = ReferenceEvaluator(onnx.load_from_string(model))
    return lambda feeds, names: evaluator.run(names, feeds)
