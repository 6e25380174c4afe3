"""OpenVINO's MVN-6 over the last axis, and LayerNorm and RMSNorm as the graphs of operators that it fuses, on the CPU device.

Documents:
https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/normalization/mvn-6.html (page
MVN-6), https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/arithmetic/add-1.html
(page Add-1) and the page precision-control of _openvino_sdpa.py. They are read as follows:
- MVN: "the specified epsilon number is added to the variance" under the root where eps_mode is inside_sqrt, the mode that is
  asked. gamma and beta are Multiply and Add behind it;
- LayerNorm and RMSNorm are ReduceMean, Subtract, Power, Add, Sqrt, Divide, Multiply, as exporters write them: each is the
  function of its own page, in the type of the tensors, which epsilon is rounded to; in MVN it is an attribute of 32 bits. Either is
  a rounding to the format of the statistics, which every policy has;
- precision: float32 is float32 in ACCURACY mode. Under a hint every step may be in the precision that the compiled model says
  it took (its property INFERENCE_PRECISION_HINT), since "the value provided is not guaranteed to be used". A result of
  beta, where the variance overflows, may then be rounded to that precision, or not;
- subnormal numbers: the property CPU_DENORMALS_OPTIMIZATION, which is off by default, says whether computing takes them for
  zero; no document says so of constants, in which they become zero (docs/findings.md, openvino-sdpa-6).
No document bounds the error of a root, nor names the way to a variance for MVN: its results show two passes, the graph writes them. Nothing is
said on batches, NaN, repeated calls: nothing is claimed.
"""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from attest import Refused, Unsupported

from . import _openvino_script as script
from ._forms import described
from ._kept import Kept
from ._openvino_sdpa import TYPES, effective, given, reason
from ._quotes import refusals

_core = ov.Core()
_models = Kept(64)
UNITS = {"bf16": 2.0**-8, "f16": 2.0**-11}  # half an ulp of 1

REFUSED = refusals("""
page Add-1 | ! this epsilon is no {call.dtype}, the type of the constant that is added | A tensor of type T and arbitrary shape.
""")


def mvn(x, gamma, beta, epsilon, last, kind):
    y = ops.mvn(x, last, True, epsilon, "inside_sqrt")
    y = y if gamma is None else ops.multiply(y, gamma)
    return y if beta is None else ops.add(y, beta)


def layer_norm(x, gamma, beta, epsilon, last, kind):
    d = ops.subtract(x, ops.reduce_mean(x, last, True))
    variance = ops.reduce_mean(ops.power(d, number(2, kind)), last, True)
    y = ops.divide(d, ops.sqrt(ops.add(variance, number(epsilon, kind))))
    y = y if gamma is None else ops.multiply(y, gamma)
    return y if beta is None else ops.add(y, beta)


def rms_norm(x, gamma, beta, epsilon, last, kind):
    square = ops.reduce_mean(ops.power(x, number(2, kind)), last, True)
    y = ops.multiply(x, ops.divide(number(1, kind), ops.sqrt(ops.add(square, number(epsilon, kind)))))
    return y if gamma is None else ops.multiply(gamma, y)


def number(value, kind):
    """A constant of one number, of the tensors' type."""
    return ops.constant(np.array(value, np.float32), kind)


def model(graph, width, gamma, beta, epsilon, kind):
    """The model of a graph over rows of a width, -1 for any. gamma and beta: None; the text "input", for one of the model's inputs;
    or an array, which is part of it."""
    inputs = [ops.parameter([-1, width], kind)]
    weights = []
    for weight in (gamma, beta):
        if isinstance(weight, str):
            inputs.append(ops.parameter([width], kind))
            weights.append(inputs[-1])
        else:
            weights.append(None if weight is None else ov.op.Constant(given(weight, kind)))
    return ov.Model([graph(inputs[0], *weights, epsilon, ops.constant(np.array([-1], np.int64)), kind)], inputs)


GRAPHS = {"MVN": mvn, "LayerNorm": layer_norm, "RMSNorm": rms_norm}


