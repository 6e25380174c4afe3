#!/usr/bin/env python3
"""Writes the graphs that tests ask, models/*.onnx: attention spelt out in four ways, LayerNorm, an encoder of one layer; and the
cross-encoder of four layers of docs/founding/S3-model.

Usage: models.py FOLDER [FOUNDING]           writes them, the cross-encoder into FOUNDING
       models.py FOLDER FOUNDING --check     has onnx check what is there; 125 without the package onnx
All sizes that can be are open. Needs onnx and numpy.
"""
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnx", "./run test installs it")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
NUMPY = {FLOAT: np.float32, HALF: np.float16}


class Graph:
    def __init__(self, seed):
        self.rng, self.nodes, self.constants, self.inputs, self.outputs = np.random.default_rng(seed), [], [], [], []

    def input(self, name, kind, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, values, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, *shape, scale=None):
        values = self.rng.standard_normal(shape) * (scale or 1 / math.sqrt(shape[0]))
        return self.constant(values.astype(np.float32))

    def __call__(self, op, *inputs, name=None, **attributes):
        name = name or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def output(self, name, kind, *shape):
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def attention(scale, mask=None, kind=FLOAT):
    """scale: where 1/sqrt(dim) is applied. mask: Where with a bool, or an addend; softmax of f16 runs in f32, between casts."""
    g, dim, number = Graph(1), 16, NUMPY[kind]
    q = g.input("q", kind, "batch", "heads", "queries", dim)
    k = g.input("k", kind, "batch", "heads", "keys", dim)
    v = g.input("v", kind, "batch", "heads", "keys", "dim_v")
    k = g("Transpose", k, perm=[0, 1, 3, 2])
    if scale == "queries":
        q = g("Mul", q, g.constant(number(dim ** -0.5), "scale"))
    if scale == "both":
        root = g.constant(number(dim ** -0.25), "scale")
        q, k = g("Mul", q, root), g("Mul", k, root)
    x = g("MatMul", q, k, name="scores")
    if scale == "scores":
        x = g("Mul", x, g.constant(number(dim ** -0.5), "scale"))
    if scale == "division":
        x = g("Div", x, g.constant(number(dim ** 0.5), "scale"))
    if mask == "where":
        x = g("Where", g.input("mask", TensorProto.BOOL, "batch", 1, "queries", "keys"), x,
              g.constant(np.finfo(number).min))
    if mask == "add":
        x = g("Add", x, g.input("mask", kind, "batch", 1, 1, "keys"))
    if kind == HALF:
        x = g("Cast", x, to=FLOAT)
    p = g("Softmax", x, axis=-1, name="weights")
    if kind == HALF:
        p = g("Cast", p, to=kind)
    g("MatMul", p, v, name="y")
    g.output("y", kind, "batch", "heads", "queries", "dim_v")
    return g.model()


def norm_of(g, x, width, name=None):
    """LayerNorm spelt out."""
    axis = g.constant(np.array([-1], np.int64))
    d = g("Sub", x, g("ReduceMean", x, axis, keepdims=1))
    variance = g("ReduceMean", g("Pow", d, g.constant(np.float32(2))), axis, keepdims=1)
    y = g("Div", d, g("Sqrt", g("Add", variance, g.constant(np.float32(1e-5)))))
    gamma = g.constant((1 + 0.3 * g.rng.standard_normal(width)).astype(np.float32))
    return g("Add", g("Mul", y, gamma), g.weight(width, scale=0.2), name=name)


def norm(spelt_out):
    g, width = Graph(2), 100
    x = g.input("x", FLOAT, "rows", width)
    if spelt_out:
        norm_of(g, x, width, "y")
    else:
        g("LayerNormalization", x, g.weight(width, scale=1), g.weight(width, scale=0.2), name="y", epsilon=1e-5)
    g.output("y", FLOAT, "rows", width)
    return g.model()


def encoder(layers=1):
    """A cross-encoder: ids and a mask to a logit a sample. One of several layers has no other output, and its tensors say their layer."""
    g, width, heads, words = Graph(3), 16, 2, 24
    named = (lambda name, layer: name) if layers == 1 else (lambda name, layer: f"layer{layer}.{name}")
    ids = g.input("ids", TensorProto.INT64, "batch", "length")
    mask = g.input("mask", TensorProto.INT64, "batch", "length")
    kept = g("Cast", g("Unsqueeze", mask, g.constant(np.array([1, 2], np.int64))), to=FLOAT)
    bias = g("Mul", g("Sub", g.constant(np.float32(1)), kept), g.constant(np.finfo(np.float32).min))
    linear = lambda x, i, o: g("Add", g("MatMul", x, g.weight(i, o)), g.weight(o, scale=0.1))
    split = g.constant(np.array([0, 0, heads, width // heads], np.int64))
    join = g.constant(np.array([0, 0, width], np.int64))
    x = norm_of(g, g("Gather", g.weight(words, width, scale=1), ids), width)
    head = lambda order: g("Transpose", g("Reshape", linear(x, width, width), split), perm=order)
    for layer in range(layers):
        q, k, v = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
        scale = g.constant(np.float32(math.sqrt(width // heads)), named("scale", layer))
        scores = g("Div", g("MatMul", q, k, name=named("scores", layer)), scale)
        p = g("Softmax", g("Add", scores, bias), axis=-1, name=named("weights", layer))
        context = g("MatMul", p, v, name=named("context", layer) if layers > 1 else None)
        o = g("Reshape", g("Transpose", context, perm=[0, 2, 1, 3]), join)
        x = norm_of(g, g("Add", linear(o, width, width), x), width)
        h = linear(x, width, 2 * width)
        e = g("Erf", g("Div", h, g.constant(np.float32(math.sqrt(2)))), name=named("erf", layer))
        h = g("Mul", g("Mul", h, g("Add", e, g.constant(np.float32(1)))), g.constant(np.float32(0.5)))
        x = norm_of(g, g("Add", linear(h, 2 * width, width), x), width, named("hidden", layer))
    first = g("Gather", x, g.constant(np.int64(0)), axis=1)
    g("MatMul", g("Tanh", linear(first, width, width)), g.weight(width, 1), name="logit")
    g.output("logit", FLOAT, "batch", 1)
    if layers == 1:
        g.output(x, FLOAT, "batch", "length", width)
    return g.model()


MODELS = {
    "attention-queries": lambda: attention("queries"),
    "attention-scores": lambda: attention("scores", "where"),
    "attention-both": lambda: attention("both", "add"),
    "attention-division": lambda: attention("division"),
    "attention-f16": lambda: attention("queries", "add", HALF),
    "norm": lambda: norm(True),
    "norm-op": lambda: norm(False),
    "encoder": encoder,
}
FOUNDING = {"cross-encoder": lambda: encoder(4)}


def main(arguments):
    check = arguments[-1] == "--check"
    folders = arguments[:-1] if check else arguments
    count = 0
    for folder, models in zip(folders, (MODELS, FOUNDING)):
        for name, make in models.items():
            file = Path(folder) / f"{name}.onnx"
            count += 1
            if check:
                onnx.checker.check_model(onnx.load(file), full_check=True)
            else:
                file.write_bytes(make().SerializeToString())
    print(f"{count} models")


if __name__ == "__main__":
    main(sys.argv[1:])
