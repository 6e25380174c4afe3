"""examples/tensorrt_runtime.py on stand-ins for TensorRT and for the device memory of torch: what is asked of the builder, precisions by names, profiles, buffers
and what is said where something is not to be had. The stand-in computes by the package onnx. No part of this is a word on the real TensorRT, which the example
has not been run on. Usage: test_tensorrt_runtime.py"""
import ctypes
import enum
import importlib.util
import json
import math
import sys
import types
import unittest

from need_package import ROOT, need

need("onnx", "./run test installs it")
import numpy as np
from onnx import TensorProto, helper, load_from_string
from onnx.reference import ReferenceEvaluator

import attest
from attest import models

DataType = enum.Enum("DataType", "FLOAT HALF BF16 INT32 INT64 INT8 UINT8 BOOL FP8")
LayerType = enum.Enum("LayerType", "CONSTANT MATRIX_MULTIPLY SHAPE")
TYPES = {TensorProto.FLOAT: DataType.FLOAT, TensorProto.FLOAT16: DataType.HALF, TensorProto.INT64: DataType.INT64, TensorProto.BOOL: DataType.BOOL,
         TensorProto.FLOAT8E4M3FN: DataType.FP8}


class Named:
    def __init__(self, **said):
        vars(self).update(said)


class FakeTensorRT(types.ModuleType):
    def __init__(self, version="10.13.0", weak=True, inspector=None):
        super().__init__("tensorrt")
        fake = self
        self.__version__, self.DataType, self.LayerType, self.inspector = version, DataType, LayerType, inspector
        flags = "TF32" + (" FP16 BF16 OBEY_PRECISION_CONSTRAINTS" if weak else "")
        self.BuilderFlag = enum.Enum("BuilderFlag", flags)
        self.NetworkDefinitionCreationFlag = enum.IntEnum("NetworkDefinitionCreationFlag", [("EXPLICIT_BATCH", 0), ("STRONGLY_TYPED", 1)])
        self.ProfilingVerbosity = enum.Enum("ProfilingVerbosity", "LAYER_NAMES_ONLY DETAILED")
        self.LayerInformationFormat = enum.Enum("LayerInformationFormat", "ONELINE JSON")
        self.TensorIOMode = enum.Enum("TensorIOMode", "INPUT OUTPUT")
        self.TensorLocation = enum.Enum("TensorLocation", "DEVICE HOST")
        self.configs, self.networks, self.fails, self.writes = [], [], set(), True

        class ILogger:
            pass

        self.ILogger, self.Logger = ILogger, Named(INTERNAL_ERROR=0, ERROR=1, WARNING=2)

        class Config:
            def __init__(self):
                self.flags, self.profiles, self.profiling_verbosity = {fake.BuilderFlag.TF32}, [], None
                fake.configs.append(self)

            def set_flag(self, flag):
                self.flags.add(flag)

            def clear_flag(self, flag):
                self.flags.discard(flag)

            def add_optimization_profile(self, profile):
                self.profiles.append(profile)

        class Profile:
            def __init__(self):
                self.shapes = {}

            def set_shape(self, name, least, best, most):
                self.shapes[name] = (least, best, most)

        class Network:
            def __init__(self, flags):
                self.flags, self.layers, self.inputs = flags, [], []
                fake.networks.append(self)

            num_layers = property(lambda self: len(self.layers))
            num_inputs = property(lambda self: len(self.inputs))

            def get_layer(self, i):
                return self.layers[i]

            def get_input(self, i):
                return self.inputs[i]

        class Builder:
            def __init__(self, log):
                self.log = log

            def create_network(self, flags):
                return Network(flags)

            def create_builder_config(self):
                return Config()

            def create_optimization_profile(self):
                return Profile()

            def build_serialized_network(self, network, config):
                if "build" in fake.fails:
                    self.log.log(1, "[E] no tactic\nfor it")
                    return None
                return network.model, config

        class OnnxParser:
            def __init__(self, network, log):
                self.network, self.errors = network, []

            num_errors = property(lambda self: len(self.errors))

            def get_error(self, i):
                return Named(code=lambda: self.errors[i][0], desc=lambda: self.errors[i][1])

            def parse(self, model):
                self.errors = [(code, "node 0: no importer") for code in fake.fails if code.isupper()]
                if self.errors:
                    return False
                graph = load_from_string(model).graph
                self.network.model = model
                for one in graph.input:
                    shape = tuple(axis.dim_value if axis.HasField("dim_value") else -1 for axis in one.type.tensor_type.shape.dim)
                    self.network.inputs.append(Named(name=one.name, shape=shape, is_shape_tensor="shape input" in fake.fails))
                for node in graph.node:
                    kind = {"Constant": LayerType.CONSTANT, "Shape": LayerType.SHAPE}.get(node.op_type, LayerType.MATRIX_MULTIPLY)
                    self.network.layers.append(Named(name=node.name, type=kind, precision=DataType.INT64 if node.op_type == "Shape" else DataType.FLOAT))
                return True

        class Context:
            def __init__(self, engine):
                self.engine, self.shapes, self.addresses = engine, {}, {}

            def set_input_shape(self, name, shape):
                limits = self.engine.profile.get(name)
                self.shapes[name] = tuple(shape)
                return limits is None or all(a <= b <= c for a, b, c in zip(limits[0], shape, limits[2]))

            def infer_shapes(self):
                return [name for name in self.engine.inputs if name not in self.shapes]

            def outputs(self, feeds):
                return dict(zip(self.engine.outputs, ReferenceEvaluator(self.engine.model).run(None, feeds)))

            def get_tensor_shape(self, name):
                if "data shape" in fake.fails:
                    return (-1,)
                feeds = {one: np.zeros(shape, self.engine.dtype(one)) for one, shape in self.shapes.items()}
                return self.outputs(feeds)[name].shape

            def set_tensor_address(self, name, address):
                assert address
                self.addresses[name] = address

            def execute_async_v3(self, stream):
                assert stream == 77
                if "run" in fake.fails:
                    return False
                read = lambda name, shape: np.frombuffer((ctypes.c_char * max(1, math.prod(shape) * self.engine.dtype(name).itemsize)).from_address(
                    self.addresses[name]).raw, self.engine.dtype(name), math.prod(shape)).reshape(shape)
                for name, got in self.outputs({name: read(name, shape) for name, shape in self.shapes.items()}).items():
                    if fake.writes:
                        ctypes.memmove(self.addresses[name], got.tobytes(), got.nbytes)
                return True

        class Engine:
            def __init__(self, model, config):
                self.model = load_from_string(model)
                graph = self.model.graph
                self.inputs, self.outputs = [one.name for one in graph.input], [one.name for one in graph.output]
                self.typed = {one.name: TYPES[one.type.tensor_type.elem_type] for one in (*graph.input, *graph.output)}
                self.profile = config.profiles[0].shapes if config.profiles else {}

            num_io_tensors = property(lambda self: len(self.typed))

            def dtype(self, name):
                return np.dtype({DataType.FLOAT: np.float32, DataType.HALF: np.float16, DataType.INT64: np.int64, DataType.BOOL: np.bool_}[self.typed[name]])

            def get_tensor_name(self, i):
                return list(self.typed)[i]

            def get_tensor_mode(self, name):
                return fake.TensorIOMode.INPUT if name in self.inputs else fake.TensorIOMode.OUTPUT

            def get_tensor_dtype(self, name):
                return self.typed[name]

            def get_tensor_location(self, name):
                return fake.TensorLocation.HOST if "host" in fake.fails else fake.TensorLocation.DEVICE

            def create_execution_context(self):
                return Context(self)

            def create_engine_inspector(self):
                return Named(get_engine_information=lambda form: json.dumps(fake.inspector))

        class Runtime:
            def __init__(self, log):
                pass

            def deserialize_cuda_engine(self, plan):
                return Engine(*plan)

        self.Builder, self.OnnxParser, self.Runtime = Builder, OnnxParser, Runtime


