"""@attest.runtime: whatever compiles and runs a model file, as a subject of `attest fuzz model.onnx --on ...`."""
from __future__ import annotations

import time
from typing import Any, Callable, Sequence, TypeVar, overload

import numpy as np

from .protocol import MODEL_NUMPY

F = TypeVar("F", bound=Callable[..., Any])

LAYOUTS = ("odd_base", "padded_rows", "every_other", "column_major")  # of inputs, besides packed ones

REGISTRY: list[Any] = []  # what the decorator has seen, in order


@overload
def runtime(function: F) -> F: ...
@overload
def runtime(function: None = None, *, name: str | None = None, version: str = "",
            builds: Sequence[str] = ("default",), layouts: Sequence[str] = ()) -> Callable[[F], F]: ...
def runtime(function: Any = None, *, name: str | None = None, version: str = "", builds: Sequence[str] = ("default",),
            layouts: Sequence[str] = ()) -> Any:
    """Declares a runtime of models: `@attest.runtime(builds=("O0", "O2"))`.

    The function takes the bytes of an ONNX file and the keywords `build`, one of `builds`, and `threads` (0: as you like), compiles
    the model and returns a function of `feeds` (a dict: numpy arrays by the names of inputs; bfloat16 as uint16) and `names` (a
    list of outputs), which returns their arrays in that order. Arrays are packed in C order, unless `layouts` says that others are taken, too:
    "odd_base", "padded_rows", "every_other", "column_major", or LAYOUTS for all of them. It may raise attest.Unsupported from either, and attest.Refused.
    Returns the function unchanged.
    """
    if not builds:
        raise ValueError("a runtime has one build at least")
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"there is no layout {layout!r}: there are {', '.join(LAYOUTS)}")

    def register(f: F) -> F:
        REGISTRY.append(Runtime(f, name or f.__name__, version, builds, layouts))
        return f
    return register if function is None else register(function)


class Runtime:
    """The models of a process that are compiled, by number."""

    def __init__(self, load, name, version, builds, layouts=()):
        self.function, self.name, self.version, self.builds, self.layouts = load, name, str(version), list(builds), list(layouts)
        self.models = {}

    def describe(self):
        return {"ops": ["model"], "builds": self.builds, "layouts": self.layouts}

    def load(self, message, arena):
        """Compiles a model; nanoseconds."""
        at, size = message["file"]["offset"], message["file"]["bytes"]
        file = bytes(arena.memory[at:at + size])
        start = time.perf_counter_ns()
        self.models[message["model"]] = self.function(file, build=message["build"], threads=message["threads"])
        return time.perf_counter_ns() - start

    def unload(self, message):
        self.models.pop(message["model"], None)

    def ask(self, message, arena):
        """Runs a model; the outputs as the answer says them, and nanoseconds. Those that fit are written behind each other from
        `room` on, each at a multiple of 64 bytes."""
        feeds = {name: tensor_view(arena, tensor) for name, tensor in message["inputs"].items()}
        names = message["outputs"]
        start = time.perf_counter_ns()
        got = self.models[message["model"]](feeds, names)
        elapsed = time.perf_counter_ns() - start
        got = list(got)
        if len(got) != len(names):
            raise ValueError(f"{len(got)} outputs were returned where {len(names)} were asked for")
        at, end = message["room"]["offset"], message["room"]["offset"] + message["room"]["bytes"]
        outputs = []
        for name, array in zip(names, got):
            array = np.asarray(array)
            said = {"name": name, "dtype": model_dtype(array.dtype), "shape": list(array.shape)}
            if said["dtype"] is not None and at + array.nbytes <= end:
                arena.memory[at:at + array.nbytes] = np.ascontiguousarray(array).tobytes()
                said["offset"] = at
                at += -(-array.nbytes // 64) * 64
            outputs.append(said)
        return outputs, elapsed


def tensor_view(arena, tensor):
    dtype = np.dtype(MODEL_NUMPY[tensor["dtype"]])
    strides = [stride * dtype.itemsize for stride in tensor["strides"]] if "strides" in tensor else None
    return np.ndarray(tensor["shape"], dtype, arena.memory, tensor["offset"], strides)


def model_dtype(dtype):
    """The protocol's word for numpy's dtype, None where it has none."""
    names = [name for name, known in MODEL_NUMPY.items() if known == dtype]
    return names[0] if names else "bf16" if dtype.name == "bfloat16" else None
