"""ONNX Runtime's normalisations on the CPUExecutionProvider: LayerNormalization-17 and RMSNormalization-23 of ONNX, and
SimplifiedLayerNormalization, com.microsoft SkipLayerNormalization and SkipSimplifiedLayerNormalization of its own.

Documents: the schemas of the operators in ONNX 1.23 and onnxruntime 1.31. They are read as follows:
- LayerNormalization: "if `stash_type` is 1, this operator casts all input variables to 32-bit float, perform the computation,
  and finally cast `Normalized` back to the original type of `X`": the statistics and the normalised value in float32, of
  float16 and of double too, and that value rounded to the type of X. "The second stage doesn't depends on `stash_type`": in the
  type of X;
- RMSNormalization: the same of stash_type and of its first stage;
- SimplifiedLayerNormalization: no text but the names of inputs and attributes. Nothing is claimed but the function;
- the Skip operators: "Skip and Layer Normalization Fusion", "Skip and Root Mean Square Layer Normalization"; the fourth output
  is the "Sum of the input and skip inputs". Statistics may be in the type of the input, of the sum before or behind its rounding.
The equations of the schema say what the variance is, not in which order it is summed. The bound is that of the way the library
goes as its results show, Welford's, with room for joined parts: it is wider than that of two passes.
A call is a subject for each other way in which an operator takes it, of the same contract: `axes` 2, where the last axis is split into two
that are normalised together ("`[axis, ..., rank of X - 1]`"); `statistics`, with Mean and InvStdDev asked for as well; `bias` of zeros,
which adds nothing; `rank` 2, input and skip "with shape (token_count, hidden_size)". A residual whose rows are all one goes in as skip of
"(sequence_length, hidden_size)", of one token, where the schema has that.
epsilon is an attribute, a 32-bit float. Scale (gamma) is no optional input anywhere. Nothing is claimed on NaN, batches, repeated
calls. bfloat16, for which there are kernels, is not asked: numpy has no such type.
"""

import numpy as np

from ._forms import described
from ._onnx_call import DEFAULT_THREADS, attribute
from ._onnx_node import Node

_FLOAT_STAGES = "statistics=f32,normalise=f32"
_STASHED = {"policy": {"f32": "f32", "f16": f"f16-all,{_FLOAT_STAGES}", "f64": f"f64,{_FLOAT_STAGES}"},
            "norm_rounded": True}
_WELFORD = {"variance": "welford", "merge": "delta", "merge_depth": 64}
_NO_WORD = {"rsqrt_ulp": {"f32": 4}}  # on how exact a root is; in 16 bits an ulp of their own is more than this
_OWN_SUM = {**_NO_WORD, "policy": {"f32": "f32", "f16": "f16-all,sum=f32"}, "sum_of": "unrounded"}


class Normalization:
    """One operator. A subclass says `op`, `domain`, `opset`, `dtypes`, `supports` and `contract`."""

    domain, opset = "", 17
    dtypes = ("f32", "f16", "f64")
    skips = False  # whether it adds a residual, always

    def __init__(self, name, engine, axes=1, statistics=False, bias=False, rank=3):
        self.name, self.engine, self.version = name, engine, engine.versions()
        self.axes, self.statistics, self.bias, self.rank = axes, statistics, bias, rank

    def describe(self):
        always = {"residual": "required" if self.skips else False, "sum_out": self.skips, "gamma": "required"}
        return described("layer_norm", self.dtypes, always | self.supports, self.contract)

    def layer_norm(self, call):
        results = self.engine.run_all(self.node(call))
        call.out[...] = results[0].reshape(call.out.shape)
        if call.sum_out is not None:
            call.sum_out[...] = results[1].reshape(call.sum_out.shape)

    def script(self, call, beside=None):
        return self.engine.source(self.node(call), call)

    def node(self, call):
        # One rounding to float32 is part of every policy here: that of double has float32 statistics.
        attributes = {"epsilon": attribute("epsilon", call.epsilon, "f32"), **self.attributes()}
        node = Node(self.op, self.domain, self.opset, attributes, self.inputs(call), self.outputs(call),
                    call.threads or DEFAULT_THREADS)
        if self.statistics:  # outputs of the node, not of the graph
            node.steps[0].outputs = ["Y", "Mean", "InvStdDev"]
        return node

    def attributes(self):
        return {"axis": -self.axes}

    def inputs(self, call):
        x, gamma, beta = (None if array is None else self.split(array) for array in (call.x, call.gamma, call.beta))
        return [("X", x), ("Scale", gamma), ("B", beta)]

    def outputs(self, _call):
        return ["Y"]

    def split(self, array):
        """The array with its last axis split into so many."""
        if self.axes == 1:
            return array
        first = next(n for n in range(int(array.shape[-1] ** 0.5), 0, -1) if array.shape[-1] % n == 0)
        return array.reshape(*array.shape[:-1], first, -1)


class LayerNormalization(Normalization):
    op = "LayerNormalization"
    supports = {"norms": ["layer"], "beta": True}
    contract = {**_STASHED, **_WELFORD}


class RMSNormalization(Normalization):
    op, opset = "RMSNormalization", 23
    supports = {"norms": ["rms"], "beta": False}
    contract = _STASHED


class SimplifiedLayerNormalization(Normalization):
    op = "SimplifiedLayerNormalization"
    dtypes = ("f32", "f16")
    supports = {"norms": ["rms"], "beta": False}
    contract = _NO_WORD


class SkipLayerNormalization(Normalization):
    op, domain = "SkipLayerNormalization", "com.microsoft"
    dtypes = ("f32", "f16")
    skips = True
    supports = {"norms": ["layer"], "beta": True}
    contract = {**_OWN_SUM, **_WELFORD}
    broadcasts = True  # whether skip may be that of every sample

    def attributes(self):
        return {}

    def inputs(self, call):
        x, skip = (call.x, call.residual) if self.rank == 2 else (call.x[None], call.residual[None])
        if self.broadcasts and call.residual.strides[0] == 0 and len(call.x) > 1:
            x, skip = call.x[:, None], call.residual[:1]
        bias = np.zeros(call.x.shape[1], call.x.dtype) if self.bias else None
        return [("input", x), ("skip", skip), ("gamma", call.gamma), ("beta", call.beta), ("bias", bias)]

    def outputs(self, call):
        return ["output"] if call.sum_out is None else ["output", "", "", "input_skip_bias_sum"]


class SkipSimplifiedLayerNormalization(SkipLayerNormalization):
    op = "SkipSimplifiedLayerNormalization"
    supports = {"norms": ["rms"], "beta": False}
    contract = _OWN_SUM
    broadcasts = False

    def inputs(self, call):
        return [each for each in super().inputs(call) if each[0] != "beta"]
