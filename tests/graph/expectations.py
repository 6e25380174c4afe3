#!/usr/bin/env python3
"""The results of ONNX's reference evaluator for one node each, in expectations.json: operators_test.cpp holds graph/ to them.

Usage: expectations.py FILE           writes it
       expectations.py FILE --check   evaluates what is stored once more; 1 where a result differs, 125 without the package onnx
Tensors are of float64 where it computes in that: such results leave least room. Needs onnx and numpy.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnx", "./run test installs it")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(17)
CASES = []


def normal(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    return RNG.uniform(0.1, 3, shape)


def ints(*values):
    return np.array(values, np.int64)


def bytes_(*values):
    return np.array(values, np.uint8)


def flags(*shape):
    return RNG.random(shape) < 0.5


def case(op, *inputs, opset=18, outputs=1, constants=(), name="", **attributes):
    """A node; the inputs numbered in `constants` are initialisers, None is left out."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attributes)
    given = {n: np.asarray(x) for n, x in zip(names, inputs) if n}
    fixed = {f"x{i}" for i in constants}
    value = lambda n, x: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), list(x.shape))
    graph = helper.make_graph([node], "g", [value(n, x) for n, x in given.items() if n not in fixed],
                              [onnx.ValueInfoProto(name=o) for o in node.output],
                              [numpy_helper.from_array(given[n], n) for n in sorted(fixed)])
    for index, result in enumerate(ReferenceEvaluator(helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)])).run(None, {n: x for n, x in given.items() if n not in fixed})):
        graph.output[index].CopyFrom(value(f"y{index}", np.asarray(result)))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    feeds = {n: x for n, x in given.items() if n not in fixed}
    CASES.append({"name": f"{op}{'-' if name else ''}{name}", "model": model.SerializeToString().hex(),
                  "inputs": {n: tensor(x) for n, x in feeds.items()}, "outputs": [tensor(y) for y in evaluated(model, feeds)]})


def evaluated(model, feeds):
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, feeds)]


def tensor(x):
    values = x.ravel().tolist()
    return {"type": str(x.dtype), "shape": list(x.shape),
            "values": [v if isinstance(v, (bool, int)) or np.isfinite(v) else repr(v) for v in values]}


def array(stored):
    return np.array([float(v) if isinstance(v, str) else v for v in stored["values"]],
                    stored["type"]).reshape(stored["shape"])


