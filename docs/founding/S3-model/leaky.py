"""A runtime that optimises graphs wrongly: at O2 a batched product takes its right operand from the first sample, in the third layer."""
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import attest

PRODUCT = "layer2.context"


def optimised(file):
    model = onnx.load_from_string(file)
    graph = model.graph
    for at, node in enumerate(graph.node):
        if node.op_type == "MatMul" and node.name == PRODUCT:
            first = helper.make_node("Slice", [node.input[1], "from", "to"], ["of_sample_0"])
            node.input[1] = "of_sample_0"
            graph.node.insert(at, first)
            graph.initializer.extend([numpy_helper.from_array(numpy_helper.np.array([n], "int64"), name)
                                      for n, name in ((0, "from"), (1, "to"))])
            break
    return model.SerializeToString()


@attest.runtime(version="1.0", builds=("O0", "O2"))
def leaky(model, *, build, threads):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(optimised(model) if build == "O2" else model, options,
                                           providers=["CPUExecutionProvider"])
    return lambda feeds, names: session.run(names, feeds)
