"""TensorRT, asked as a runtime of models: `attest fuzz model.onnx --on tensorrt_runtime.py`. NOT RUN ON A REAL TENSORRT YET: written from NVIDIA's
documents of TensorRT 10 and 11, and tested against stand-ins for the packages tensorrt and torch, which holds its memory on the device.

    --on tensorrt_runtime.py                                        strongly typed: every tensor in the type that the file gives it
    --on tensorrt_runtime.py:fp16                                   weakly typed, with the flag FP16 (TensorRT 10), under --policy run=f16
    --on 'tensorrt_runtime.py:layer-precisions+*:fp32+layer/norm*:fp16'    weakly typed, under OBEY_PRECISION_CONSTRAINTS (TensorRT 10)

As of Polygraphy's `--layer-precisions NAME:TYPE ...` a layer's `precision` is set; as of trtexec's `--layerPrecisions` later words override earlier
ones, and * stands for anything: then layers of integers and constants are left as they are. A word that fits no layer is an error, which lists them. TensorRT
11 has strong typing alone (https://docs.nvidia.com/deeplearning/tensorrt/latest/api/migration/tensorrt-10x-to-11x.html). Any build may have options:
`+lengths=1/16/64`, the least, the best and the most that an open axis of the profile takes (longer problems are skipped), and `+tf32=1`, without which
TensorFloat-32 is off, since it keeps 11 bits of a factor. What types the layers of the engine came out with is told beside the results, as far as the engine's
inspector says it.
"""
import fnmatch
import json
import math
import re
from collections import Counter

import numpy as np
import onnx
import tensorrt as trt
import torch

import attest

STRONG, HALF, LAYERS = "strongly-typed", "fp16", "layer-precisions"
NUMPY = {"FLOAT": np.float32, "HALF": np.float16, "BF16": np.uint16, "INT32": np.int32, "INT64": np.int64, "INT8": np.int8, "UINT8": np.uint8, "BOOL": np.bool_}
PRECISIONS = {"fp32": "FLOAT", "float32": "FLOAT", "fp16": "HALF", "float16": "HALF", "bf16": "BF16", "bfloat16": "BF16"}
FLAGS = {"HALF": "FP16", "BF16": "BF16"}  # the builder's; it looks for such layers only with them
NO_ACTIVATION = ("INT32", "INT64", "BOOL", "UINT8")
LENGTHS = (1, 16, 64)


