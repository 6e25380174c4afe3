"""One-node ONNX models and the sessions that run them on the CPUExecutionProvider.

A session is kept per node (operator, attributes, which inputs are given, their types and ranks) and reused over
calls of any shape, as an application does; the `static` form pins the shapes and so keeps a session per shape.
"""

import re
from collections import OrderedDict

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

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


class Refused(RuntimeError):
    """ONNX Runtime would not build or run the model; the text is its own reason, without file paths."""


def run(op, domain, opset, attributes, inputs, outputs, *, threads, static):
    """Runs one node and returns its first output.

    inputs: list of (name, array or None), in the operator's order; None leaves an optional input out.
    outputs: how many outputs the node names (only the first is fetched); all have the type of the first input.
    threads: intra-operator threads, >= 1.
    """
    while inputs[-1][1] is None:
        inputs = inputs[:-1]
    signature = tuple(
        None if a is None else (n, a.dtype.str, a.shape if static else a.ndim) for n, a in inputs
    )
    key = (op, domain, opset, tuple(sorted(attributes.items())), signature, outputs, threads)
    feed = {n: np.ascontiguousarray(a) for n, a in inputs if a is not None}
    try:
        session = _sessions.get(key)
        if session is None:
            session = _build(op, domain, opset, attributes, inputs, outputs, threads, static)
            _sessions[key] = session
            if len(_sessions) > _KEPT_SESSIONS:
                _sessions.popitem(last=False)
        else:
            _sessions.move_to_end(key)
        return session.run(["out0"], feed)[0]
    except Exception as error:  # onnxruntime's exception types share no public base class
        raise Refused(_reason(str(error))) from error


def _build(op, domain, opset, attributes, inputs, outputs, threads, static):
    def info(name, array):
        shape = array.shape if static else [f"{name}_{i}" for i in range(array.ndim)]
        return helper.make_tensor_value_info(name, _ELEMENT[array.dtype], shape)

    out_type = _ELEMENT[inputs[0][1].dtype]
    out_names = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(
        op, [n if a is not None else "" for n, a in inputs], out_names, domain=domain, **attributes
    )
    graph = helper.make_graph(
        [node],
        "attention",
        [info(n, a) for n, a in inputs if a is not None],
        [helper.make_tensor_value_info(n, out_type, None) for n in out_names],
    )
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
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
