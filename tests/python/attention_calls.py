"""Attention calls as a worker would make them, and what they mean in float64: what the tests of the adapters share."""

from types import SimpleNamespace

import numpy as np

TOP_LEFT, BOTTOM_RIGHT = 0, 1  # Call.align
TYPES = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}  # bf16: its bits
TENSORS = ("q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse")
POISON = 0xFF
ROUNDOFF = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}


def stored(values, dtype):
    """The values rounded to dtype; the bits of bf16, truncated."""
    if dtype == "bf16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(values).astype(TYPES[dtype])


def values(array, dtype):
    """The numbers of the array, in float64."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(float)
    return array.astype(float)


def call(b=1, hq=1, hkv=None, lq=2, lk=3, d=2, dv=None, dtype="f32", seed=0, **options):
    """A call as the worker would make it; options override any attribute."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: stored(rng.standard_normal(shape), dtype)
    hkv, dv = hkv or hq, dv or d
    made = dict(
        q=draw(b, hq, lq, d), k=draw(b, hkv, lk, d), v=draw(b, hkv, lk, dv), bias=None, keep=None, kv_lengths=None,
        out=stored(np.full((b, hq, lq, dv), np.nan), dtype), lse=None, dtype=dtype, bias_dtype=None, softcap=0.0,
        scale=float(1 / np.sqrt(d)), scale_is_default=True, causal=False, align=TOP_LEFT, window_left=-1, window_right=-1,
        threads=1, form={},
    )
    made.update(options)
    if "scale" in options:
        made["scale_is_default"] = False
    if made["bias"] is not None:
        made["bias_dtype"] = made["bias_dtype"] or dtype
    for name in ("bias", "keep"):  # stride 0 where broadcast, as in a problem
        if made[name] is not None:
            made[name] = np.broadcast_to(made[name], (b, hq, lq, lk))
    return SimpleNamespace(op="attention", **made)


def open_keys(c):
    """bool [B, Hq, Lq, Lk]: whether a key takes part in a row and is above a bias of -inf."""
    lq, lk = c.q.shape[2], c.k.shape[2]
    lengths = np.full(len(c.q), lk) if c.kv_lengths is None else c.kv_lengths
    i, j = np.arange(lq)[:, None], np.arange(lk)
    part = np.broadcast_to(j < lengths[:, None, None, None], (*c.q.shape[:3], lk)).copy()
    if c.keep is not None:
        part &= c.keep
    diagonal = i + (lengths - lq if c.align == BOTTOM_RIGHT else np.zeros_like(lengths))[:, None, None, None]
    if c.causal:
        part &= j <= diagonal
    if c.window_left >= 0:
        part &= diagonal - j <= c.window_left
    if c.window_right >= 0:
        part &= j - diagonal <= c.window_right
    return part if c.bias is None else part & ~np.isneginf(values(c.bias, c.bias_dtype))


