"""A call of PyTorch as a few lines of Python that make it without attest: what `attest export --to python` pastes.

The lines expect the call's arrays in scope by their names, bfloat16 ones as float32, and leave the output in `got`. `device`:
where the call is made, None for the host.
"""

import inspect
from textwrap import indent

import numpy as np
import torch

from ._mha_call import side_by_side
from ._torch_call import TYPES

_HEAD = """\
import torch
torch.set_num_threads({threads})
"""

_ON_DEVICE = """\
import torch
torch.set_default_device({device!r})
"""

# Strides and misalignment are part of a problem; NaN fills what lies between the elements, as it did.
_LAID = """\
def laid(array, dtype, strides, offset):
    span = offset + 1 + sum((n - 1) * s for n, s in zip(array.shape, strides))
    t = torch.full((span,), float("nan"), dtype=dtype).as_strided(array.shape, strides, offset)
    given = tuple(slice(0, 1) if s == 0 else slice(None) for s in strides)  # an axis that is broadcast is written once
    t[given].copy_(torch.tensor(array[given]))
    return t
"""

_CATCH = """\
except (AssertionError, IndexError, RuntimeError, ValueError) as error:
    raise SystemExit(f"refused: {error}")
"""
_CATCH_INSIDE = indent(_CATCH, "    ")


def sdpa(inputs, call, backend, device, settings=""):
    function = f"got = torch.nn.functional.scaled_dot_product_attention({_options(inputs, call)[2:]})"
    if backend is None:
        body = f"    {function}\n"
    else:
        body = f"    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.{backend.name}):\n        {function}\n"
    shaped = "" if inputs["query"].dim() == 4 else f".reshape{tuple(call.out.shape)}"
    return _script(call, settings + "try:\n" + body + _awaited(device) + _CATCH + f"got = {_numbers(device)}{shaped}\n", device)


def norm(function, call, shape):
    split = lambda axis: f".unflatten({axis}, {shape})" if len(shape) > 1 else ""
    given = "".join(f", {name}={_argument_named(of, call, call.param_dtype)}{split(0)}"
                    for name, of in (("weight", "gamma"), ("bias", "beta")) if getattr(call, of) is not None)
    joined = ".flatten(1)" if len(shape) > 1 else ""
    return _script(call, f"try:\n    got = torch.nn.functional.{function}({_argument_named('x', call)}{split(1)}, {shape}{given}, "
                   f"eps=epsilon){joined}\n" + _CATCH + f"got = {_numbers(None)}\n")


def encoder_norm(norm, down, call):
    width = call.x.shape[1]
    given = "".join(f"    layer.norm{norm}.{name}.copy_({_argument_named(of, call, call.param_dtype)})\n"
                    for name, of in (("weight", "gamma"), ("bias", "beta")) if getattr(call, of) is not None)
    passes = (f"    layer.self_attn.in_proj_weight[{2 * width}:] = layer.self_attn.out_proj.weight[:] = torch.eye({width})\n" if norm == 1
              else f"    layer.linear1.weight[:], layer.linear2.weight[:] = (torch.cat([torch.eye({width}), -torch.eye({width})], axis) "
                   "for axis in (0, 1))\n")
    return _script(call, f"""\
# x, scaled until it is nothing beside its normalised values, through a layer of which all else passes these on, or gives 0
down = 2.0**-{down}
layer = torch.nn.TransformerEncoderLayer({width}, {2 if width % 2 == 0 else 1}, {2 * width}, layer_norm_eps=epsilon * down * down,
                                         batch_first=True, norm_first=True, dtype={TYPES[call.dtype]}).eval()
with torch.no_grad():
    for part in layer.self_attn, layer.linear1, layer.linear2:
        for parameter in part.parameters():
            parameter.zero_()
{passes}{given}    x = {_argument_named('x', call)} * down
    got = layer(x[:, None])[:, 0]
    got = torch.where((got == x) & (x != 0), torch.zeros_like(got), got)
got = {_numbers(None)}
""")


def encoder_block(functions, options, down, call):
    (k, r), width = down, call.x.shape[2]
    return _encoder(functions, f"layer({width}, {call.heads}, {TYPES[call.dtype]})", f"2.0**{k - r}, 4.0**-{r}", f"paired({{}} * 2.0**-{k})",
                    f"encoder(x{_options(options, call)})", f":{2 * width}:2", call)