def elementwise():
    for op in ("Add", "Sub", "Mul", "Div"):
        case(op, normal(2, 3, 4), normal(3, 1), name="broadcast")
        case(op, ints(7, -7, 6, 5), ints(2, 2, 3, 5), name="integers")
    case("Mod", ints(7, -7, 6, -6, -7, 7), ints(3, 3, -4, -4, -3, 7), name="integers")
    case("Mod", ints(7, -7, 6, -6), ints(3, 3, -4, -4), name="fmod", fmod=1)
    case("Add", normal(3, 1, 2), normal(4, 1), name="both")
    case("Pow", positive(2, 3), normal(2, 1))
    case("Pow", normal(2, 3), np.float64(2), name="square")
    case("Sqrt", positive(5))
    case("Sqrt", np.array([-1.0, 0.0, np.inf]), name="invalid")
    single = normal(3, 4).astype(np.float32)  # the evaluator has erf in float32 alone
    case("Erf", single)
    case("Gelu", single, opset=20)
    case("Gelu", single, opset=20, approximate="tanh", name="tanh")
    for op in ("Neg", "Abs", "Exp", "Tanh", "Sigmoid", "Relu", "Identity"):
        case(op, normal(2, 5))
    case("Exp", np.array([-np.inf, np.inf, np.nan, 800.0, -800.0]), name="special")
    case("Log", positive(4))
    case("Log", np.array([0.0, -1.0, np.inf]), name="special")
    case("Reciprocal", np.array([2.0, -4.0, 0.0]))
    for op in ("Max", "Min"):
        case(op, normal(2, 3), normal(3), normal(2, 1), name="three")
        case(op, np.array([np.nan, 1.0, 2.0]), np.array([1.0, np.nan, 3.0]), name="nan")
        case(op, ints(3, -1), ints(2, 2), name="integers")
    case("Clip", normal(6), np.float64(-0.5), np.float64(0.5))
    case("Clip", normal(6), None, np.float64(0.2), name="above")
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        case(op, ints(1, 2, 3), ints(2, 2, 2), name="integers")
        case(op, np.array([1.0, 2.0, np.nan]), np.array([2.0]), name="floats")
    case("Not", flags(2, 3))
    case("And", flags(2, 3), flags(3))
    case("Or", flags(2, 1), flags(3))
    case("Where", flags(2, 1, 3), normal(4, 1), np.float64(-1))
    case("Where", flags(3), ints(1, 2, 3), ints(4, 5, 6), name="integers")
    case("Cast", np.array([1.7, -1.7, 0.0, 2.5]), to=TensorProto.INT64, name="truncates")
    case("Cast", np.array([0.0, -0.5, 2.0]), to=TensorProto.BOOL, name="bool")
    case("Cast", ints(0, -3, 9), to=TensorProto.DOUBLE, name="integers")
    case("Cast", flags(4), to=TensorProto.FLOAT, name="flags")
    case("Cast", ints(1 << 33, -5), to=TensorProto.INT32, name="wraps")
    case("Cast", ints(300, -1, 7), to=TensorProto.UINT8, name="bytes")
    case("Add", bytes_(250, 3), bytes_(10, 4), name="bytes")
    case("Max", np.array([-5, 3], np.int8), np.array([2, -7], np.int8), name="bytes")
    case("Sum", normal(2, 3), normal(3), normal(2, 1))
    case("Mean", normal(2, 3), normal(3), normal(2, 1))
    for op in ("Ceil", "Floor", "Round", "Sign"):
        case(op, np.array([-1.5, -0.5, 0.0, 0.5, 1.2, 2.5, np.nan]))
    case("Sign", ints(-3, 0, 9), name="integers")
    for op in ("LeakyRelu", "Elu"):
        case(op, 3 * normal(2, 5))
        case(op, 3 * normal(2, 5), alpha=0.25, name="alpha")
    case("HardSigmoid", 3 * normal(7))
    case("HardSigmoid", 3 * normal(7), alpha=0.25, beta=0.25, name="line")
    case("HardSwish", (3 * normal(9)).astype(np.float32))  # 1/6 is a float32 there
    case("Softplus", np.array([-30.0, -1.0, 0.0, 2.0, 700.0]))
    case("Dropout", normal(3), name="inference")


def moving():
    case("Transpose", normal(2, 3, 4))
    case("Transpose", normal(2, 3, 4), perm=[1, 2, 0], name="perm")
    case("Reshape", normal(2, 3, 4), ints(0, -1), constants=[1])
    case("Reshape", normal(2, 6), ints(-1, 2, 3), constants=[1], name="split")
    case("Reshape", np.zeros((0, 3)), ints(3, 0), constants=[1], allowzero=1, name="empty")
    case("Flatten", normal(2, 3, 4))
    case("Flatten", normal(2, 3, 4), axis=-1, name="last")
    case("Flatten", normal(2, 3), axis=0, name="first")
    case("Concat", normal(2, 1, 2), normal(2, 3, 2), axis=1)
    case("Concat", ints(1), ints(2, 3), axis=-1, name="integers")
    case("Split", normal(2, 6), axis=1, num_outputs=3, outputs=3)
    case("Split", normal(2, 7), axis=-1, num_outputs=3, outputs=3, name="uneven")
    case("Split", normal(5, 2), ints(1, 4), constants=[1], outputs=2, name="lengths")
    x = normal(5, 6)
    case("Slice", x, ints(1), ints(4), constants=[1, 2])
    case("Slice", x, ints(-2), ints(2 ** 62), ints(-1), constants=[1, 2, 3], name="tail")
    case("Slice", x, ints(0, 1), ints(5, -1), ints(0, 1), ints(2, 3), constants=[1, 2, 3, 4], name="steps")
    case("Slice", x, ints(-1), ints(-2 ** 62), ints(0), ints(-2), constants=[1, 2, 3, 4], name="back")
    case("Slice", x, ints(4), ints(2), ints(0), constants=[1, 2, 3], name="none")
    case("Gather", normal(4, 3), ints(2, 0, -1), constants=[1])
    case("Gather", normal(4, 3), np.array([[0, 1], [2, 0]]), constants=[1], axis=1, name="matrix")
    case("Gather", normal(4, 3), np.int64(1), constants=[1], name="number")
    case("Squeeze", normal(1, 3, 1))
    case("Squeeze", normal(1, 3, 1), ints(-1), constants=[1], name="axis")
    case("Squeeze", normal(1, 3, 1), opset=11, axes=[0], name="attribute")
    case("Unsqueeze", normal(3, 4), ints(0, -1), constants=[1])
    case("Unsqueeze", normal(3, 4), opset=11, axes=[0, 3], name="attribute")
    case("Expand", normal(3, 1), ints(2, 1, 4), constants=[1])
    case("Tile", normal(2, 1, 3), ints(2, 3, 1), constants=[1])
    case("Tile", ints(1, 2), ints(0), constants=[1], name="none")
    case("Trilu", normal(2, 4, 3))
    case("Trilu", normal(4, 4), np.int64(-1), constants=[1], upper=0, name="lower")
    case("Trilu", normal(3, 5), np.int64(2), constants=[1], name="above")


