"""Calls on a device: their tensors go there and come back in one copy each, with the strides, the address modulo 256, the poison
and the guards that they have here."""
import ctypes
import json
import os
import select
from functools import lru_cache

import numpy as np

from .arrays import TorchArrays
from .nursery import fork
from .protocol import TENSORS, Broken

GUARD = 256  # bytes that surely lie around each tensor; addresses are kept modulo it
_PATIENCE = 120  # s, until a device has said what it is


# By compute capability, the generation whose block products docs/bounds.md knows: the name that a contract's `mma` takes.
GENERATIONS = {(7, 0): "volta", (7, 2): "volta", (7, 5): "turing", (8, 0): "ampere", (8, 6): "ampere", (8, 7): "ampere",
               (8, 9): "ada", (9, 0): "hopper", (10, 0): "blackwell", (10, 3): "blackwell", (12, 0): "blackwell",
               (12, 1): "blackwell"}


def mma_of(capability):
    """The `mma` of a contract for NVIDIA's (major, minor), as torch.cuda.get_device_capability() gives it, or None: a generation
    without tensor cores, or one that nobody has measured."""
    return GENERATIONS.get(tuple(capability))


def with_mma(contract, capability):
    """The contract of a kernel on a device of that capability: one that does not say how sums are rounded gets the generation's
    own way."""
    mma = None if capability is None or "mma" in contract or "kappa" in contract else mma_of(capability)
    return {**contract, "mma": mma} if mma else contract


class OutOfOrder(Exception):
    """The result was not there when the caller's stream was done."""


class DeviceArrays(TorchArrays):
    """Arrays on the device `name`, by torch's names. Nothing here opens it before prepare() or the first call: a process may fork
    until then."""

    def __init__(self, name):
        super().__init__()
        torch = self.torch
        self.device = torch.device(name)
        # Streams and events are those of torch.cuda, torch.xpu, ...; the host, which tests take for a device, has none.
        self.module = None if self.device.type == "cpu" else getattr(torch, self.device.type)
        self.events = None
        # What the device is: its name, and for CUDA its compute capability, such as [9, 0].
        self.model, self.capability = ("", None) if self.module is None else model_of(name)
        self.types = {short: kind for kind, short in self.names.items()} | {"bool": torch.bool, "i32": torch.int32}
        self.staging = None

    def prepare(self):
        """Opens the device, which takes longer than the rest of a life's beginning. What goes wrong there will in the first call,
        which has somebody to tell."""
        try:
            self.staged(1 << 20)
            self.torch.zeros(1, device=self.device).cpu()
        except RuntimeError:
            pass

    def begin(self, call):
        return MovedCall(self, call)

    def staged(self, size):
        """Two host buffers of `size` bytes, page-locked where a device copies from them faster."""
        if self.staging is None or self.staging.shape[1] < size:
            self.staging = self.torch.empty(2, size, dtype=self.torch.uint8, pin_memory=self.module is not None)
        return self.staging[:, :size]

    def timers(self):
        """The events before and behind a kernel."""
        if self.events is None:
            self.events = [self.module.Event(enable_timing=True) for _ in range(2)]
        return self.events


@lru_cache(maxsize=None)
def model_of(name):
    """(name, compute capability or None) of a device, as a child of this process finds them, since a process that has opened it
    does not fork any more. Raises RuntimeError where there is none."""
    ours, theirs = os.pipe()
    child = fork()
    if child == 0:
        tell_model(name, theirs)
    os.close(theirs)
    said = b""
    while select.select([ours], [], [], _PATIENCE)[0] and (more := os.read(ours, 1 << 12)):
        said += more
    os.close(ours)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return json.loads(said) if said else asked_model(name)  # there is none, or it is open here


def asked_model(name):
    import torch
    module = getattr(torch, torch.device(name).type)
    if not module.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no device {name!r} here")
    capability = module.get_device_capability(name)
    return module.get_device_name(name), capability if isinstance(capability, tuple) else None