class Memory:
    """A tensor of bytes "on the device"."""

    def __init__(self, array):
        self.held = array

    def to(self, device):
        assert device == "cuda"
        return Memory(self.held.copy())

    def data_ptr(self):
        return self.held.ctypes.data

    def cpu(self):
        return self

    def numpy(self):
        return self.held


class FakeTorch(types.ModuleType):
    def __init__(self, gpu=True):
        super().__init__("torch")
        self.uint8, self.waits = np.uint8, []
        self.cuda = Named(is_available=lambda: gpu, synchronize=lambda: self.waits.append("device"),
                          Stream=lambda: Named(cuda_stream=77, synchronize=lambda: self.waits.append("stream")))

    def full(self, shape, value, dtype, device):
        return Memory(np.full(shape, value, dtype))

    def from_numpy(self, array):
        return Memory(array)


def model(inputs=(("x", TensorProto.FLOAT, ["n", 4]),), nodes=None, constants=True, output=TensorProto.FLOAT):
    nodes = nodes or [helper.make_node("MatMul", ["x", "w"], ["m"], name="layer/mm"), helper.make_node("Shape", ["m"], ["s"], name="layer/shape"),
                      helper.make_node("Relu", ["m"], ["y"], name="layer[0]/relu")]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.arange(16.) - 7)] if constants else []
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs], [helper.make_tensor_value_info("y", output, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


class TensorRT(unittest.TestCase):
    def example(self, fake, gpu=True):
        self.torch = FakeTorch(gpu)
        for name, module in (("tensorrt", fake), ("torch", self.torch)):
            old = sys.modules.get(name)
            sys.modules[name] = module
            self.addCleanup(lambda name=name, old=old: sys.modules.__setitem__(name, old) if old else sys.modules.pop(name))
        models.REGISTRY.clear()
        spec = importlib.util.spec_from_file_location("tensorrt_runtime", ROOT / "examples" / "tensorrt_runtime.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        [self.runtime] = models.REGISTRY
        return module

    def refusal(self, call, kind=attest.Unsupported):
        with self.assertRaises(kind) as raised:
            call()
        return str(raised.exception)

    def test_a_strongly_typed_network_computes(self):
        fake = FakeTensorRT()
        example = self.example(fake)
        self.assertEqual(self.runtime.builds, ["strongly-typed", "fp16"])
        run = example.tensorrt(model(), build="strongly-typed", threads=1)
        x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
        weights = (np.arange(16, dtype=np.float32) - 7).reshape(4, 4)
        for feed in (x, x[:1], x[::2], x.T.copy().T):
            [y] = run({"x": feed}, ["y"])
            np.testing.assert_array_equal(y, np.maximum(feed @ weights, 0))
        self.assertEqual(self.torch.waits, ["device", "stream"] * 4)
        [config], [network] = fake.configs, fake.networks
        self.assertEqual((network.flags, config.flags), (2, set()))  # no TF32
        self.assertEqual(config.profiles[0].shapes, {"x": ((1, 4), (16, 4), (64, 4))})
        self.assertEqual(config.profiling_verbosity, fake.ProfilingVerbosity.DETAILED)
        self.assertIn("does not tell", run.note)

    def test_what_a_run_leaves_out_is_nan(self):
        fake = FakeTensorRT()
        run = self.example(fake).tensorrt(model(), build="strongly-typed", threads=1)
        fake.writes = False
        self.assertTrue(np.isnan(run({"x": np.ones((2, 4), np.float32)}, ["y"])[0]).all())

    def test_the_flag_and_the_options(self):
        fake = FakeTensorRT()
        example = self.example(fake)
        example.tensorrt(model(), build="fp16+lengths=2/3/5+tf32=1", threads=1)
        self.assertEqual((fake.networks[0].flags, fake.configs[0].flags), (0, {fake.BuilderFlag.FP16, fake.BuilderFlag.TF32}))
        self.assertEqual(fake.configs[0].profiles[0].shapes, {"x": ((2, 4), (3, 4), (5, 4))})
        run = example.tensorrt(model(), build="strongly-typed+lengths=2/3/5", threads=1)
        self.assertIn("the shape [6, 4] of 'x' is outside of the profile, lengths=2/3/5", self.refusal(lambda: run({"x": np.zeros((6, 4), np.float32)}, ["y"])))
        example.tensorrt(model(inputs=[("x", TensorProto.FLOAT, [3, 4])]), build="strongly-typed", threads=1)
        self.assertEqual(fake.configs[-1].profiles, [])

    def test_precisions_by_names(self):
        fake = FakeTensorRT()
        example = self.example(fake)
        precisions = lambda build: ([example.tensorrt(model(), build=build, threads=1)], {one.name: one.precision for one in fake.networks[-1].layers})[1]
        F, H, B, I = DataType.FLOAT, DataType.HALF, DataType.BF16, DataType.INT64
        self.assertEqual(precisions("layer-precisions+*:fp32+layer/m*:fp16"), {"layer/mm": H, "layer/shape": I, "layer[0]/relu": F})
        self.assertEqual(fake.configs[-1].flags, {fake.BuilderFlag.FP16, fake.BuilderFlag.OBEY_PRECISION_CONSTRAINTS})
        self.assertEqual(precisions("layer-precisions+layer/m*:fp16+*:fp32"), {"layer/mm": F, "layer/shape": I, "layer[0]/relu": F})  # the last one
        self.assertEqual(precisions("layer-precisions+layer[0]/*:bfloat16"), {"layer/mm": F, "layer/shape": I, "layer[0]/relu": B})
        self.assertEqual(fake.configs[-1].flags, {fake.BuilderFlag.BF16, fake.BuilderFlag.OBEY_PRECISION_CONSTRAINTS})
        self.assertEqual(precisions("layer-precisions+layer/shape:float16"), {"layer/mm": F, "layer/shape": H, "layer[0]/relu": F})  # by its own name
        for word in ("norm*", "layer/m", "layer0*", "LAYER/*"):
            self.assertIn(f"'{word}' fits no layer of the network, which has layer/mm, layer/shape, layer[0]/relu",
                          self.refusal(lambda: precisions(f"layer-precisions+*:fp16+{word}:fp16")))

    def test_builds_that_there_are_not(self):
        example = self.example(FakeTensorRT())
        for build in ("strongly-typed", "fp16+tf32=1", "layer-precisions+*:fp32"):
            self.assertTrue(example.accepts(build))
        for build, said in (("fast", "there is no build 'fast'"), ("fp16+x:fp16", "there is no build"), ("layer-precisions", "there is no build"),
                            ("layer-precisions+x:fp8", "TYPE one of fp32"), ("layer-precisions+fp16", "is not PATTERN:TYPE"), ("fp16+lengths=3/2/5", "LEAST/BEST/MOST"),
                            ("fp16+lengths=1", "LEAST/BEST/MOST"), ("fp16+a=1", "there is no option a")):
            self.assertIn(said, self.refusal(lambda: example.accepts(build)), build)
        example = self.example(FakeTensorRT("11.4.0", weak=False))
        self.assertEqual(self.runtime.builds, ["strongly-typed"])
        for build in ("fp16", "layer-precisions+*:fp16"):
            self.assertIn("TensorRT 11.4.0 has strong typing alone", self.refusal(lambda: example.accepts(build)))
        self.assertIn("torch finds none here", self.refusal(lambda: self.example(FakeTensorRT(), gpu=False)))

    def test_what_it_cannot_is_skipped_and_what_it_should_is_an_error(self):
        fake = FakeTensorRT()
        example = self.example(fake)
        load = lambda bytes=None: example.tensorrt(bytes or model(), build="strongly-typed", threads=1)
        for doubled in (model(inputs=[("x", TensorProto.DOUBLE, ["n", 4])]), model(nodes=[
                helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)], constants=False)):
            self.assertIn("no float64", self.refusal(lambda: load(doubled)))
        ask = lambda: load()({"x": np.ones((2, 4), np.float32)}, ["y"])
        for fails, kind, said in (("ErrorCode.UNSUPPORTED_NODE".upper(), attest.Unsupported, "no importer"), ("INVALID_GRAPH", attest.Refused, "no importer"),
                                  ("build", attest.Refused, "the network cannot be built: [E] no tactic for it"), ("shape input", attest.Unsupported, "'x' sets shapes"),
                                  ("data shape", attest.Unsupported, "the shape of 'y' hangs on data"), ("host", attest.Unsupported, "lies on the host"),
                                  ("run", attest.Refused, "the run failed")):
            fake.fails = {fails}
            self.assertIn(said, self.refusal(ask, kind), fails)
        fake.fails = set()
        run = load()
        self.assertIn("'x' is float16 in the file and float32 in the engine", self.refusal(lambda: run({"x": np.ones((2, 4), np.float16)}, ["y"])))

    def test_requested_beside_effective(self):
        answers = ({"Layers": [{"Outputs": [{"Format/Datatype": "Half"}]}, {"Outputs": [{"Format/Datatype": "Float"}, {"Format/Datatype": "Half"}]}]},
                   "asked for fp16; the outputs of the engine's layers are 1 Float, 2 Half"), (
                   {"Layers": [{"Outputs": [{"DataType": "FP16"}]}, {"Outputs": []}]}, "asked for fp16; the outputs of the engine's layers are 1 FP16"), (
                   {"Layers": ["a name"]}, "asked for fp16; the engine's inspector does not tell in which types its layers compute"), (
                   {"Layers": [{"Outputs": [{"Name": "y"}]}]}, "asked for fp16; the engine's inspector does not tell in which types its layers compute"), (
                   {}, "asked for fp16; the engine's inspector does not tell in which types its layers compute")
        for inspector, note in answers:
            example = self.example(FakeTensorRT(inspector=inspector))
            self.assertEqual(example.tensorrt(model(), build="fp16", threads=1).note, note)


if __name__ == "__main__":
    unittest.main()
