"""Calls on a device: their tensors go there and come back in one copy each, with the strides, the address modulo 256, the poison
and the guards that they have here."""
import ctypes
import json
import os
import select
from functools import lru_cache

from .arrays import TorchArrays
from .nursery import fork
from .protocol import TENSORS, Broken

GUARD = 256  # bytes that surely lie around each tensor; addresses are kept modulo it
LEAST_ROOM = 1 << 20  # bytes; room doubles from there, since locking pages takes longer than most calls
_PATIENCE = 120  # s, until a device has said what it is

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


# The generation of each compute capability, whose block products docs/bounds.md knows: the name that a contract's `mma` takes.
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
        # The device's name, and for CUDA its compute capability, such as [9, 0].
        self.model, self.capability = ("", None) if self.module is None else model_of(name)
        self.types = {short: kind for kind, short in self.names.items()} | {"bool": torch.bool, "i32": torch.int32}
        self.room = None

    def prepare(self):
        """Opens the device, which takes longer than the rest of a life's beginning. An error there will come again in the first
        call, which has somebody to tell."""
        try:
            self.room_for(LEAST_ROOM).memory.zero_().cpu()
        except RuntimeError:
            pass

    def begin(self, call):
        return MovedCall(self, call)

    def room_for(self, size):
        """Room of at least `size` bytes, the same from call to call."""
        if self.room is None or self.room.size < size:
            self.room = Room(self, max(LEAST_ROOM, 1 << (size - 1).bit_length()))
        return self.room

    def timers(self):
        """The events before and behind a kernel."""
        if self.events is None:
            self.events = [self.module.Event(enable_timing=True) for _ in range(2)]
        return self.events


class Room:
    """Memory of the device, which begins at a multiple of GUARD, and two pages here, page-locked where a device copies from them faster,
    of twice as many bytes, for what a kernel returns elsewhere."""

    def __init__(self, arrays, size):
        torch = arrays.torch
        self.size = size
        self.pages = torch.empty(2, 2 * size, dtype=torch.uint8, pin_memory=arrays.module is not None).unbind()
        self.addresses = [page.data_ptr() for page in self.pages]
        self.last = self.pages[1].numpy()
        memory = torch.empty(size + GUARD, dtype=torch.uint8, device=arrays.device)
        self.device = memory.device.index  # modules of torch take it in less time than its name
        self.memory = memory[-memory.data_ptr() % GUARD:][:size]
        views = {name: self.memory.view(dtype) for name, dtype in arrays.types.items()}
        self.flat = {name: (view, view.storage_offset()) for name, view in views.items()}  # all of it, by the type of its elements


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
        self.size = max(last for _, last in spans) + GUARD - self.first
        self.times = None
        self.room = self.guarded(self.bring_over)

    def bring_over(self):
        room = self.arrays.room_for(self.size)
        ctypes.memmove(room.addresses[0], self.first, self.size)
        self.memory = room.memory[:self.size]
        self.memory.copy_(room.pages[0][:self.size], non_blocking=True)
        return room

    def enter(self, view, dtype):
        """The tensor on the device."""
        (flat, start), size = self.room.flat[dtype], view.itemsize
        offset = start + (view.__array_interface__["data"][0] - self.first) // size
        return flat.as_strided(view.shape, [stride // size for stride in view.strides], offset)

    def target(self, view, dtype):
        return view, dtype

    def run(self, function, *arguments, **options):
        if self.arrays.module is None:
            return function(*arguments, **options)
        return self.guarded(lambda: self.timed(function, *arguments, **options))

    def timed(self, function, *arguments, **options):
        self.times, stream = self.arrays.timers(), self.arrays.module.current_stream(self.room.device)
        self.times[0].record(stream)
        result = function(*arguments, **options)
        self.times[1].record(stream)
        return result

    def leave(self, result):
        if not isinstance(result, self.torch.Tensor):
            raise TypeError(type(result).__name__)
        return result.detach(), self.arrays.names.get(result.dtype) or str(result.dtype)

    def end(self, results):
        """Brings everything back. `results`: (what the kernel returned, the call's own tensor, as target() has it) of each that it
        returned. Gives the kernel's nanoseconds by the device's clock, or None. Raises OutOfOrder."""
        return self.guarded(lambda: self.bring_back(results))

    def bring_back(self, results):
        """The results that the caller's stream sees, and, once all streams are done, the final ones: the same, if the one waits for them.
        Processes take turns on a device to compute, and not to copy: so a result that can come as it is is not brought into its place
        there."""
        module, room = self.arrays.module, self.room
        parts, end, whole, moved = [(self.memory, 0)], self.size, [], []  # parts: (bytes there, their place on a page)
        for result, (view, dtype) in results:
            if result.dtype == self.arrays.types[dtype] and result.is_contiguous():
                at = -(-end // GUARD) * GUARD
                end = at + view.nbytes
                parts.append((result.reshape(-1).view(self.torch.uint8), at))
                whole.append((view, at))
            else:
                moved.append((result, self.enter(view, dtype)))
        for page in room.pages:
            for result, target in moved:
                target.copy_(result)
            for part, at in parts:
                page[at:at + len(part)].copy_(part, non_blocking=True)
            if module is not None:
                module.synchronize(room.device)
        elapsed = None if module is None else int(self.times[0].elapsed_time(self.times[1]) * 1e6)
        ctypes.memmove(self.first, room.addresses[1], self.size)
        for view, at in whole:
            view[...] = room.last[at:at + view.nbytes].view(view.dtype).reshape(view.shape)
        first, last = room.addresses
        if any(_memcmp(first + at, last + at, len(part)) for part, at in parts):
            raise OutOfOrder("the caller's stream does not wait for the result: it changed when that stream was done")
        return elapsed

    def guarded(self, step):
        """The result of a step. Raises Broken for an error that leaves the device unusable to this process."""
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
    first = last = view.__array_interface__["data"][0]
    if view.size == 0:
        return first, first
    for n, stride in zip(view.shape, view.strides):
        last += (n - 1) * stride
    return first, last + view.itemsize
