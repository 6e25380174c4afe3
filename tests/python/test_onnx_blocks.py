"""Attention blocks of ONNX Runtime: graphs with projections, and com.microsoft.Attention, which projects itself.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where onnxruntime and onnx are not installed there.
"""

import unittest

from need_package import need

need("onnxruntime", "./run test installs it")

import numpy as np

from attention_calls import BOTTOM_RIGHT
from attest.adapters.onnxruntime import SUBJECTS
from block_calls import Blocks, block

NAMES = [name for name in SUBJECTS if "block" in name]


class Agreement(Blocks, unittest.TestCase):
    make = {name: SUBJECTS[name] for name in NAMES}

    def known(self, name, problem):
        # ort-mha-1: under more keys than queries the last query sees every key
        more = problem.get("m", problem.get("l", 3)) > problem.get("l", 3)
        return problem.get("causal", False) and more


class Graphs(unittest.TestCase):
    def graph(self, name, **options):
        return SUBJECTS[name]().graph(block(**options))

    def ops(self, graph):
        return [step.op for step in graph.steps]

    def test_projections_are_products_and_sums(self):
        graph = self.graph("block", m=4)
        self.assertEqual(self.ops(graph), ["MatMul", "Add"] * 3 + ["MultiHeadAttention", "MatMul", "Add"])
        self.assertEqual([step.inputs[0] for step in graph.steps if step.op == "MatMul"], ["x", "memory", "memory", "heads"])
        self.assertEqual(self.ops(self.graph("block", biases=False)), ["MatMul"] * 3 + ["MultiHeadAttention", "MatMul"])

    def test_biases_as_the_operators_input(self):
        graph = self.graph("block-bias")
        self.assertEqual(self.ops(graph), ["MatMul"] * 3 + ["MultiHeadAttention", "MatMul", "Add"])
        self.assertEqual(graph.steps[3].inputs, ["q", "k", "v", "projection_bias"])

    def test_one_product_for_all(self):
        self.assertEqual(self.ops(self.graph("block-split")), ["MatMul", "Add", "Split", "MultiHeadAttention", "MatMul", "Add"])
        self.assertEqual(len(self.ops(self.graph("block-split", m=4))), 9)

    def test_key_and_value_with_the_heads_before_the_tokens(self):
        graph = self.graph("block-bnsh", m=4)
        self.assertEqual(self.ops(graph), ["MatMul", "Add"] + ["MatMul", "Add", "Reshape", "Transpose"] * 2
                         + ["MultiHeadAttention", "MatMul", "Add"])
        self.assertEqual({n for n, _ in graph.fed()}, {"x", "memory"})
        self.assertEqual(self.ops(self.graph("block-bnsh")), self.ops(self.graph("block")))  # the schema has it for past keys alone

    def test_weights_are_part_of_the_model_or_inputs(self):
        self.assertEqual({n for n, _ in self.graph("block").fed()}, {"x"})
        self.assertEqual({n for n, _ in self.graph("block-inputs").fed()},
                         {"x", *(f"{kind}_{of}" for kind in "wb" for of in ("q", "k", "v", "out"))})
        self.assertEqual({n for n, _ in self.graph("contrib-block-inputs").fed()}, {"x", "w_qkv", "b_qkv", "w_out", "b_out"})

    def test_levels(self):
        for level in ("extended", "basic", "none"):
            for name in ("block", "contrib-block"):
                self.assertEqual(self.graph(f"{name}-{level}").optimisation, level)
        self.assertEqual(self.graph("block").optimisation, "all")

    def test_the_operator_that_projects_itself(self):
        graph = self.graph("contrib-block", heads=2, head_dim=3, kv_lengths=np.array([1, 3], np.int32))
        self.assertEqual(self.ops(graph), ["Attention", "MatMul", "Add"])
        self.assertEqual(graph.steps[0].attributes, {"num_heads": 2, "qkv_hidden_sizes": [6, 6, 6]})
        self.assertEqual(graph.steps[0].inputs, ["x", "w_qkv", "b_qkv", "mask_index"])
        self.assertEqual(dict(graph.inputs)["w_qkv"].shape, (8, 18))
        # A bias of zeros where there is none: without one the process dies (ort-contrib-1).
        self.assertFalse(dict(self.graph("contrib-block", biases=False).inputs)["b_qkv"].any())

    def test_a_diagonal_that_starts_elsewhere_is_a_mask(self):
        plain = self.graph("block", causal=True).steps[-3]
        self.assertEqual(plain.attributes["unidirectional"], 1)
        moved = self.graph("block", causal=True, align=BOTTOM_RIGHT, l=2, m=4)
        self.assertNotIn("unidirectional", moved.steps[-3].attributes)
        self.assertEqual(dict(moved.inputs)["key_padding_mask"].tolist(), [[[1, 1, 1, 0], [1, 1, 1, 1]]] * 2)


if __name__ == "__main__":
    unittest.main()