def making():
    case("Shape", normal(2, 0, 4))
    case("Shape", normal(2, 3, 4), start=-2, end=3, name="part")
    case("Size", normal(2, 3))
    case("Constant", value=numpy_helper.from_array(normal(2, 2)))
    case("Constant", value_ints=[3, 4], name="integers")
    case("Constant", value_float=0.5, name="number")
    case("ConstantOfShape", ints(2, 3), constants=[0], value=numpy_helper.from_array(ints(7)))
    case("ConstantOfShape", ints(2), constants=[0], name="zeros")
    case("Range", np.int64(1), np.int64(10), np.int64(3))
    case("Range", np.float64(2), np.float64(-1), np.float64(-0.75), name="back")
    case("Range", np.int64(3), np.int64(3), np.int64(1), name="none")


def sums():
    case("MatMul", normal(3, 4), normal(4, 2))
    case("MatMul", normal(2, 1, 3, 4), normal(5, 4, 2), name="broadcast")
    case("MatMul", normal(4), normal(2, 4, 3), name="row")
    case("MatMul", normal(2, 3, 4), normal(4), name="column")
    case("MatMul", normal(4), normal(4), name="dot")
    case("MatMul", normal(2, 0), normal(0, 3), name="empty")
    case("Gemm", normal(3, 4), normal(4, 2), normal(2))
    case("Gemm", normal(4, 3), normal(2, 4), normal(3, 1), transA=1, transB=1, alpha=0.5, beta=2.0, name="turned")
    x = normal(2, 3, 4)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
               "ReduceLogSumExp", "ReduceProd"):
        case(op, x, ints(1), constants=[1])
        case(op, x, ints(0, -1), constants=[1], keepdims=0, name="two")
        case(op, x, name="all")
    case("ReduceLogSum", positive(2, 3), ints(-1), constants=[1])
    case("ReduceMean", x, axes=[1], opset=13, name="attribute")
    case("ReduceSum", x, ints(), constants=[1], noop_with_empty_axes=1, name="nothing")
    case("ReduceSum", np.arange(6).reshape(2, 3), ints(1), constants=[1], name="integers")
    case("ReduceMax", np.arange(6).reshape(2, 3), ints(0), constants=[1], name="integers")
    case("ReduceProd", ints(2, 3, 4), keepdims=0, name="integers")
    case("Softmax", normal(2, 3, 4))
    case("Softmax", normal(2, 3, 4), axis=1, name="axis")
    case("Softmax", np.array([[0.0, -np.inf, 1000.0], [-np.inf] * 3]), name="infinite")
    case("LogSoftmax", normal(2, 3, 4))
    case("LogSoftmax", normal(2, 3, 4) + 900, axis=1, name="axis")
    case("BatchNormalization", normal(2, 3, 4), positive(3), normal(3), normal(3), positive(3), epsilon=0.125)
    case("RMSNormalization", normal(2, 3, 4), positive(4), opset=23)
    case("RMSNormalization", normal(2, 3, 4), positive(3, 4), axis=1, epsilon=0.125, opset=23, name="two")
    case("LayerNormalization", normal(2, 3, 4), positive(4), normal(4))
    case("LayerNormalization", normal(2, 3, 4), positive(3, 4), axis=1, epsilon=0.125, name="two")