def encoder(functions, options, down, call):
    k, r = down
    return _encoder(functions, f"stack({call.heads}, {TYPES[call.dtype]})", f"2.0**{k}, 2.0**{r}", f"halves({{}} * 2.0**-{k})",
                    f"encoded(encoder, x, dict({_options(options, call).removeprefix(', ')}))", ":8", call)


def _encoder(functions, made, powers, x, run, columns, call):
    """A block inside what `made` makes; `columns`: where the features of x and of the result lie."""
    arrays = ", ".join(f'"{name}": {"None" if getattr(call, name) is None else _argument_named(name, call)}'
                       for name in ("x", "w_q", "w_k", "w_v", "w_out", "b_q", "b_k", "b_v", "b_out"))
    return _script(call, "\n\n" + "\n\n".join(map(inspect.getsource, functions)) + f"""

given = {{{arrays}}}
with torch.no_grad():
    encoder = {made}
    fill(encoder, given, {call.heads}, {powers})
    x = {x.format('given["x"]')}
    try:
        got = {run}[..., {columns}]
""" + _CATCH_INSIDE + f"""    x = x[..., {columns}]
    got = torch.where((got == x) & (x != 0), torch.zeros_like(got), got)
got = {_numbers(None)}
""")


def _options(options, call):
    return "".join(f", {name}={_argument(value, call)}" for name, value in options.items())


def flash_lse(inputs, call, operator, device):
    return _script(call, f"try:\n    got, lse = torch.ops.aten.{operator}({_options(inputs, call)[2:]})[:2]\n" + _awaited(device) + _CATCH
                   + f"got = {_numbers(device)}\n", device)


def mha(said, call):
    b, heads, lq, d = call.out.shape
    # The layer adds a key of its own.
    cut = "[:, :, 1:]" if said.zero_attn else "" if said.bias_kv is None else "[:, :, :-1]"
    inside = lambda name: (f"{_argument_named(name, call)}{cut if name != 'q' else ''}"
                           f".transpose(1, 2).reshape({b}, -1, {heads * d})")
    batched = {"first": "", "second": ".transpose(0, 1)", "none": "[0]"}[said.batch]
    bias = "" if said.biased else "bias=False, "
    bias += "" if said.bias_kv is None else "add_bias_kv=True, "
    bias += "add_zero_attn=True, " if said.zero_attn else ""
    body = (f"mha = torch.nn.MultiheadAttention({said.width}, {heads}, {bias}batch_first={said.batch != 'second'}, "
            f"dtype={said.dtype}).eval()\n")
    if said.fast:
        body += (f"x = torch.cat([{inside('q')}, {inside('k')}, {inside('v')},\n"
                 f"               torch.zeros({b}, {lq}, {heads * d}, dtype={said.dtype})], 2){batched}\n"
                 + (f"x = torch.nested.as_nested_tensor(list(x), layout=torch.{said.nested})\n" if said.nested else "")
                 + "inputs = x, x, x  # the same tensor: the fast path\n"
                 f"rows = (torch.arange({heads})[:, None] * {4 * d} + torch.arange({d})).ravel()\n"
                 f"features = torch.arange({heads * d})\n")
    else:
        body += f"inputs = {', '.join(inside(name) + batched for name in 'qkv')}\n"
    body += ("with torch.no_grad():  # projections that pass the heads through\n"
             "    for p in mha.parameters():\n        p.zero_()\n"
             "    w_q, w_k, w_v = mha.in_proj_weight.chunk(3)\n")
    if said.fast:  # doubling q makes up for heads four times as wide
        step = heads * d
        body += ("    w_q[rows, features] = 2\n"
                 f"    w_k[rows, features + {step}] = w_v[rows, features + {2 * step}] = 1\n"
                 "    mha.out_proj.weight[features, rows] = 1\n")
    else:
        body += ("    for w in (w_q, w_k, w_v, mha.out_proj.weight):\n"
                 f"        w.copy_(torch.eye({said.width}))\n")
    if said.bias_kv is not None:
        body += (f"    mha.bias_k.copy_({_literal(said.bias_kv[0])})\n"
                 f"    mha.bias_v.copy_({_literal(said.bias_kv[1])})\n")
    options = _options(said.options, call)
    got = f"torch.stack(mha(*inputs{options})[0].unbind())" if said.nested else f"mha(*inputs{options})[0]"
    body += (f"    try:\n        got = {got}\n" + _CATCH_INSIDE
             + {"first": "", "second": "got = got.transpose(0, 1)\n", "none": "got = got[None]\n"}[said.batch]
             + f"got = got[:, :, :{heads * d}].reshape({b}, {lq}, {heads}, {d}).transpose(1, 2).double().numpy()\n")
    return _script(call, body)


