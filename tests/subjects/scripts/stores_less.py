"""A runtime of models that stores inputs, weights or both in 16 bits, and computes in float32 between: by build, `bf16-inputs`, `f16-both`, ... Build `...-eight`
is a fault: what it stores has four significant bits."""
import attest
import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def stored(x, kind):
    if x.dtype != np.float32:
        return x
    if kind.endswith("eight"):
        fraction, exponent = np.frexp(x)
        return np.ldexp(np.rint(fraction * 16) / 16, exponent).astype(np.float32)
    if kind.startswith("f16"):
        return np.clip(x, -65504, 65504).astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).reshape(x.shape)
    most = np.float32(3.3895314e38)
    return np.where(np.isfinite(x), np.clip(rounded, -most, most), x)


@attest.runtime(version="1", builds=[f"{kind}-{what}" for kind in ("bf16", "f16") for what in ("inputs", "weights", "both", "eight")])
def stores_less(model, *, build, threads):
    graph = onnx.load_from_string(model)
    if not build.endswith("inputs"):
        for weight in graph.graph.initializer:
            array = numpy_helper.to_array(weight)
            weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(stored(array, build)).reshape(array.shape), weight.name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feeds, names: session.run(names, {name: x if build.endswith("weights") else stored(x, build) for name, x in feeds.items()})
