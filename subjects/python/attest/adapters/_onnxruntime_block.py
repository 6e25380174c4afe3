"""Attention blocks of ONNX Runtime on the CPUExecutionProvider: com.microsoft.MultiHeadAttention between projections that are
MatMul and Add, as exporters write them, and com.microsoft.Attention, which projects its input itself and is projected by
MatMul and Add.

Documents: those of _onnxruntime_mha.py and _onnxruntime_contrib_attention.py, where they are read, and ONNX's MatMul-13 and
Add-14. Nothing is said on precision, empty rows, determinism: nothing is claimed, and exp may be off by 4 ulp in float32. float16 runs on float32 kernels through
inserted casts, some of which a session takes out again: projections and heads may be rounded or not, the bias added before or
behind.

How a graph is built is the subject's name: operations other than attention have no forms in describe. `optimisation`: how far
the session may rewrite the graph. `weights`: part of the model, as they are in files, or inputs. `bias`: Add, or the
operator's own input. `projection`: three products, one of the width of all whose result is split, or three of which key and value go on as `bnsh`, "past_key with
shape (batch_size, num_heads, kv_sequence_length, head_size)", which the schema has for cross-attention.
"""

import numpy as np

from . import _onnxruntime_contrib_attention as contrib, _onnxruntime_mha as multi_head
from ._forms import BLOCK_WAYS, described
from ._mha_call import as_attention
from ._onnx_call import DEFAULT_THREADS, cited, scale_attribute
from ._onnx_node import Graph, Step
from ._quotes import quotes, told

DTYPES = ("f16", "f32")

_PRODUCT = quotes("schema of ai.onnx MatMul-13 | attention | Matrix product that behaves like")
_OF_ATTENTION = ("causal", "bias", "keep", "kv_lengths", "scale")


class Block:
    """One operator between projections. A subclass says `memory`, `documents` and attention(call, seen): the inputs and the steps
    that make the heads, `seen` being the call as adapters of attention read it."""

    def __init__(self, name, engine, optimisation="all", weights="constants", bias="add", projection="three"):
        self.name, self.engine, self.version = name, engine, engine.versions()
        self.optimisation, self.weights, self.bias, self.projection = optimisation, weights, bias, projection

    def describe(self):
        return described("mha", DTYPES, {"memory": self.memory, "scale": "any"}, {"exp_ulp": {"f32": 4}} | BLOCK_WAYS,
                         documents=told(self.documents, cited))

    def mha(self, call):
        call.out[...] = self.engine.run(self.graph(call))

    def script(self, call, beside=None):
        return self.engine.source(self.graph(call), call)

    def graph(self, call):
        inputs, steps = self.attention(call, as_attention(call, top_left=True))
        inputs = [("x", call.x), *inputs, ("w_out", call.w_out.T), ("b_out", call.b_out)]
        steps += projected("heads", "w_out", None if call.b_out is None else "b_out", "out")
        held = [name for name, array in inputs if array is not None and name.startswith(("w_", "b_"))]
        return Graph(steps, 17, inputs, ["out"], call.threads or DEFAULT_THREADS, optimisation=self.optimisation,
                     constants=(*(held if self.weights == "constants" else ()), "heads_apart"))


class MultiHeadAttention(Block):
    memory = ["self", "cross"]
    documents = {about: multi_head.DOCUMENTS[about] for about in _OF_ATTENTION} | _PRODUCT

    def attention(self, call, seen):
        inputs, steps, merged = self.projections(call)
        attributes = {"num_heads": call.heads, **scale_attribute(seen, "as_called")}
        if seen.causal:
            attributes["unidirectional"] = 1
        padding, bias = multi_head.masks(seen, "shortest")
        inputs += [("memory", call.memory), ("projection_bias", merged), ("key_padding_mask", padding),
                   ("attention_bias", bias)]
        given = dict(inputs)
        names = ["q", "k", "v", *(name if given[name] is not None else "" for name in (
            "projection_bias", "key_padding_mask", "attention_bias"))]
        while not names[-1]:
            names.pop()
        return inputs, [*steps, Step("MultiHeadAttention", names, ["heads"], attributes, "com.microsoft")]

    def projections(self, call):
        """(inputs, steps that make q, k and v, the biases for the operator or None)."""
        biases = [call.b_q, call.b_k, call.b_v]
        merged = np.concatenate(biases) if call.b_q is not None and self.bias == "operator" else None
        added = call.b_q is not None and merged is None
        source = "x" if call.memory is None else "memory"
        if self.projection == "split" and call.memory is None:
            inputs = [("w_qkv", np.concatenate([call.w_q, call.w_k, call.w_v]).T),
                      ("b_qkv", np.concatenate(biases) if added else None),
                      ("widths", np.array([call.w_q.shape[0]] * 3, np.int64))]
            steps = projected("x", "w_qkv", "b_qkv" if added else None, "qkv")
            return inputs, [*steps, Step("Split", ["qkv", "widths"], ["q", "k", "v"], {"axis": -1})], merged
        inputs, steps = [], []
        outside = self.projection == "bnsh" and call.memory is not None and merged is None
        for part, of in zip("qkv", ("x", source, source)):
            turned = outside and part != "q"
            made = f"{part}_rows" if turned else part
            inputs += [(f"w_{part}", getattr(call, f"w_{part}").T), (f"b_{part}", getattr(call, f"b_{part}") if added else None)]
            steps += projected(of, f"w_{part}", f"b_{part}" if added else None, made)
            if turned:
                steps += [Step("Reshape", [made, "heads_apart"], [f"{part}_heads"]),
                          Step("Transpose", [f"{part}_heads"], [part], {"perm": [0, 2, 1, 3]})]
        if outside:
            inputs.append(("heads_apart", np.array([0, 0, call.heads, -1], np.int64)))
        return inputs, steps, merged


class Attention(Block):
    memory = ["self"]
    documents = {about: contrib.DOCUMENTS[about] for about in _OF_ATTENTION} | {
        "attention": [*contrib.DOCUMENTS["form.projection"], *contrib.DOCUMENTS["form.projection_bias"], *_PRODUCT["attention"]]}

    def attention(self, call, seen):
        width = call.w_q.shape[0]
        attributes = {"num_heads": call.heads, **scale_attribute(seen, "as_called")}
        if width != call.x.shape[2]:
            attributes["qkv_hidden_sizes"] = [width] * 3
        if contrib.unidirectional(seen):
            attributes["unidirectional"] = 1
        mask, bias = contrib.masks(seen, "shortest")
        # Without a bias the process dies: ort-contrib-1.
        merged = np.zeros(3 * width, call.x.dtype) if call.b_q is None else np.concatenate([call.b_q, call.b_k, call.b_v])
        inputs = [("w_qkv", np.concatenate([call.w_q, call.w_k, call.w_v]).T), ("b_qkv", merged), ("mask_index", mask),
                  ("attention_bias", bias)]
        names = ["x", "w_qkv", "b_qkv", "" if mask is None else "mask_index", "", "" if bias is None else "attention_bias"]
        while not names[-1]:
            names.pop()
        return inputs, [Step("Attention", names, ["heads"], attributes, "com.microsoft")]


def projected(source, weights, bias, out):
    """Steps that make `out` of `source`; `bias`: the name of one, or None."""
    if bias is None:
        return [Step("MatMul", [source, weights], [out])]
    return [Step("MatMul", [source, weights], [f"{out}_product"]), Step("Add", [f"{out}_product", bias], [out])]