def quantising():
    x = (3 * normal(2, 3, 4)).astype(np.float32)
    scale, scales = np.float32(0.05), np.array([0.05, 0.02, 0.1], np.float32)
    small = RNG.integers(-128, 128, (2, 3, 4)).astype(np.int8)
    large = RNG.integers(0, 256, (2, 3, 4)).astype(np.uint8)
    case("QuantizeLinear", x, scale, np.uint8(128), opset=21)
    case("QuantizeLinear", x, scale, np.int8(-3), name="signed", opset=21)
    case("QuantizeLinear", x, scale, name="bare", opset=21)
    case("QuantizeLinear", x, scales, np.array([1, 128, 255], np.uint8), axis=1, name="axis", opset=21)
    case("QuantizeLinear", np.array([0.5, 1.5, -0.5, 300, -300], np.float32), np.float32(1), np.uint8(7), name="ties", opset=21)
    case("DequantizeLinear", large, scale, np.uint8(128), opset=21)
    case("DequantizeLinear", small, scales, np.array([0, 5, -7], np.int8), axis=-2, name="axis", opset=21)
    case("DequantizeLinear", np.array([1 << 20, -77], np.int32), scale, name="wide", opset=21)
    case("DynamicQuantizeLinear", x, outputs=3)
    case("MatMulInteger", RNG.integers(0, 256, (2, 3)).astype(np.uint8), RNG.integers(-128, 128, (3, 4)).astype(np.int8),
         np.uint8(120), np.int8(-3))
    case("MatMulInteger", large, RNG.integers(0, 256, (4, 2)).astype(np.uint8), np.uint8(7), name="bare")


def fused():
    q, k, v = normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 3)
    case("Attention", q, k, v, opset=23, name="grouped")
    case("Attention", q, k, v, normal(2, 1, 3, 6), opset=23, scale=0.25, name="added")
    case("Attention", q, k, v, np.arange(18).reshape(3, 6) % 4 != 1, opset=23, name="flags")
    case("Attention", q, k, v, opset=23, is_causal=1, name="causal")
    flat = lambda x: x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)
    case("CastLike", np.array([1.7, -1.7, 2.5]), ints(0), opset=19, name="integers")
    case("CastLike", ints(0, -3, 9), normal(2), opset=19, name="floats")
    case("Attention", flat(q), flat(k), flat(v), normal(3, 6), opset=23, q_num_heads=4, kv_num_heads=2, is_causal=1, name="flat")


def differs(x, y):
    if x.dtype.kind == "f" and x.shape == y.shape:
        return not np.allclose(x, y, rtol=1e-12, atol=1e-12, equal_nan=True)
    return x.dtype != y.dtype or not np.array_equal(x, y)


def main(arguments):
    if arguments[1:] == ["--check"]:
        wrong = []
        for one in json.load(open(arguments[0]))["cases"]:
            feeds = {name: array(x) for name, x in one["inputs"].items()}
            results = evaluated(onnx.load_from_string(bytes.fromhex(one["model"])), feeds)
            if any(differs(array(y), result) for y, result in zip(one["outputs"], results)):
                wrong.append(one["name"])
        print(f"onnx {onnx.__version__}: differ: {', '.join(wrong) or 'none'}")
        return 1 if wrong else 0
    for make in (elementwise, moving, making, sums, quantising, fused):
        make()
    with open(arguments[0], "w") as out:
        out.write('{"onnx": "%s", "cases": [\n' % onnx.__version__)
        out.write(",\n".join(json.dumps(one) for one in CASES) + "\n]}\n")
    print(f"{len(CASES)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
