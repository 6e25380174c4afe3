"""The worker's end of the mailbox (docs/worker.md): trips asked and answered in shared memory, while both ends look.

Plain loads and stores of eight bytes keep their order on x86-64 alone; elsewhere the worker takes no mailbox.
"""
import json
import mmap
import os
import platform
import struct
import threading
from time import perf_counter_ns

import numpy as np

from .protocol import NUMPY, Call, LayerNormCall, MhaCall, Unsupported

VERSION = 1
USABLE = platform.machine() in ("x86_64", "AMD64") and hasattr(os, "sched_yield")

# Words, as places in a list of eight-byte ones.
ASKED, ANSWERED, ATTEST_WAITS, WORKER_WAITS = 64 // 8, 128 // 8, 192 // 8, 256 // 8
MESSAGE, RECORDS = 4096, 64 * 1024
CALLS_OF_A_TRIP = 65536
OK, LINE = 1, 2

_TRIP = struct.Struct("=IIQQQ")
_HEAD = struct.Struct("=IIII")
_ATTENTION = struct.Struct("=iiIIddqq")
_LAYER_NORM = struct.Struct("=iiIId")
_MHA = struct.Struct("=iiIIdiiii")
_TENSOR = struct.Struct("=QII8q")
_TENSOR_BYTES = _TENSOR.size
_DTYPES = [(name, dtype, dtype.itemsize) for name, dtype in NUMPY.items()]
_SCALE_IS_DEFAULT, _CAUSAL = 1, 2
_RMS = 1

LONGEST_SPIN = 100_000  # ns
_LOST = 50_000  # a look that took so long: somebody else had the processor
_LEAST_REST, _MOST_REST = 4, 256


class _Tensors(dict):
    """The names of the tensors that a call has, by their bits."""

    def __init__(self, *names):
        super().__init__()
        self.names = names

    def __missing__(self, bits):
        self[bits] = there = tuple(name for place, name in enumerate(self.names) if bits >> place & 1)
        return there


# Stages are none of a Python kernel's.
_ATTENTION_TENSORS = _Tensors("q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse", "scores", "weights")
_LAYER_NORM_TENSORS = _Tensors("x", "residual", "gamma", "beta", "out", "sum_out")
_MHA_TENSORS = _Tensors(*MhaCall.INPUTS, "out", "q", "k", "v", "scores", "weights", "heads_out")


