"""Attention as a graph of ONNX's standard operators on ONNX Runtime's CPUExecutionProvider, which may rewrite it.

Documents: the operator schemas of ONNX 1.23, opset 21, and the page "Graph Optimizations in ONNX Runtime",
https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html. They are read as follows:
- each operator gives its output the type T of its inputs, so every step is one of the tensors' own type;
- Softmax is Exp of its input, so that no power of 2 takes its place, and its output, which MatMul gets, is divided by the sum;
- Softmax of a row of -inf is 0/0, for which no document has a word: nothing is claimed;
- no level of optimisation is said to change what is computed, so each is held to the same contract.
A mask says what no operator does. A softcap is Div, Tanh and Mul, before it.
"""

import numpy as np

from attest import Unsupported

from ._forms import may_be_empty, refuse
from ._masks import added_to, keep_of, narrowed
from ._onnx_call import DEFAULT_THREADS, SESSIONS, TYPES, Operator, check, heads_inside, session
from ._onnx_node import Graph, Step
from ._onnxruntime_script import LEVELS
from ._quotes import quotes


DOCUMENTS = quotes("""
schema of ai.onnx MatMul-13 | attention | Matrix product that behaves like [numpy.matmul]
schema of ai.onnx Add-14 | bias keep | Performs element-wise binary addition (with Numpy-style broadcasting support).
schema of ai.onnx Tanh-13 | softcap | Calculates the hyperbolic tangent of the given input tensor element-wise.
schema of ai.onnx Mul-14
    scale | Performs element-wise binary multiplication (with Numpy-style broadcasting support).
    policy | Constrain input and output types to all numeric tensors.
schema of ai.onnx Softmax-13
    attention | Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)
    policy | Constrain input and output types to float tensors.
schema of ai.onnx Div-14 | form.scale=divide ! the reciprocal of this scale is rounded | Performs element-wise binary division (with Numpy-style broadcasting support).
schema of ai.onnx Where-16 | form.mask=where | Return elements, either from X or Y, depending on condition.
page Graph Optimizations in ONNX Runtime
    form.optimisation | ONNX Runtime provides various graph optimizations to improve performance.
    form.optimisation=basic | These are semantics-preserving graph rewrites which remove redundant nodes and redundant computation.
inputs of ai.onnx Mul-14 | ! this {name} is no {self.call.dtype}, the type of the operator's input | [A T, B T]
inputs of ai.onnx Div-14 | ! this {name} is no {self.call.dtype}, the type of the operator's input | [A T, B T]
schema of ai.onnx Sqrt-13 | ! a negative scale has no root | If x is negative, then it will return NaN.
""")


class Explicit(Operator):
    documents = DOCUMENTS
    forms = {
        **SESSIONS,
        "optimisation": list(LEVELS),
        "layout": ["4d", "3d"],  # (B, H, L, D), or (B, L, H*D) with the heads brought out by Reshape and Transpose
        "scale": ["scores", "queries", "roots", "divide"],  # the operand multiplied by it, or by its root; or scores are divided
        "scalars": ["constant", "input"],  # the scale and the softcap
        "mask": ["add", "where", "full"],  # a mask of 0 and -inf; Where behind the bias; added, and written out
        "softmax": ["node", "steps"],  # the operator, or ReduceMax, Sub, Exp, ReduceSum, Div
    }

    def describe(self):
        return self.described(TYPES, {"gqa": True, "softcap": True, "window": True, "dims": may_be_empty("b", "hq", "hkv", "lq", "lk")}, {
            "policy": {"f16": "f16-all", "f32": "f32", "f64": "f64"},
            "softcap_before_bias": True,
            "exp2": False,
            "normalise": ["before"],
            "lse_merge": "none",
        })

    def node(self, call):
        check(call, "the graph", TYPES, window=True)
        said = self.said(call)
        made = Made(call, said["scalars"])
        q, k, v = made.tensors(said["layout"])
        scores = made.scores(q, made.transposed(k), said["scale"])
        if call.softcap > 0:
            cap = made.number("cap", call.softcap)
            scores = made.step("Mul", made.step("Tanh", made.step("Div", scores, cap)), cap)
        weights = made.softmax(made.masked(scores, said["mask"]), said["softmax"])
        made.out(made.step("MatMul", weights, v), said["layout"])
        how = session(said, mask=("bias", "keep"), kv=("k", "v"))
        how["constants"] += tuple(made.constants)
        return Graph(made.steps, 21, made.inputs, ["out"], call.threads or DEFAULT_THREADS, **how)