class Log(trt.ILogger):
    """To the log of the worker; the last error is kept for what is told."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.error = ""

    def log(self, severity, message):
        if severity in (trt.Logger.INTERNAL_ERROR, trt.Logger.ERROR):
            self.error = " ".join(message.split())
            print(message, flush=True)

    def reason(self, what):
        return f"tensorrt: {what}{': ' if self.error else ''}{self.error}"[:300]


def weakly_typed():
    return hasattr(trt.BuilderFlag, "FP16") and hasattr(trt.BuilderFlag, "OBEY_PRECISION_CONSTRAINTS")


def parts(build):
    """Returns a build's kind, its (pattern, type) in order, its lengths and whether TensorFloat-32 may be used.

    Raises attest.Unsupported for a text that is no build."""
    words, options = attest.split_build(build)
    kind, layers = words[0], []
    if kind not in (STRONG, HALF, LAYERS) or (kind != LAYERS and len(words) > 1) or (kind == LAYERS and len(words) == 1):
        raise attest.Unsupported(f"there is no build '{build}': it is {STRONG}, {HALF} or {LAYERS}+PATTERN:TYPE+..., and options +lengths=1/16/64 and +tf32=1")
    if kind != STRONG and not weakly_typed():
        raise attest.Unsupported(f"TensorRT {trt.__version__} has strong typing alone, and no build '{kind}': ask {STRONG} of a file that has the types it should")
    for word in words[1:]:
        pattern, _, precision = word.rpartition(":")
        if not pattern or precision not in PRECISIONS:
            raise attest.Unsupported(f"build '{build}': '{word}' is not PATTERN:TYPE, TYPE one of {', '.join(PRECISIONS)}")
        layers.append((pattern, PRECISIONS[precision]))
    lengths = options.pop("lengths", "/".join(map(str, LENGTHS)))
    if not re.fullmatch(r"\d+/\d+/\d+", lengths) or sorted(map(int, lengths.split("/"))) != list(map(int, lengths.split("/"))):
        raise attest.Unsupported(f"build '{build}': lengths={lengths} is not LEAST/BEST/MOST")
    tf32 = options.pop("tf32", "0") == "1"
    if options:
        raise attest.Unsupported(f"build '{build}': there is no option {', '.join(options)}")
    return kind, layers, tuple(map(int, lengths.split("/"))), tf32


def accepts(build):
    return bool(parts(build))


if not torch.cuda.is_available():
    raise attest.Unsupported("TensorRT needs a GPU of NVIDIA's, and torch finds none here")


@attest.runtime(name="tensorrt", version=trt.__version__, builds=(STRONG, *([HALF] if weakly_typed() else [])), accepts=accepts)
def tensorrt(model, *, build, threads):
    kind, layers, lengths, tf32 = parts(build)
    refuse_double(model)
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) if kind == STRONG else 0)
    parse(network, model, log)
    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # for the inspector
    if not tf32:
        config.clear_flag(trt.BuilderFlag.TF32)  # on by default
    if kind == HALF:
        config.set_flag(trt.BuilderFlag.FP16)
    if kind == LAYERS:
        constrain(network, layers)
        config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        for flag in sorted({FLAGS[precision] for _, precision in layers if precision in FLAGS}):
            config.set_flag(getattr(trt.BuilderFlag, flag))
    add_profile(builder, config, network, lengths)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise attest.Refused(log.reason("the network cannot be built"))
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(plan)
    context = engine.create_execution_context() if engine else None
    if context is None:
        raise attest.Refused(log.reason("the engine cannot be loaded"))
    return Engine(runtime, engine, context, lengths, build, log)


def refuse_double(model):
    """TensorRT has no float64, and its parser reads float32 in its place."""
    graph = onnx.load_from_string(model).graph
    typed = [one.type.tensor_type.elem_type for one in (*graph.input, *graph.output, *graph.value_info)] + [one.data_type for one in graph.initializer]
    for node in graph.node:
        for attribute in node.attribute:
            typed.append(attribute.t.data_type if attribute.HasField("t") else attribute.i if attribute.name == "to" else 0)
    if onnx.TensorProto.DOUBLE in typed:
        raise attest.Unsupported("tensorrt: no float64, which its parser takes for float32")


def parse(network, model, log):
    parser = trt.OnnxParser(network, log)
    if parser.parse(model):
        return
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    text = " ".join("; ".join(error.desc() for error in errors).split())[:300]
    # An operator that its page lacks is unsupported. A right file that it cannot read is refused.
    if errors and all("UNSUPPORTED" in str(error.code()) for error in errors):
        raise attest.Unsupported(f"tensorrt: {text}")
    raise attest.Refused(f"tensorrt: {text or log.reason('the file cannot be parsed')}")


def constrain(network, words):
    """Sets the precision of layers, the last word that fits one."""
    layers = [network.get_layer(i) for i in range(network.num_layers)]
    fitting = Counter()
    for layer in layers:
        chosen = None
        for word in words:
            pattern, precision = word
            if layer.name == pattern or ("*" in pattern and fnmatch.fnmatchcase(layer.name, literal(pattern))):
                fitting[pattern] += 1
                if layer.name == pattern or not keeps_its_type(layer):
                    chosen = precision
        if chosen:
            layer.precision = getattr(trt.DataType, chosen)
    for pattern, _ in words:
        if not fitting[pattern]:
            names = [layer.name for layer in layers]
            raise attest.Unsupported(f"tensorrt: '{pattern}' fits no layer of the network, which has {', '.join(names[:12])}"
                                     f"{f' and {len(names) - 12} more' if len(names) > 12 else ''}")


def literal(pattern):
    """* alone has a meaning: names of layers have brackets and question marks of their own."""
    return re.sub(r"[\[?]", lambda sign: f"[{sign.group()}]", pattern)


def keeps_its_type(layer):
    return layer.type == trt.LayerType.CONSTANT or layer.precision.name in NO_ACTIVATION


def add_profile(builder, config, network, lengths):
    """One profile for open axes, where there are any."""
    profile, is_open = builder.create_optimization_profile(), False
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        if tensor.is_shape_tensor:
            raise attest.Unsupported(f"tensorrt: input '{tensor.name}' sets shapes, and this profile has none of its values")
        shape = tuple(tensor.shape)
        is_open = is_open or -1 in shape
        if -1 in shape:
            profile.set_shape(tensor.name, *(tuple(length if axis == -1 else axis for axis in shape) for length in lengths))
    if is_open:
        config.add_optimization_profile(profile)


class Engine:
    """A compiled model: feeds and names to arrays."""

    def __init__(self, runtime, engine, context, lengths, build, log):
        self.runtime, self.engine, self.context, self.lengths, self.log = runtime, engine, context, lengths, log
        self.tensors = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        self.note = f"asked for {build.partition('+')[0]}; {effective(engine)}"

    def __call__(self, feeds, names):
        memory = {}  # on the device, kept until the run is over
        inputs = [name for name in self.tensors if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
        for name in inputs:
            feed = np.ascontiguousarray(feeds[name])
            if self.numpy(name) != feed.dtype:
                raise attest.Unsupported(f"tensorrt: input '{name}' is {feed.dtype} in the file and {self.numpy(name)} in the engine")
            if not self.context.set_input_shape(name, feed.shape):
                raise attest.Unsupported(f"tensorrt: the shape {list(feed.shape)} of '{name}' is outside of the profile, lengths={'/'.join(map(str, self.lengths))}")
            memory[name] = on_device(feed)
        if self.context.infer_shapes():
            raise attest.Refused(self.log.reason("shapes of its tensors stay open when all inputs have theirs"))
        shapes = {}
        for name in self.tensors:
            if name in memory:
                continue
            if self.engine.get_tensor_location(name) != trt.TensorLocation.DEVICE:
                raise attest.Unsupported(f"tensorrt: '{name}' is a shape, which lies on the host")
            shapes[name] = tuple(self.context.get_tensor_shape(name))
            if any(length < 0 for length in shapes[name]):
                raise attest.Unsupported(f"tensorrt: the shape of '{name}' hangs on data")
            # Bytes 0xFF are NaN: what a run leaves out shows.
            size = math.prod(shapes[name]) * np.dtype(self.numpy(name)).itemsize
            memory[name] = torch.full((max(size, 1),), 255, dtype=torch.uint8, device="cuda")
        for name, held in memory.items():
            self.context.set_tensor_address(name, held.data_ptr())
        torch.cuda.synchronize()  # another stream does the fills above
        stream = torch.cuda.Stream()
        done = self.context.execute_async_v3(stream.cuda_stream)
        stream.synchronize()
        if not done:
            raise attest.Refused(self.log.reason("the run failed"))
        return [self.array(memory[name], name, shapes[name]) for name in names]

    def numpy(self, name):
        dtype = self.engine.get_tensor_dtype(name).name
        if dtype not in NUMPY:
            raise attest.Unsupported(f"tensorrt: '{name}' is of type {dtype}")
        return np.dtype(NUMPY[dtype])

    def array(self, held, name, shape):
        size = math.prod(shape) * self.numpy(name).itemsize
        return held.cpu().numpy()[:size].view(self.numpy(name)).reshape(shape)


def on_device(array):
    """Its bytes, at least one: an address is always there."""
    data = np.frombuffer(array.tobytes() or b"\0", np.uint8).copy()
    return torch.from_numpy(data).to("cuda")


def effective(engine):
    """In which types the layers of an engine give their results, in the inspector's words: "Format/Datatype" in TensorRT 10, "DataType" in 11."""
    try:
        layers = json.loads(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))["Layers"]
        said = Counter(str(output.get("Format/Datatype") or output.get("DataType") or output.get("Datatype"))
                       for layer in layers for output in layer["Outputs"])
    except Exception:  # a form of its answer that is not known here says nothing
        said = {}
    if not said or None in said or "None" in said:
        return "the engine's inspector does not tell in which types its layers compute"
    return "the outputs of the engine's layers are " + ", ".join(f"{count} {words}" for words, count in sorted(said.items()))