def block(said, call, path):
    """A call of a whole layer of torch.nn.MultiheadAttention, as _torch_block says it; `path`: as_it_is, fast or slow."""
    named = lambda name: _argument_named(name, call)
    batched = {"first": "", "second": ".transpose(0, 1)", "none": "[0]"}[said.batch]
    kinds = "".join(f", {name}={value}" for name, value in (
        ("bias", said.biased), ("add_bias_kv", said.bias_kv), ("batch_first", said.batch != "second")))
    kinds += f", kdim={said.width + 1}, vdim={said.width + 2}" if said.separate else ""
    wider = lambda text, columns: f"torch.nn.functional.pad({text}, (0, {columns}))"
    given = {"out_proj.weight": named("w_out")}
    if said.separate:
        given |= {"q_proj_weight": named("w_q"), "k_proj_weight": wider(named("w_k"), 1),
                  "v_proj_weight": wider(named("w_v"), 2)}
    else:
        given["in_proj_weight"] = _joined(("w_q", "w_k", "w_v"), call)
    if said.biased:
        zeros = lambda n: f"torch.zeros({n}, dtype={said.dtype})"
        given["in_proj_bias"] = zeros(3 * said.width) if call.b_q is None else _joined(("b_q", "b_k", "b_v"), call)
        given["out_proj.bias"] = zeros(said.width) if call.b_out is None else named("b_out")
    if said.bias_kv:
        given |= {name: _literal(said.parameters[name]) for name in ("bias_k", "bias_v")}
    memory = "x" if call.memory is None else named("memory") + ("[:, :-1]" if said.bias_kv else "") + batched
    inputs = "x, memory, memory"
    if said.three:
        inputs = "x, memory[:], memory[:]  # tensors of their own"
    elif said.separate:
        inputs = f"x, {wider('memory', 1)}, {wider('memory', 2)}"
    options = _options(said.options, call)
    body = (f"mha = torch.nn.MultiheadAttention({said.width}, {said.heads}{kinds}, dtype={said.dtype}).eval()\n"
            + "".join(f'mha.{name} = torch.nn.Parameter({text}, requires_grad=False)\n' for name, text in given.items())
            + ("torch.backends.mha.set_fastpath_enabled(False)\n" if path == "slow" else "")
            + f"x = {named('x')}{batched}\nmemory = {memory}\n"
            + ("x = memory = torch.nested.as_nested_tensor(list(x))\n" if said.nested else "")
            + f"inputs = {inputs}\n"
            + f"try:\n    with torch.no_grad():\n        got = mha(*inputs{options})[0]\n" + _CATCH
            + ('got = got.to_padded_tensor(float("nan"))\n' if said.nested else "")
            + {"first": "", "second": "got = got.transpose(0, 1)\n", "none": "got = got[None]\n"}[said.batch]
            + "got = got.double().numpy()\n")
    return _script(call, body)


def nested(functions, rows, made, options, call):
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    body = ("from torch.nn.functional import scaled_dot_product_attention\n\n\n"
            + "\n\n".join(map(inspect.getsource, functions))
            + f"\n\nrows = {rows}  # (sample, its queries from and to, its keys)\ntry:\n"
            + f"    parts = attention({_all_named('qkv', call)}, rows, {made!r}{given})\n" + _CATCH
            + f"got = torch.empty({tuple(call.out.shape)}, dtype=torch.float64)\n"
              "for (sample, (first, last), _), part in zip(rows, parts):\n"
              "    got[sample, :, first:last] = part\ngot = got.numpy()\n")
    return _script(call, body)


def explicit(function, arguments, dynamic, call, device):
    given = ",\n                    ".join(f"{name}={_argument(value, call)}" for name, value in arguments.items())
    compiled = "" if dynamic is None else f"attention = torch.compile(attention, dynamic={dynamic}, fullgraph=True)\n"
    return _script(call, "import math\n\n\n" + inspect.getsource(function) + "\n\n" + compiled
                   + f"try:\n    got = attention({given})\n" + _awaited(device) + _CATCH + f"got = {_numbers(device)}\n", device)


