"""ONNX models of an attention call: one node, or a graph of several, with the arrays they are run on."""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ELEMENT = {
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.bool_): TensorProto.BOOL,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
}


@dataclass
class Step:
    """One operator of a graph."""

    op: str
    inputs: list  # names, "" for an optional input that is left out
    outputs: list  # names, "" for one that is left out
    attributes: dict = field(default_factory=dict)
    domain: str = ""


@dataclass
class Graph:
    """Operators in order, with the arrays they are run on."""

    steps: list
    opset: int
    inputs: list  # pairs (name, array or None); None leaves an optional input out
    outputs: list  # names, "" for one that is left out
    threads: int  # intra-operator threads, >= 1
    static: bool = False  # the array shapes are pinned in the model
    constants: tuple = ()  # names of inputs that are part of the model
    optimisation: str = "all"  # how far the session may rewrite the graph: all, extended, basic, none
    shared: dict = field(default_factory=dict)  # inputs whose memory an output is written to: {input: output}
    kept: dict = field(default_factory=dict)  # outputs whose type is not that of the first input: {output: numpy type}
    ahead: tuple = ()  # by how many rows each sample's queries lie ahead of those of the call, if they do
    rest: object = None  # _onnx_scores.Rest, where not the first output but scores or weights are read

    def given(self):
        """(name, array) of each input that is not left out."""
        return [(name, array) for name, array in self.inputs if array is not None]

    def fed(self):
        """(name, packed array) of each input that a run hands over."""
        return [(name, np.asarray(array, order="C")) for name, array in self.given() if name not in self.constants]

    def stored(self):
        """(name, array) of each input that the model holds."""
        return [(name, array) for name, array in self.given() if name in self.constants]

    @property
    def fetched(self):
        """The name of the output that is read."""
        return self.rest.output if self.rest else self.outputs[0]

    def opsets(self):
        """(domain, version) of each operator set the model imports."""
        return [("", self.opset)] + [(domain, 1) for domain in sorted({step.domain for step in self.steps} - {""})]

    @property
    def heads_outside(self):
        """Whether heads are a dimension of their own, in the first input as in the first output."""
        return self.given()[0][1].ndim == 4

    def key(self):
        """The key that two calls have in common that run on one model."""
        signature = tuple((n, a.dtype.str, a.shape if self.static else a.ndim) for n, a in self.given())
        return (str(self.steps), self.opset, signature, tuple(self.outputs), self.threads, self.optimisation,
                tuple((n, a.shape, a.tobytes()) for n, a in self.stored()))

    def model(self):
        def info(name, array):
            shape = array.shape if self.static else [f"{name}_{i}" for i in range(array.ndim)]
            return helper.make_tensor_value_info(name, ELEMENT[array.dtype], shape)

        out_type = ELEMENT[self.given()[0][1].dtype]
        graph = helper.make_graph(
            [helper.make_node(s.op, s.inputs, s.outputs, domain=s.domain, **s.attributes) for s in self.steps],
            "attention",
            [info(n, a) for n, a in self.fed()],
            [helper.make_tensor_value_info(n, ELEMENT[np.dtype(self.kept[n])] if n in self.kept else out_type, None)
             for n in self.outputs if n],
            [numpy_helper.from_array(np.asarray(a, order="C"), n) for n, a in self.stored()],
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class Node(Graph):
    """A graph of one operator, whose inputs and outputs are the graph's, in its order."""

    def __init__(self, op, domain, opset, attributes, inputs, outputs, threads, **how):
        while inputs[-1][1] is None:
            inputs.pop()
        names = [name if array is not None else "" for name, array in inputs]
        super().__init__([Step(op, names, outputs, attributes, domain)], opset, inputs, outputs, threads, **how)

    @property
    def attributes(self):
        return self.steps[0].attributes