def tell_model(name, pipe):
    try:
        os.write(pipe, json.dumps(asked_model(name)).encode())
    finally:
        os._exit(0)


class MovedCall:
    """One call on the device: all of its tensors, with what lies between and around them."""

    def __init__(self, arrays, call):
        self.arrays, self.torch, self.device = arrays, arrays.torch, arrays.device
        spans = [span(tensor) for tensor in tensors_of(call)]
        self.first = (min(first for first, _ in spans) - GUARD) // GUARD * GUARD
        size = max(last for _, last in spans) + GUARD - self.first
        self.here = np.frombuffer((ctypes.c_ubyte * size).from_address(self.first), np.uint8)
        staged = arrays.staged(size)[0]
        staged.numpy()[:] = self.here
        room = self.torch.empty(size + GUARD, dtype=self.torch.uint8, device=self.device)
        self.memory = room[-room.data_ptr() % GUARD:][:size]
        self.guarded(lambda: self.memory.copy_(staged, non_blocking=True))
        self.times = self.stream = None
        self.flat = {}  # all of the memory by the type of its elements

    def enter(self, view, dtype):
        """The tensor on the device."""
        flat = self.flat.get(dtype)
        if flat is None:
            flat = self.flat[dtype] = self.memory[:len(self.memory) // 8 * 8].view(self.arrays.types[dtype])
        offset = (view.__array_interface__["data"][0] - self.first) // view.itemsize
        strides = [stride // view.itemsize for stride in view.strides]
        return self.torch.as_strided(flat, view.shape, strides, flat.storage_offset() + offset)

    target = enter

    def run(self, function, *arguments, **options):
        if self.arrays.module is None:
            return function(*arguments, **options)
        return self.guarded(lambda: self.timed(function, *arguments, **options))

    def timed(self, function, *arguments, **options):
        self.times, self.stream = self.arrays.timers(), self.arrays.module.current_stream(self.device)
        self.times[0].record(self.stream)
        result = function(*arguments, **options)
        self.times[1].record(self.stream)
        return result

    def leave(self, result):
        if not isinstance(result, self.torch.Tensor):
            raise TypeError(type(result).__name__)
        return result.detach(), self.arrays.names.get(result.dtype) or str(result.dtype)

    def end(self, results):
        """Brings everything back. `results`: (what the kernel returned, the call's own tensor on the device) of each that it
        returned. Gives the kernel's nanoseconds by the device's clock, or None. Raises OutOfOrder."""
        return self.guarded(lambda: self.bring_back(results))

    def bring_back(self, results):
        """What the caller's stream sees, and, once all streams are done, what there is: the same, if the one waits for them."""
        module, pages = self.arrays.module, self.arrays.staged(len(self.memory))
        elapsed = None
        for page in pages:
            for result, target in results:
                target.copy_(result)
            page.copy_(self.memory, non_blocking=True)
            if module is not None:
                self.stream.synchronize()
                module.synchronize(self.device)
        if module is not None:
            elapsed = int(self.times[0].elapsed_time(self.times[1]) * 1e6)
        self.here[:] = pages[1].numpy()
        if not self.torch.equal(pages[0], pages[1]):
            raise OutOfOrder("the caller's stream does not wait for the result: it changed when that stream was done")
        return elapsed

    def guarded(self, step):
        """What a step gives. Raises Broken for an error that leaves the device unusable to this process."""
        try:
            return step()
        except RuntimeError as error:
            if breaks_the_device(error):
                raise Broken(str(error).split("\n")[0]) from error  # behind it stands what is the same of each
            raise


def breaks_the_device(error):
    """Whether an error leaves the device unusable to this process."""
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)


def tensors_of(call):
    tensors = [getattr(call, name, None) for name in TENSORS]
    return [tensor for tensor in tensors if tensor is not None]


def span(view):
    """(first, last) address: the bytes that the strides span."""
    first = view.__array_interface__["data"][0]
    if view.size == 0:
        return first, first
    return first, first + sum((n - 1) * stride for n, stride in zip(view.shape, view.strides)) + view.itemsize
