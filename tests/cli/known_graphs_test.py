#!/usr/bin/env python3
"""Defects of shipped runtimes that docs/findings.md tells of, each in a small model: the default campaign finds it, at its node.
Usage: known_graphs_test.py ATTEST [unittest argument...]; KNOWN_GRAPHS_SECONDS=N fuzzes each for N seconds and prints what was found when, in place of a few problems."""
import importlib.metadata
import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
from command_line import ROOT, Cli, run
from onnx import TensorProto as T, helper, numpy_helper, save

os.environ["ATTEST_PYTHON"] = sys.executable
VERSIONS = {"onnxruntime": "1.31.1", "openvino": "2026.4.1"}


def f32(*values):
    return np.array(values, np.float32)


def norm(scale_first, inputs, type=np.float32, epsilon=1e-5, gamma=(1, 1), centred=False, bias=None):
    """LayerNormalization or RMSNorm spelt out over the last axis."""
    x = "d" if centred else "x"
    nodes = [("ReduceMean", "x axis", "m", {"keepdims": 1}), ("Sub", "x m", "d", {})] if centred else []
    nodes += [("Pow", f"{x} two", "sq", {}), ("ReduceMean", "sq axis", "v", {"keepdims": 1}), ("Add", "v eps", "ve", {}), ("Sqrt", "ve", "s", {}),
              ("Div", f"{x} s", "z", {}), ("Mul", "gamma z" if scale_first else "z gamma", "y" if bias is None else "zg", {})]
    constants = {"axis": [-1], "two": type(2), "eps": type(epsilon), "gamma": np.array(gamma, type)}
    if bias is not None:
        nodes.append(("Add", "zg bias", "y", {}))
        constants["bias"] = np.array(bias, type)
    return nodes, constants, inputs


def pair(x, scale, y):
    return [("QuantizeLinear", f"{x} {scale} zero", f"{y}_q", {}), ("DequantizeLinear", f"{y}_q {scale} zero", y, {})]