def flex(functions, mods, options, call, device, debug=False, dynamic=None):
    options = {**options, "return_aux": "flex.AuxRequest(lse=True)"} if "return_aux" in options else options
    given = "".join(f", {name}={value if name == 'return_aux' else repr(value)}" for name, value in options.items())
    parts = ",\n            ".join(f"{name}={_argument(value, call)}" for name, value in mods.items())
    flex_attention = "flex.flex_attention"
    if dynamic is not None:
        flex_attention = f"torch.compile({flex_attention}, dynamic={dynamic}, fullgraph=True)"
    return _script(call, "from torch.nn.attention import flex_attention as flex\n"
                   + ("flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True\n" if debug else "") + "\n\n"
                   + "\n\n".join(map(inspect.getsource, functions))
                   + f"\n\nq, k, v = {_all_named('qkv', call)}\nmods = dict({parts})\n"
                   + f"options = attention_options(q, k, mods, dict({given[2:]}))\n"
                   + f"try:\n    got = {flex_attention}(q, k, v, **options)\n" + _awaited(device) + _CATCH
                   + f"got = {_numbers(device, '(got[0] if isinstance(got, tuple) else got)')}\n", device)


def _all_named(names, call):
    return ", ".join(_argument_named(name, call) for name in names)


def _script(call, body, device=None):
    head = _ON_DEVICE.format(device=device) if device else _HEAD.format(threads=call.threads or torch.get_num_threads())
    return head + (_LAID if "laid(" in body else "") + body


def _awaited(device):
    """A line that brings up an error of a device that goes on behind the caller's back."""
    return f"    torch.{device.partition(':')[0]}.synchronize()\n" if device else ""


def _numbers(device, tensor="got"):
    return f"{tensor}.double(){'.cpu()' if device else ''}.numpy()"


def _argument(value, call):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    for name in ("q", "k", "v", "keep", "bias"):
        view = getattr(call, name)
        if view is not None and value.data_ptr() == view.ctypes.data and value.numel():
            if value.shape == view.shape:
                return _argument_named(name, call)
            if value.dim() == view.ndim + 1:
                return f"{_argument_named(name, call)}.unsqueeze(1)"
            if value.numel() == view.size:  # samples and heads in one axis
                return f"{_argument_named(name, call)}.reshape{tuple(value.shape)}"
            gone = view.ndim - value.dim()
            cut = ["0"] * gone + [":1" if n < m else ":" for n, m in zip(value.shape, view.shape[gone:])]
            return f"{_argument_named(name, call)}[{', '.join(cut)}]"
    return _literal(value)


def _joined(names, call):
    """The rows of these arrays of the call in one tensor, which lies as they do where they are views of one buffer."""
    views = [getattr(call, name) for name in names]
    together = side_by_side(views)
    if together is None:
        return f"torch.cat([{', '.join(_argument_named(name, call) for name in names)}])"
    rows = f"np.concatenate([{', '.join(names)}])"
    return _laid(rows, together, TYPES[call.dtype])


def _argument_named(name, call, dtype=None):
    """The call's array as a tensor with the strides and the misalignment it has in the call. `dtype`: its own, if it has one."""
    view = getattr(call, name)
    return _laid(name, view, torch.bool if name == "keep" else TYPES[dtype or call.dtype])


def _laid(text, view, dtype):
    """The array that the text gives as a tensor that lies as the view does."""
    strides = tuple(s // view.itemsize for s in view.strides)
    offset = view.ctypes.data % 64 // view.itemsize  # torch allocates at multiples of 64, and more on devices
    packed = strides == tuple(s // view.itemsize for s in np.empty(view.shape, view.dtype).strides)
    if packed and offset == 0 or view.size == 0:
        return f"torch.tensor({text}, dtype={dtype})"
    return f"laid({text}, {dtype}, {strides}, {offset})"


def _literal(value):
    shape = tuple(value.shape)
    text = str(value.double().tolist() if value.dtype != torch.bool else value.tolist())
    text = text.replace("inf", 'float("inf")').replace("nan", 'float("nan")')
    made = f"torch.tensor({text}, dtype={value.dtype})"
    return made if value.numel() else f"torch.zeros({shape}, dtype={value.dtype})"
