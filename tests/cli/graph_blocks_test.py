#!/usr/bin/env python3
"""Attention blocks within graphs, by the verbs: onnxruntime at all of its levels is not blamed, a runtime that leaves out a bias or reads a packed projection in another order is, and
what it says names the block. Usage: graph_blocks_test.py ATTEST [unittest argument...]; GRAPH_BLOCKS_CASES=N asks more problems of each graph, GRAPH_BLOCKS_SEED others."""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
from command_line import Cli, run
from onnx import TensorProto as T, helper, numpy_helper, save

os.environ["ATTEST_PYTHON"] = sys.executable
CASES, SEED = int(os.environ.get("GRAPH_BLOCKS_CASES", 6)), os.environ.get("GRAPH_BLOCKS_SEED", "20270115")
WIDTH, HEADS, HEAD = 16, 2, 8

RUNTIME = '''
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper
import attest

@attest.runtime(version="1", builds=("sound", "no-bias", "misread"))
def planted(model, *, build, threads):
    model = onnx.load_from_string(model)
    for one in model.graph.initializer:
        values = numpy_helper.to_array(one)
        if build == "no-bias" and one.name == "b_v":
            one.CopyFrom(numpy_helper.from_array(np.zeros_like(values), one.name))
        if build == "misread" and one.name == "w_qkv":
            q, k, v = np.split(values, 3, 1)
            one.CopyFrom(numpy_helper.from_array(np.concatenate([q, v, k], 1), one.name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda feeds, names: session.run(names, feeds)
'''


def block(form, kind=np.float32, residual=False):
    """form: add (products with biases, as BERT is exported), gemm, split or gather (one product for q, k and v), cross (queries of other tokens)."""
    rng, nodes, constants = np.random.default_rng(5), [], []
    own = T.FLOAT16 if kind == np.float16 else T.FLOAT

    def constant(name, values):
        constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name] if isinstance(name, str) else name, name=name if isinstance(name, str) else name[0], **attributes))
        return name

    number = lambda *shape: (rng.standard_normal(shape) / 3).astype(kind)
    ints = lambda name, *values: constant(name, np.array(values, np.int64))

    def linear(x, name, inputs, outputs):
        w, b = constant(f"w_{name}", number(*((outputs, inputs) if form == "gemm" else (inputs, outputs)))), constant(f"b_{name}", number(outputs))
        if form != "gemm":
            return node("Add", [node("MatMul", [x, w], f"{name}_product"), b], name)
        flat = node("Reshape", [x, ints(f"{name}_flat", -1, inputs)], f"{name}_rows")
        product = node("Gemm", [flat, w, b], f"{name}_product", transB=1)
        start = node("Slice", [node("Shape", [x], f"{name}_shape"), ints(f"{name}_0", 0), ints(f"{name}_2", 2)], f"{name}_leading")
        return node("Reshape", [product, node("Concat", [start, ints(f"{name}_n", outputs)], f"{name}_to", axis=0)], name)

    inner = HEADS * HEAD
    if form in ("split", "gather"):
        qkv = linear("x", "qkv", WIDTH, 3 * inner)
        if form == "split":
            q, k, v = node("Split", [qkv, ints("sizes", inner, inner, inner)], ["q", "k", "v"], axis=-1)
        else:
            five = node("Transpose", [node("Reshape", [qkv, ints("five", 0, 0, 3, HEADS, HEAD)], "in_heads")], "by_kind", perm=[2, 0, 3, 1, 4])
            q, k, v = (node("Gather", [five, constant(f"n{n}", np.int64(n))], name, axis=0) for n, name in enumerate("qkv"))
    else:
        q, k, v = (linear("memory" if form == "cross" and name != "q" else "x", name, WIDTH, inner) for name in "qkv")
    if form != "gather":
        heads = ints("heads", 0, 0, HEADS, HEAD)
        q, k, v = (node("Transpose", [node("Reshape", [x, heads], f"{name}_split")], f"{name}_heads", perm=[0, 2, 1, 3]) for name, x in zip("qkv", (q, k, v)))
    scores = node("MatMul", [q, node("Transpose", [k], "k_t", perm=[0, 1, 3, 2])], "scores")
    scaled = node("Div", [scores, constant("scale", kind(HEAD ** 0.5))], "scaled")
    weights = node("Softmax", [node("Add", [scaled, "mask"], "masked")], "weights", axis=-1)
    context = node("Transpose", [node("MatMul", [weights, v], "context")], "by_token", perm=[0, 2, 1, 3])
    out = linear(node("Reshape", [context, ints("join", 0, 0, inner)], "joined"), "out", inner, WIDTH)
    keys = "keys" if form == "cross" else "tokens"
    info = lambda name, *shape: helper.make_tensor_value_info(name, own, shape)
    inputs = [info("x", "batch", "tokens", WIDTH), info("mask", "batch", 1, 1, keys)] + ([info("memory", "batch", keys, WIDTH)] if form == "cross" else [])
    if residual:
        inputs.append(info("residual", "batch", "tokens", WIDTH))
        out = node("Add", [out, "residual"], "y")
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(out, own, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


class Blocks(Cli):
    def summary(self, *words, status):
        done = self.attest(*words, "--property", "proven-bound", "--json", "out.json")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text()), done

    def test_onnxruntime_holds_at_every_level(self):
        runs = blamed = 0
        for kind in (np.float32, np.float16):
            for form in ("add", "gemm", "split", "gather", "cross"):
                save(block(form, kind), self.cwd / "block.onnx")
                summary, _ = self.summary("check", "block.onnx", "--cases", CASES, "--seed", SEED, status=0)
                self.assertEqual(summary["verdicts"]["proven-bound"]["skip"], {}, form)
                runs, blamed = runs + summary["runs"], blamed + len(summary["findings"])
                self.assertGreater(summary["proven"], 100)
        print(f"{runs} runs, {blamed} blamed")

    def planted(self, form, build):
        (self.cwd / "planted.py").write_text(RUNTIME)
        save(block(form, residual=True), self.cwd / "residual.onnx")
        words = ("check", "residual.onnx", "--on", f"planted.py:{build}", "--cases", 12, "--seed", 3, "--constrain", "values.x=normal values.residual=far values.mask=normal,uniform")
        return self.summary(*words, "-o", f"{form}-{build}", status=0 if build == "sound" else 1)

    def test_a_fault_within_is_told_at_the_block(self):
        for form, build in (("add", "sound"), ("split", "sound"), ("add", "no-bias"), ("split", "misread")):
            summary, done = self.planted(form, build)
            if build == "sound":
                self.assertEqual(summary["findings"], [])
                continue
            [finding] = summary["findings"]
            self.assertEqual(finding["key"], "proven-bound/fail/finite")
            self.assertEqual(finding["place"]["tensor"], "out")
            for words in ("node 'out' (Add) by itself, fed with right tensors: out[", "permitted", f"the proven bound of an attention block of {HEADS} heads, policy f32"):
                self.assertIn(words, finding["reason"])
            self.assertIn("context (MatMul)", finding["place"]["segment"])
            [entry] = (self.cwd / f"{form}-{build}" / "corpus").rglob("*.json")
            replayed = self.attest("replay", entry.relative_to(self.cwd))
            self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
            self.assertIn("1 as expected", replayed.stdout)


if __name__ == "__main__":
    run()