DOUBLE, HALF, FLOAT = T.DOUBLE, T.FLOAT16, T.FLOAT
GELU = [("Div", "x root", "a", {}), ("Erf", "a", "b", {}), ("Add", "b one", "c", {}), ("Mul", "x c", "d", {}), ("Mul", "d half", "y", {})]
GELU_OF = {"root": np.float32(1.4142), "one": np.float32(1), "half": np.float32(0.5)}
# Graphs by finding: nodes, constants, inputs (type and shape), the operators of which one is where it shows.
ONNXRUNTIME = {
    "ort-explicit-1": ([("MatMul", "x u", "s", {}), ("Mul", "s scale", "y", {})], {"scale": np.float64(0.2)}, {"x": (DOUBLE, ["n", 3]), "u": (DOUBLE, [3, "m"])}, {"Mul"}),
    "ort-graph-1": (*norm(False, {"x": (FLOAT, ["n", 2])}, centred=True, epsilon=0.5, bias=(0, 0)), {"Add", "Mul"}),
    "ort-graph-2": (*norm(False, {"x": (DOUBLE, ["n", 2])}, np.float64, centred=True, epsilon=0.1, bias=(0, 0)), {"Add", "Mul"}),
    "ort-graph-3": (GELU, GELU_OF, {"x": (FLOAT, ["n"])}, {"Mul"}),
    "ort-graph-4": ([("Relu", "x", "r", {}), ("Clip", "r low high", "y", {})], {"low": np.int32(-1), "high": np.int32(5)}, {"x": (T.INT32, ["n"])}, {"Clip"}),
    "ort-graph-5": (*norm(True, {"x": (FLOAT, [2])}), {"Mul"}),
    "ort-graph-6": (*norm(False, {"x": (DOUBLE, ["n", 2])}, np.float64, epsilon=0.5), {"Mul"}),
    "ort-graph-7": (*norm(False, {"x": (FLOAT, ["n", 1])}), {"Mul"}),
    "ort-graph-8": ([("Add", "x u", "z", {}), ("LayerNormalization", "z gamma beta", "y", {"axis": 1})], {"gamma": f32(1, 2), "beta": f32(0, 1)},
                    {"x": (FLOAT, ["n", 3, 2]), "u": (FLOAT, ["n", 3, 2])}, {"LayerNormalization"}),
    "ort-graph-9": ([("Div", "one x", "a", {}), ("Mul", "a u", "y", {})], {"one": np.int64(1)}, {"x": (T.INT64, ["n"]), "u": (T.INT64, ["n"])}, {"Mul"}),
    "ort-graph-10": ([("Cast", "x", "c", {"to": FLOAT}), ("Div", "one u", "a", {}), ("Mul", "c a", "y", {})], {"one": np.float32(1)},
                     {"x": (FLOAT, ["n"]), "u": (FLOAT, ["n"])}, {"Mul"}),
    "ort-graph-11": ([("Transpose", "x", "t", {"perm": [1, 0, 2]}), ("MatMul", "t w", "y", {})], {"w": np.ones((4, 4), np.float16)}, {"x": (HALF, [4, 3, 4])}, {"MatMul"}),
    "ort-graph-12": ([("Mul", "x k", "a", {}), ("Sigmoid", "a", "s", {}), ("Mul", "x s", "y", {})], {"k": f32(1.7)}, {"x": (FLOAT, [])}, {"Mul"}),
    "ort-graph-13": (pair("x", "s", "a") + pair("a", "t", "y"), {"s": np.float32(0.05), "t": np.float32(0.07), "zero": np.uint8(128)}, {"x": (FLOAT, ["n"])},
                     {"DequantizeLinear"}),
    "ort-graph-14": ([("DequantizeLinear", "q s z", "w", {"axis": 0, "block_size": 16}), ("MatMul", "x w", "y", {})],
                     {"q": np.arange(32, dtype=np.uint8).reshape(16, 2) * 8, "s": f32(0.5, 0.25).reshape(1, 2), "z": np.uint8([[100, 128]])},
                     {"x": (FLOAT, ["n", 16])}, {"MatMul"}),
}
OPENVINO = {
    "openvino-graph-1": ([("Cast", "x", "b", {"to": T.BFLOAT16}), ("Cast", "b", "y", {"to": FLOAT})], {}, {"x": (FLOAT, ["n"])}, {"Cast"}),
    "openvino-graph-2": (GELU, GELU_OF, {"x": (FLOAT, ["n"])}, {"Mul"}),
    "openvino-graph-3": ([("Transpose", "x", "t", {"perm": [1, 0]}), ("Mul", "t c", "y", {})], {"c": f32(2).reshape(1, 1, 1)}, {"x": (FLOAT, ["n", 3])}, {"Mul"}),
    "openvino-graph-4": (*norm(False, {"x": (FLOAT, ["n", 1])}), {"Mul"}),
    "openvino-graph-5": ([("MatMul", "x w", "y", {})], {"w": np.ones((2, 2, 1), np.float32)}, {"x": (FLOAT, ["n", 2])}, {"MatMul"}),
    "openvino-graph-6": ([("MatMul", "x u", "p", {}), ("Sub", "p c", "y", {})], {"c": f32(0.5, 0.25).reshape(1, 2)}, {"x": (FLOAT, ["n", 1]), "u": (FLOAT, [1, "m"])}, {"Sub"}),
    "openvino-graph-7": ([("LayerNormalization", "x gamma", "y", {"axis": 1})], {"gamma": f32(1, 2)}, {"x": (FLOAT, ["n", 3, 2])}, {"LayerNormalization"}),
    "openvino-graph-8": ([("DequantizeLinear", "w scale", "f", {}), ("MatMul", "x f", "y", {})], {"w": np.int8([[2, 3]]), "scale": np.float32(0.5)}, {"x": (FLOAT, ["n", 1])}, None),
    "openvino-graph-9": ([("ReduceMin", "x axis", "m", {"keepdims": 0}), ("Expand", "m shape", "y", {})], {"axis": [0], "shape": np.zeros(0, np.int64)}, {"x": (FLOAT, ["n"])},
                         {"Expand"}),
    "openvino-graph-10": ([("MatMul", "q k", "s", {}), ("Softmax", "s", "w", {"axis": -1}), ("MatMul", "w v", "y", {})], {},
                          {"q": (FLOAT, ["b", 1, "l", 4]), "k": (FLOAT, ["b", 1, 4, "n"]), "v": (FLOAT, ["b", 1, "n", 2])}, None),
}


