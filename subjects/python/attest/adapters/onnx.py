"""Subjects onnx:NAME: operators of ONNX as its own reference evaluator computes them.

The contract, with the sentences that it comes from, is in _onnx_attention.py: what onnxruntime:Attention is held to.
"""

from functools import partial

from . import _onnx_reference as engine
from ._onnx_attention import Attention
from ._onnx_call import SESSIONS
from ._quotes import quotes


class ReferenceAttention(Attention):
    """No session runs the model: it has none of their forms but the constants."""

    documents = Attention.documents | quotes("""
docstring of onnx.reference.ReferenceEvaluator
    attention | Mismatches may remain between the official specifications and the implementation here. In the case of such a mismatch, the official spec overrides this implementation.
""")
    forms = {form: values[:1] if form in SESSIONS and form != "constants" else values for form, values in Attention.forms.items()}

    def offered(self):
        return {form: values for form, values in super().offered().items() if len(values) > 1}


SUBJECTS = {"Attention": partial(ReferenceAttention, "onnx:Attention", engine)}