class Made:
    """A graph in the making."""

    def __init__(self, call, scalars):
        self.call, self.scalars = call, scalars
        self.steps, self.inputs, self.constants = [], [], []
        self.number_type = TYPES[call.dtype]

    def step(self, op, *inputs, **attributes):
        """The name of what the operator gives."""
        self.steps.append(Step(op, list(inputs), [f"{op.lower()}_{len(self.steps)}"], attributes))
        return self.steps[-1].outputs[0]

    def input(self, name, array):
        self.inputs.append((name, array))
        return name

    def constant(self, name, array):
        self.constants.append(name)
        return self.input(name, array)

    def number(self, name, value):
        """A scalar of the tensors' type; Unsupported where one rounding makes it another number."""
        with np.errstate(over="ignore", under="ignore"):
            stored = np.array(value, self.number_type)
        if not abs(float(stored) - value) <= float(np.finfo(self.number_type).eps) / 2 * abs(value):
            raise Unsupported(f"this {name} is no {self.call.dtype}, the type of the operator's input")
        return self.constant(name, stored) if self.scalars == "constant" else self.input(name, stored)

    def tensors(self, layout):
        """q, k and v as [B, Hq, L, D]."""
        names = []
        for name, array in ("q", self.call.q), ("k", self.call.k), ("v", self.call.v):
            heads = array.shape[1]
            made = self.input(name, array if layout == "4d" else heads_inside(array))
            if layout == "3d":
                shape = self.constant(f"{name}_heads", np.array([0, 0, heads, array.shape[3]]))
                made = self.step("Transpose", self.step("Reshape", made, shape), perm=[0, 2, 1, 3])
            names.append(self.repeated(made, name, heads, array.shape[3]))
        return names

    def repeated(self, made, name, heads, width):
        """Keys or values, each head as often as a group has queries."""
        queries = self.call.q.shape[1]
        if heads == queries:
            return made
        axis = self.constant(f"{name}_axis", np.array([2]))
        group = self.constant(f"{name}_group", np.array([1, 1, queries // heads, 1, 1]))
        shape = self.constant(f"{name}_repeated", np.array([0, queries, -1, width]))
        return self.step("Reshape", self.step("Expand", self.step("Unsqueeze", made, axis), group), shape)

    def transposed(self, k):
        return self.step("Transpose", k, perm=[0, 1, 3, 2])

    def scores(self, q, k, form):
        scale = self.call.scale
        if form == "roots":
            refuse(scale < 0, "a negative scale has no root")
            root = self.number("root", float(np.sqrt(scale)))
            return self.step("MatMul", self.step("Mul", q, root), self.step("Mul", k, root))
        if form == "queries":
            return self.step("MatMul", self.step("Mul", q, self.number("scale", scale)), k)
        scores = self.step("MatMul", q, k)
        if form == "scores":
            return self.step("Mul", scores, self.number("scale", scale))
        with np.errstate(all="ignore"):
            divisor = self.number_type(1) / self.number_type(scale)
        refuse(scale == 0 or divisor == 0 or 1 / float(divisor) != scale, "the reciprocal of this scale is rounded")
        return self.step("Div", scores, self.number("divisor", float(divisor)))

    def masked(self, scores, form):
        call = self.call
        cut = (0, 1, 2)
        keep = keep_of(call, None if call.keep is None else narrowed(call.keep, cut))
        bias = None if call.bias is None else narrowed(call.bias, cut)
        if keep is not None and form != "where":
            bias, keep = added_to(call, keep, call.dtype, bias), None
        if bias is not None:
            if form == "full":
                bias = np.broadcast_to(bias, (*call.q.shape[:3], call.k.shape[2]))
            scores = self.step("Add", scores, self.input("bias", bias))
        if keep is not None:
            closed = self.constant("closed", np.array(-np.inf, self.number_type))
            scores = self.step("Where", self.input("keep", keep), scores, closed)
        return scores

    def softmax(self, scores, form):
        if form == "node":
            return self.step("Softmax", scores, axis=-1)
        axes = self.constant("axes", np.array([-1]))
        weights = self.step("Exp", self.step("Sub", scores, self.step("ReduceMax", scores, axes)))
        return self.step("Div", weights, self.step("ReduceSum", weights, axes))

    def out(self, heads, layout):
        if layout == "3d":
            shape = self.constant("out_shape", np.array([0, 0, self.call.q.shape[1] * self.call.v.shape[3]]))
            self.step("Reshape", self.step("Transpose", heads, perm=[0, 2, 1, 3]), shape)
        self.steps[-1].outputs = ["out"]
