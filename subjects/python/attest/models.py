"""@attest.runtime: whatever compiles and runs a model file, as a subject of `attest fuzz model.onnx --on ...`."""
from __future__ import annotations

import time
from typing import Any, Callable, Sequence, TypeVar, overload
from urllib.parse import unquote

import numpy as np

from .formats import ROWS
from .protocol import MODEL_NUMPY, Unsupported

F = TypeVar("F", bound=Callable[..., Any])

LAYOUTS = ("odd_base", "padded_rows", "every_other", "column_major")  # layouts of inputs, besides packed ones

REGISTRY: list[Any] = []  # the functions that the decorator has seen, in order


@overload
def runtime(function: F) -> F: ...
@overload
def runtime(function: None = None, *, name: str | None = None, version: str = "",
            builds: Sequence[str] = ("default",), layouts: Sequence[str] = (),
            accepts: Callable[[str], bool] | None = None) -> Callable[[F], F]: ...
def runtime(function: Any = None, *, name: str | None = None, version: str = "", builds: Sequence[str] = ("default",),
            layouts: Sequence[str] = (), accepts: Callable[[str], bool] | None = None) -> Any:
    """Declares a runtime of models: `@attest.runtime(builds=("O0", "O2"))`.

    The function takes the bytes of an ONNX file and the keywords `build`, one of `builds`, and `threads` (0: as you like), compiles
    the model and returns a function of `feeds` (a dict: numpy arrays by the names of inputs; bfloat16 as uint16) and `names` (a
    list of outputs), which returns their arrays in that order. Arrays are packed in C order, unless `layouts` says that others are taken, too:
    "odd_base", "padded_rows", "every_other", "column_major", or LAYOUTS for all of them. It may raise attest.Unsupported from either, and attest.Refused.
    The returned function may have an attribute `note`: one sentence that is told beside the results, as on which parts of a graph
    another than the one that was asked for has computed.

    `accepts` is asked of each build that --on names, and says whether that is one, of `builds` or not: options that there are too many of
    for a list (split_build). It raises attest.Unsupported with one sentence where such a build cannot be had here.
    Returns the function unchanged.
    """
    if not builds:
        raise ValueError("a runtime has one build at least")
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"there is no layout {layout!r}: there are {', '.join(LAYOUTS)}")

    def register(f: F) -> F:
        REGISTRY.append(Runtime(f, name or f.__name__, version, builds, layouts, accepts))
        return f
    return register if function is None else register(function)


def split_build(build: str) -> tuple[list[str], dict[str, str]]:
    """`all+PROVIDER+key=value+key=value` as (["all", "PROVIDER"], {"key": "value", ...}). In keys and values %2B stands for a plus, %2C for a
    comma, %20 for a blank and %25 for the sign itself, as in addresses. Raises attest.Unsupported with one sentence for what is none of that."""
    if not all("!" <= sign <= "~" for sign in build):
        raise Unsupported(f"build {build!a}: it has a character that is not printable ASCII, or a blank: write it as %XX, its bytes in hexadecimal")
    words: list[str] = []
    options: dict[str, str] = {}
    for word in build.split("+"):
        key, equals, value = (unquote(part) for part in word.partition("="))
        if not key or (options and not equals):
            raise Unsupported(f"build '{build}': '{word}' is no option, KEY=VALUE (a plus inside of a value is written as %2B)")
        if not equals:
            words.append(word)
        elif key in options:
            raise Unsupported(f"build '{build}': it has the option {key} twice")
        else:
            options[key] = value
    return words, options


class Runtime:
    """The models of a process that are compiled, by number."""

    def __init__(self, load, name, version, builds, layouts=(), accepts=None):
        self.function, self.name, self.version, self.builds, self.layouts = load, name, str(version), list(builds), list(layouts)
        self.accepts = accepts
        self.models = {}

    def take(self, asked):
        """Builds that will be asked for: those that are accepted belong to `builds` from then on. Raises Unsupported where one cannot be had."""
        for build in asked:
            if self.accepts is not None and self.accepts(build) and build not in self.builds:
                self.builds.append(build)

    def describe(self):
        return {"ops": ["model"], "builds": self.builds, "layouts": self.layouts}

    def load(self, message, arena):
        """Compiles a model; its note, and nanoseconds."""
        at, size = message["file"]["offset"], message["file"]["bytes"]
        file = bytes(arena.memory[at:at + size])
        start = time.perf_counter_ns()
        model = self.function(file, build=message["build"], threads=message["threads"])
        elapsed = time.perf_counter_ns() - start
        self.models[message["model"]] = model
        return str(getattr(model, "note", "")), elapsed

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
    return names[0] if names else next((name for name, row in ROWS.items() if row.library == dtype.name), None)