class Known(Cli):
    def found(self, name, runtime, nodes, constants, inputs, ops):
        graph = helper.make_graph([helper.make_node(op, i.split(), [o], name=o, **a) for op, i, o, a in nodes], "g",
                                  [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()], [helper.make_empty_tensor_value_info("y")],
                                  [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.cwd / f"{name}.onnx")
        seconds = os.environ.get("KNOWN_GRAPHS_SECONDS")
        words = ("fuzz", f"{name}.onnx", "--time", f"{seconds}s", "-o", name) if seconds else ("check", f"{name}.onnx", "--cases", 40)
        done = self.attest(*words, "--on", runtime, "--seed", 7, "--continue-after-failure", "--json", "out.json", timeout=300)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        findings = json.loads((self.cwd / "out.json").read_text())["findings"]
        at = [finding for finding in findings if ops is None or (finding.get("place") or {}).get("op") in ops]
        if seconds:
            first = at[0] if at else {}
            print(f"{name:18}{len(findings)} told, {first.get('key')} at {(first.get('place') or {}).get('tensor')} "
                  f"({(first.get('place') or {}).get('op')}) after {first.get('seconds_to_first', -1):.2f} s; segment {(first.get('place') or {}).get('segment')}", flush=True)
        self.assertTrue(at, done.stdout)
        if ops is not None:  # no list of problems tells calls that only some of a law's compiled models were asked first
            self.assertEqual([one for one in findings if "/flaky/" in one["key"]], [])

    def each(self, runtime, defects):
        if importlib.util.find_spec(runtime) is None:
            self.skipTest(f"{runtime} is not installed")
        if importlib.metadata.version(runtime) != VERSIONS[runtime]:
            self.skipTest(f"of {runtime} {VERSIONS[runtime]}")
        for name, defect in defects.items():
            with self.subTest(name):
                self.found(name, runtime, *defect)

    def test_an_error_that_an_adapter_has_is_told(self):
        """ort-attention-1, as GPT-2's export has it: a mask of one row."""
        if importlib.metadata.version("onnxruntime") != VERSIONS["onnxruntime"]:
            self.skipTest(f"of onnxruntime {VERSIONS['onnxruntime']}")
        shapes = {"q": ["b", 1, "l", 4], "k": ["b", 1, "n", 4], "v": ["b", 1, "n", 4], "mask": ["m", "n"]}
        inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
        graph = helper.make_graph([helper.make_node("Attention", list(shapes), ["y"])], "g", inputs, [helper.make_empty_tensor_value_info("y")])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), self.cwd / "attention.onnx")
        words = ("check", "attention.onnx", "--cases", 12, "--laws", 0, "--constrain", "size.m=1", "--continue-after-failure", "--json", "out.json")
        for known, status in ((), 1), (("--known", ROOT / "docs" / "findings"), 0):
            done = self.attest(*words, *known, timeout=300)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            findings = json.loads((self.cwd / "out.json").read_text())["findings"]
            self.assertEqual([one.get("known_as") for one in findings], ["ort-attention-1"] if known else [None])

    def test_those_of_onnxruntime(self):
        self.each("onnxruntime", ONNXRUNTIME)

    def test_those_of_openvino(self):
        self.each("openvino", OPENVINO)


if __name__ == "__main__":
    run()
