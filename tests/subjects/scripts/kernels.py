"""Subjects that behave and that do not; one name each."""
import os
import signal
import sys
import time

import attest
import numpy as np
from attest.protocol import Broken

print("a script may print while it is imported")
print('{"protocol":1,"message":"describe","subjects":[]}', flush=True)


@attest.subject(dtypes=["float32", "float16"], version="3.1", contract={"policy": "f32"})
def echo(q, k, v, *, scale):
    """v's first key plus q's first element."""
    return (v[:, :, :1, :] + q[..., :1]).astype(q.dtype)


@attest.subject
def writes_out(q, k, v, *, scale, out):
    out[...] = 2


@attest.subject
def facts(q, k, v, *, scale, causal, align, softcap, window_left, window_right, threads, lse, bias, keep, kv_lengths):
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    said = [scale, causal, align == "bottom_right", softcap, -9 if window_left is None else window_left,
            -9 if window_right is None else window_right, threads, q.ctypes.data % 256,
            bias is None, keep is None, kv_lengths is None, lse]
    out[0, 0, 0, :len(said)] = said
    return (out, np.full(q.shape[:3], 0.25)) if lse else out


@attest.subject(supports={"forms": {"mask": ["full", "1d"], "hint": ["none", {"value": "f16", "contract": {"policy": "f16"}}]}},
                dtypes=["float32", "float16"])
def forms(q, k, v, *, scale, form):
    said = sum(2**n for n, (name, value) in enumerate([("mask", "full"), ("mask", "1d"), ("hint", "none"), ("hint", "f16")])
               if form[name] == value)
    return np.full((*q.shape[:3], v.shape[3]), said, q.dtype)


@attest.subject
def reshapes_what_it_gets(q, k, v, *, scale):
    """Says how many axes q came with, and leaves it with one."""
    axes = q.ndim
    shape = (*q.shape[:3], v.shape[3])
    q.shape = (-1,)
    q.flags.writeable = False
    return np.full(shape, axes, q.dtype)


@attest.subject
def processor_seconds(q, k, v, *, scale):
    """Returns the processor seconds that this process has used so far."""
    return np.full((*q.shape[:3], v.shape[3]), sum(os.times()[:2]), q.dtype)


calls = 0


@attest.subject
def life(q, k, v, *, scale):
    """The process, its parent, its group, and the calls that it has had; a scale of 2 ends it, one of 3 its parent."""
    global calls
    calls += 1
    if scale == 2:
        os._exit(7)
    if scale == 3:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    out[0, 0, 0, :4] = [os.getpid(), os.getppid(), os.getpgid(0), calls]
    return out


@attest.subject
def products(q, k, v, *, scale):
    """Large ones, by as many threads as the library takes."""
    a = np.ones((600, 600), np.float32)
    return np.full((*q.shape[:3], v.shape[3]), (a @ a)[5, 5], q.dtype)


@attest.subject
def masked(q, k, v, *, scale, bias=None, keep=None, kv_lengths=None):
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    out[0, 0, 0, :4] = [bias.sum(), keep.sum(), kv_lengths.sum(), keep.dtype == bool]
    return out


@attest.subject(name="corner-unsaid")
def corner(q, k, v, *, scale, causal):
    return np.ones((*q.shape[:3], v.shape[3]), q.dtype)


@attest.subject
def raises(q, k, v, *, scale):
    raise ValueError("on purpose\nand in two lines \udc80 \x1b[31m")


@attest.subject
def refuses(q, k, v, *, scale):
    raise attest.Unsupported("head width 7")


@attest.subject
def quits(q, k, v, *, scale):
    sys.exit("bye")


@attest.subject
def wrong_shape(q, k, v, *, scale):
    return np.zeros((1, 2, 3), q.dtype)


@attest.subject
def wrong_dtype(q, k, v, *, scale):
    return np.zeros((*q.shape[:3], v.shape[3]), np.float64)


@attest.subject
def returns_nothing(q, k, v, *, scale):
    pass


@attest.subject
def returns_list(q, k, v, *, scale):
    return [1.0]


@attest.subject
def no_lse(q, k, v, *, scale, lse):
    return np.zeros((*q.shape[:3], v.shape[3]), q.dtype)


@attest.subject
def prints(q, k, v, *, scale):
    print('{"protocol":1,"message":"run","id":1,"call":0,"status":"error","ns":1}', flush=True)
    sys.__stdout__.write("more\n")
    return np.full((*q.shape[:3], v.shape[3]), 3, q.dtype)


@attest.subject
def reads_stdin(q, k, v, *, scale):
    return np.full((*q.shape[:3], v.shape[3]), 4 if sys.stdin.read() == "" else 5, q.dtype)


@attest.subject
def hangs_holding_the_lock(q, k, v, *, scale):
    import ctypes
    ctypes.PyDLL(None).sleep(3600)


@attest.subject
def segfaults(q, k, v, *, scale):
    import ctypes
    ctypes.string_at(8)


@attest.subject
def loses_its_device(q, k, v, *, scale):
    """Loses its device at the second call of each life."""
    lost = vars(loses_its_device)
    lost["calls"] = lost.get("calls", 0) + 1
    if lost["calls"] == 2:
        raise Broken("the device is lost")
    return np.zeros((*q.shape[:3], v.shape[3]), q.dtype)


@attest.subject(supports={"gqa": True, "dims": {"d": [1, 64, 8], "dv": "=d"}, "align": ["top_left"]})
def declares(q, k, v, *, causal=False):
    return v[:, :, :1]


@attest.subject(dtypes=["bfloat16"])
def bf16(q, k, v, *, scale):
    return v[:, :, :1, :] + q[..., :1]


@attest.subject(contract={"batch_invarient": "bitwise"})
def contract_typo(q, k, v, *, scale):
    return v
