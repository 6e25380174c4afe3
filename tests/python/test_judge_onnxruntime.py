"""`attest judge` on outputs of a real onnxruntime: right ones hold, and one that was asked for another scale does not.

Usage: test_judge_onnxruntime.py ATTEST. Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where
onnxruntime is not installed there.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
import onnxruntime
from onnx import helper

ATTEST = None
HEADS, QUERIES, KEYS, WIDTH = 4, 9, 33, 16


def attention(dtype, scale):
    """MatMul, scale, Softmax, MatMul as a model, which takes q, k and v [B,H,L,D]."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = lambda name: helper.make_tensor_value_info(name, kind, None)
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["qk"]),
             helper.make_node("Mul", ["qk", "scale"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["out"])]
    graph = helper.make_graph(nodes, "attention", [value(n) for n in "qkv"], [value("out")],
                              [helper.make_tensor("scale", kind, [], [scale])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


class Judge(unittest.TestCase):
    def judge(self, dtype, scale, policy, *words):
        rng = np.random.default_rng(7)
        draw = lambda length: rng.standard_normal((2, HEADS, length, WIDTH)).astype(dtype)
        feed = {"q": draw(QUERIES), "k": draw(KEYS), "v": draw(KEYS)}
        out, = attention(dtype, scale).run(None, feed)
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "in.npz", **feed)
            np.savez_compressed(Path(folder) / "out.npz", out=out)
            return subprocess.run([ATTEST, "judge", "--inputs", "in.npz", "--outputs", "out.npz", "--policy", policy, *words],
                                  cwd=folder, capture_output=True, text=True, timeout=600)

    def test_a_right_output_holds(self):
        for dtype, policy in (("float32", "f32"), ("float16", "f16-all")):
            done = self.judge(dtype, WIDTH ** -0.5, policy)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"held: {2 * HEADS * QUERIES * WIDTH:,} elements", done.stdout)

    def test_a_wrong_output_does_not(self):
        done = self.judge("float32", 0.26, "f32")  # 0.25 is right
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("FAILED", done.stdout)
        self.assertEqual(self.judge("float32", 0.26, "f32", "--scale", "0.26").returncode, 0)


if __name__ == "__main__":
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