class Mailbox:
    def __init__(self, path, size):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.memory = mmap.mmap(file, size)
        os.close(file)
        self.words = memoryview(self.memory).cast("Q")
        self.lock = threading.Lock()
        self.trip = self.answered = 0
        self.usual, self.skip, self.rest, self.begin = 0, 0, _LEAST_REST, 0

    def spin(self):
        """Whether a trip is asked, after looking for it for as long as that has paid of late."""
        words, trip = self.words, self.trip
        if words[ASKED] != trip:
            return True
        self.begin = begin = now = perf_counter_ns()
        if self.usual > LONGEST_SPIN or self.skip:
            self.skip -= self.skip > 0
            return False
        yield_processor, clock = os.sched_yield, perf_counter_ns
        end = begin + LONGEST_SPIN
        while now < end:
            if words[ASKED] != trip or words[ASKED] != trip or words[ASKED] != trip or words[ASKED] != trip:
                self.note(now - begin)
                self.rest = max(self.rest // 2, _LEAST_REST)
                return True
            before = now
            yield_processor()
            now = clock()
            if now - before > _LOST:
                break
        self.skip = self.rest
        self.rest = min(self.rest * 2, _MOST_REST)
        return words[ASKED] != trip

    def note(self, wait):
        self.usual += (min(wait, 16 * LONGEST_SPIN) - self.usual) // 8

    def begin_sleep(self):
        """Says that this end sleeps. True if it need not: a trip is asked."""
        self.words[WORKER_WAITS] = 1
        with self.lock:  # a locked instruction: what is read behind it is read after that word is written
            pass
        return self.words[ASKED] != self.trip

    def end_sleep(self):
        self.words[WORKER_WAITS] = 0
        self.note(perf_counter_ns() - self.begin)

    def is_asked(self):
        return self.words[ASKED] != self.trip

    def take(self):
        """(number of calls, place of the subject, time limit in ms, bytes of the arena) of the trip that is asked."""
        self.trip, self.answered, self.at = self.words[ASKED], 0, MESSAGE + _TRIP.size
        calls, subject, timeout_ms, arena_bytes, _ = _TRIP.unpack_from(self.memory, MESSAGE)
        return calls, subject, timeout_ms, arena_bytes

    def next_call(self, arena):
        """The next call of the trip."""
        at = self.at
        size, op, flags, present = _HEAD.unpack_from(self.memory, at)
        self.at = at + size
        if op >= len(_READERS):
            raise Unsupported(f"operation {op}")
        return _READERS[op](self, at + _HEAD.size, flags, present, arena)

    def attention(self, at, flags, present, arena):
        memory = self.memory
        call = Call.__new__(Call)
        call.bias = call.keep = call.kv_lengths = call.lse = None
        call.align, call.threads, form_bytes, _, call.scale, call.softcap, call.window_left, call.window_right = \
            _ATTENTION.unpack_from(memory, at)
        call.scale_is_default, call.causal = flags & _SCALE_IS_DEFAULT != 0, flags & _CAUSAL != 0
        at += _ATTENTION.size
        dtypes = self.tensors(call, _ATTENTION_TENSORS[present], at, arena)
        call.dtype, call.bias_dtype = dtypes["q"], dtypes.get("bias")
        at += len(dtypes) * _TENSOR_BYTES
        call.form = json.loads(memory[at:at + form_bytes]) if form_bytes else {}
        return call

    def layer_norm(self, at, flags, present, arena):
        call = LayerNormCall.__new__(LayerNormCall)
        call.residual = call.gamma = call.beta = call.sum_out = None
        _, call.threads, _, _, call.epsilon = _LAYER_NORM.unpack_from(self.memory, at)
        call.rms = flags & _RMS != 0
        dtypes = self.tensors(call, _LAYER_NORM_TENSORS[present], at + _LAYER_NORM.size, arena)
        call.dtype, call.param_dtype = dtypes["x"], dtypes.get("gamma") or dtypes.get("beta")
        return call

    def mha(self, at, flags, present, arena):
        call = MhaCall.__new__(MhaCall)
        for name in MhaCall.TENSORS:
            setattr(call, name, None)
        call.align, call.threads, _, _, call.scale, call.heads, call.kv_heads, call.head_dim, _ = \
            _MHA.unpack_from(self.memory, at)
        call.scale_is_default, call.causal = flags & _SCALE_IS_DEFAULT != 0, flags & _CAUSAL != 0
        dtypes = self.tensors(call, _MHA_TENSORS[present], at + _MHA.size, arena)
        call.dtype = dtypes["x"]
        call.stage_dtype = next((dtypes[name] for name in MhaCall.STAGES if name in dtypes), None)
        return call

    def tensors(self, call, names, at, arena):
        """Gives the call its tensors, which are told one behind the other; {name: name of its dtype}."""
        told, arena_memory, unpack, array, dtypes = self.memory, arena.memory, _TENSOR.unpack_from, np.ndarray, {}
        for place, name in enumerate(names):
            offset, dtype, ndim, a, b, c, d, e, f, g, h = unpack(told, at + place * _TENSOR_BYTES)
            dtypes[name], numpy_dtype, size = _DTYPES[dtype]
            setattr(call, name, array((a, b, c, d)[:ndim], numpy_dtype, arena_memory, offset,
                                      (e * size, f * size, g * size, h * size)[:ndim]))
        return dtypes

    def answer(self, status, ns):
        """Answers the next call. True if attest sleeps, and must be knocked up."""
        words, place = self.words, (RECORDS >> 3) + 2 * self.answered
        words[place] = status
        words[place + 1] = ns
        self.answered += 1
        words[ANSWERED] = self.trip * CALLS_OF_A_TRIP + self.answered
        with self.lock:  # as in begin_sleep
            pass
        return words[ATTEST_WAITS] != 0


_READERS = (Mailbox.attention, Mailbox.layer_norm, Mailbox.mha)  # by the number of the operation