def reference(c):
    """The output in float64, by the order of meaning of attest_attention; an empty row is 0."""
    group = c.q.shape[1] // c.k.shape[1]
    q = values(c.q, c.dtype)
    k, v = (np.repeat(values(x, c.dtype), group, 1) for x in (c.k, c.v))
    score = c.scale * (q @ k.swapaxes(2, 3))
    if c.softcap > 0:
        score = c.softcap * np.tanh(score / c.softcap)
    if c.bias is not None:
        score = score + values(c.bias, c.bias_dtype)
    score = np.where(open_keys(c), score, -np.inf)
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - np.where(np.isneginf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    return weight @ v / np.where(total == 0, 1, total)


def far(c):
    """Whether the output is further from the reference than the small standard-normal problems here permit."""
    error = np.abs(values(c.out, c.dtype) - reference(c))
    return not np.all(error <= 60 * ROUNDOFF[c.dtype] * max(1.0, np.abs(values(c.v, c.dtype)).max()))


BATTERY = [
    dict(),
    dict(b=3, hq=4, lq=5, lk=7, d=3, dv=6),
    dict(b=2, hq=2, lq=9, lk=70, d=33),
    dict(lq=1, lk=1, d=1),
    dict(hq=4, hkv=2, lq=3, lk=5),
    dict(scale=0.3),
    dict(softcap=0.75, scale=1.0),
    dict(causal=True, lq=4, lk=4),
    dict(causal=True, lq=5, lk=3),
    dict(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5),
    dict(causal=True, align=BOTTOM_RIGHT, lq=5, lk=3),
    dict(b=2, causal=True, align=BOTTOM_RIGHT, lq=2, lk=5, kv_lengths=np.array([3, 5], np.int32)),
    dict(b=2, lq=3, lk=5, kv_lengths=np.array([2, 5], np.int32)),
    dict(b=2, causal=True, lq=5, lk=4, kv_lengths=np.array([2, 4], np.int32)),
    dict(b=2, hq=2, lq=3, lk=4, keep=np.array([[[[1, 0, 1, 1]]], [[[0, 1, 1, 0]]]], bool), _rows=True),
    dict(b=2, hq=2, lq=2, lk=3, keep=np.array([[1, 0, 1], [0, 1, 1]], bool)),
    dict(b=2, lq=3, lk=4, keep=np.ones((2, 1, 1, 1), bool)),  # one value for all keys of a sample
    dict(b=2, hq=2, lq=1, lk=3, keep=np.array([[1, 0, 1], [0, 1, 1]], bool).reshape(1, 2, 1, 3)),
    dict(b=2, hq=2, lq=2, lk=3, bias=np.linspace(-2, 2, 12).reshape(1, 2, 2, 3)),
    dict(b=2, lq=2, lk=3, bias=np.linspace(-2, 2, 6).reshape(2, 3), keep=np.array([[1, 0, 1], [0, 1, 1]], bool)),
]


def battery(dtype, **more):
    """(problem, its call) of each problem of the battery."""
    for problem in BATTERY:
        options = {**problem, **more}
        rows = options.pop("_rows", False)
        if options.get("bias") is not None:
            options["bias"] = stored(options["bias"], dtype)
        c = call(dtype=dtype, **options)
        if rows:  # the query dimension written out: where it is not, onnxruntime refuses the mask (ort-attention-1)
            c.keep = np.ascontiguousarray(c.keep)
        yield problem, c


def in_an_arena(c, shift=0):
    """The tensors of a call in one memory as attest lays them out: 256 poisoned bytes around each, `shift` elements off a multiple
    of 256. Returns that memory."""
    given = {name: getattr(c, name) for name in TENSORS if getattr(c, name) is not None}
    reach = lambda view: sum((n - 1) * s for n, s in zip(view.shape, view.strides)) + view.itemsize if view.size else 0
    rooms = {name: (reach(view) + 3 * 256 + 255) // 256 * 256 for name, view in given.items()}
    memory = np.full(sum(rooms.values()) + 256, POISON, np.uint8)
    at = -memory.ctypes.data % 256
    for name, view in given.items():
        here = np.ndarray(view.shape, view.dtype, memory, at + 256 + shift * view.itemsize, view.strides)
        here[...] = view
        setattr(c, name, here)
        at += rooms[name]
    return memory


def script_output(code, c):
    """`got` of an exported script run on the tensors of c; a script takes bf16 as the float32 numbers it stands for."""
    scope = {"np": np, "scale": c.scale, "keep": c.keep, "kv_lengths": c.kv_lengths}
    for name in ("q", "k", "v", "bias"):
        tensor = getattr(c, name)
        scope[name] = values(tensor, "bf16").astype(np.float32) if c.dtype == "bf16" and tensor is not None else tensor
    exec(code, scope)
    return scope["got"]


def empty_calls(subject):
    """(problem, call) of calls without elements along one of the dimensions that may be 0, in each value of each form."""
    dims = subject.describe()["supports"]["dims"]
    forms = [{}] + [{form: value["value"] if isinstance(value, dict) else value}
                    for form, values in subject.forms.items() for value in values[1:]]
    for name in sorted(dim for dim, range in dims.items() if isinstance(range, list) and range[0] == 0):
        sizes = dict(b=2, hq=2, lq=3, lk=3, d=8) | ({"hq": 0} if name == "hkv" else {name: 0})
        b, lk = sizes["b"], sizes["lk"]
        for options in (dict(), dict(causal=True), dict(causal=True, align=BOTTOM_RIGHT), dict(keep=np.ones((b, 1, 1, lk), bool)),
                        dict(bias=np.zeros((b, 1, sizes["lq"], lk), np.float32)), dict(kv_lengths=np.full(b, min(2, lk), np.int32))):
            for form in forms:
                yield (name, options, form), call(**sizes, **options, form=form)