class Norm:
    """One graph under ACCURACY mode, or under the hint of a precision; gamma and beta inputs of the model, or part of it."""

    def __init__(self, name, graph, precision=None, constants=False):
        self.name, self.graph, self.precision, self.constants = f"openvino:{name}", graph, precision, constants
        self.version = f"openvino {ov.__version__.split('-')[0]}"
        self.made = GRAPHS[graph]
        self.taken = None if precision is None else effective(precision)

    def describe(self):
        rms = self.graph == "RMSNorm"
        pinned = self.constants or rms  # a graph of RMSNorm for any width is not fused
        supports = {"norms": ["rms" if rms else "layer"], "beta": not rms, "dims": {"rows": [0, None, 1]}}
        return described("layer_norm", TYPES, supports, self.promised(), **({"plan_ms": 30} if pinned else {}))

    def promised(self):
        flushed = {"rsqrt_ulp": {"f32": 4}, "flush_to_zero": "inputs" if self.constants or self.precision else {"bf16": True}}
        if self.precision is None:
            return {"policy": {"f32": "f32"}, **flushed}
        if self.taken == "f32":
            return flushed
        every = {dtype: f"*={self.taken},storage={dtype},output={dtype}" for dtype in TYPES}
        return {"policy": every, **flushed}

    def layer_norm(self, call):
        if self.graph != "MVN" and not self.holds(call.epsilon, call.dtype):
            raise Unsupported(f"this epsilon is no {call.dtype}, the type of the constant that is added")
        try:
            request = self.request(call)
            kind = TYPES[call.dtype]
            views = [call.x] if self.constants else [v for v in (call.x, call.gamma, call.beta) if v is not None]
            arrays = [np.require(view, requirements="CW") for view in views]  # read where they lie, in infer()
            for index, array in enumerate(arrays):
                request.set_input_tensor(index, given(array, kind))
            request.infer()
            call.out[...] = request.get_output_tensor().data.view(call.out.dtype)
        except RuntimeError as error:
            raise Refused(f"openvino: {reason(str(error))}") from error

    def request(self, call):
        """The request of a compiled model, which is kept."""
        weights = [None if view is None else np.require(view, requirements="CW").copy() if self.constants else "input"
                   for view in (call.gamma, call.beta)]
        width = self.width(call)
        key = (self.name, call.dtype, width, call.epsilon, call.threads,
               *(weight.tobytes() if isinstance(weight, np.ndarray) else weight for weight in weights))
        made = model(self.made, width, *weights, call.epsilon, TYPES[call.dtype]) if key not in _models.made else None
        # A constant is read where it lies: its array is kept with the request.
        return _models.get(key, lambda: (
            _core.compile_model(made, "CPU", self.config(call.threads)).create_infer_request(), weights))[0]

    def width(self, call):
        return call.x.shape[1] if self.constants or self.graph == "RMSNorm" else -1

    def holds(self, epsilon, dtype):
        """Whether the constant of the tensors' type is an epsilon that the statistics' format permits."""
        taken = self.taken if self.taken in UNITS else dtype
        if taken == dtype:
            return True
        slack = 0 if rounded(epsilon, taken) == epsilon else UNITS[taken] * epsilon
        return abs(rounded(epsilon, dtype) - epsilon) <= slack

    def script(self, call, beside=None):
        return script.norm(self, call, (mvn,) if self.made is mvn else (number, self.made))

    def config(self, threads):
        config = {"EXECUTION_MODE_HINT": "ACCURACY"} if self.precision is None else {"INFERENCE_PRECISION_HINT": self.precision}
        return {**config, "INFERENCE_NUM_THREADS": threads} if threads else config


def rounded(number, dtype):
    """The number of the type that is nearest."""
    with np.errstate(all="ignore"):
        if dtype != "bf16":
            return float({"f16": np.float16, "f32": np.float32}[dtype](number))
        bits = int(np.float32(number).view(np.uint32))
        return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))
