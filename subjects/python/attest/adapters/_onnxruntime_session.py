"""One-node ONNX models and the sessions that run them on the CPUExecutionProvider.

A session is kept per node (operator, attributes, which inputs are given, their types and ranks) and reused over
calls of any shape, as an application does; the `static` form pins the shapes and so keeps a session per shape.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from attest import Refused

_ELEMENT = {
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
}
_KEPT_SESSIONS = 64  # a scale or a softcap is an attribute: a random one makes a model of its own
_sessions = OrderedDict()  # least recently used first


@dataclass
class Node:
    """One node with the arrays it is run on."""

    op: str
    domain: str
    opset: int
    attributes: dict
    inputs: list  # of (name, array or None), in the operator's order; None leaves an optional input out
    outputs: list  # their names, "" for one that is left out; only the first is fetched
    threads: int  # intra-operator threads, >= 1
    static: bool = False  # the array shapes are pinned in the model
    constants: tuple = ()  # names of inputs that are part of the model
    optimised: bool = True  # whether the session may rewrite the graph

    def __post_init__(self):
        while self.inputs[-1][1] is None:
            self.inputs.pop()

    def given(self):
        """(name, array) of each input that is not left out."""
        return [(name, array) for name, array in self.inputs if array is not None]

    def input_names(self):
        return [name if array is not None else "" for name, array in self.inputs]

    def fed(self):
        """(name, array) of each input that a run hands over."""
        return [(name, array) for name, array in self.given() if name not in self.constants]

    def stored(self):
        """(name, array) of each input that the model holds."""
        return [(name, array) for name, array in self.given() if name in self.constants]

    def opsets(self):
        """(domain, version) of each operator set the model imports."""
        return [("", self.opset)] + ([(self.domain, 1)] if self.domain else [])


def run(node):
    """The first output of the node. Raises attest.Refused with ONNX Runtime's own reason."""
    signature = tuple(
        None if a is None else (n, a.dtype.str, a.shape if node.static else a.ndim) for n, a in node.inputs
    )
    key = (node.op, node.domain, node.opset, tuple(sorted(node.attributes.items())), signature, tuple(node.outputs),
           node.threads, node.optimised, tuple((n, a.shape, a.tobytes()) for n, a in node.stored()))
    feed = {n: np.ascontiguousarray(a) for n, a in node.fed()}
    try:
        session = _sessions.get(key)
        if session is None:
            session = _build(node)
            _sessions[key] = session
            if len(_sessions) > _KEPT_SESSIONS:
                _sessions.popitem(last=False)
        else:
            _sessions.move_to_end(key)
        return session.run(node.outputs[:1], feed)[0]
    except Exception as error:  # onnxruntime's exception types share no public base class
        raise Refused(_reason(str(error))) from error


def _build(node):
    def info(name, array):
        shape = array.shape if node.static else [f"{name}_{i}" for i in range(array.ndim)]
        return helper.make_tensor_value_info(name, _ELEMENT[array.dtype], shape)

    out_type = _ELEMENT[node.inputs[0][1].dtype]
    graph = helper.make_graph(
        [helper.make_node(node.op, node.input_names(), node.outputs, domain=node.domain, **node.attributes)],
        "attention",
        [info(n, a) for n, a in node.fed()],
        [helper.make_tensor_value_info(n, out_type, None) for n in node.outputs if n],
        [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in node.stored()],
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in node.opsets()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = node.threads
    if not node.optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # errors are raised; a second copy on stderr helps nobody
    # Idle threads of the kept sessions must not spin beside the next call.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _reason(text):
    """The sentence of an ONNX Runtime error that says what it objects to: no build paths, no C++ signature."""
    text = " ".join(text.split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    text = text.rpartition("Status Message: ")[2].rpartition(" was false. ")[2]
    return f"onnxruntime: {text}"


def versions():
    return f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}"
