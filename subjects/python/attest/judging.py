"""attest.judge(), bound(), explain() and replay(): the verbs of these names, asked of arrays and of stored problems."""
from __future__ import annotations

import contextlib
import difflib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from .checking import named
from .report import Failure, Report, asked

# The arrays of a call, by operation, as the verbs name them: what goes in, and what comes out.
INPUTS = {"attention": ("q", "k", "v", "bias", "keep", "kv_lengths"),
          "layer_norm": ("x", "residual", "gamma", "beta"),
          "mha": ("x", "memory", "w_q", "w_k", "w_v", "w_out", "b_q", "b_k", "b_v", "b_out", "bias", "keep", "kv_lengths", "key_padding")}
OUTPUTS = {"attention": ("out", "lse"), "layer_norm": ("out", "sum_out"), "mha": ("out", "q", "k", "v", "heads_out")}
OPTIONS = {"attention": ("scale", "softcap", "causal", "align", "window_left", "window_right", "layout", "heads", "kv_heads", "kv_order", "rows"),
           "layer_norm": ("epsilon", "rms", "rows"),
           "mha": ("heads", "kv_heads", "scale", "causal", "align", "layout", "rows")}
TORCH = {"query": "q", "key": "k", "value": "v", "is_causal": "causal"}  # names of torch's scaled_dot_product_attention


class Bound(Report):
    """How far correct kernels may be apart. `tolerances` rejects no correct kernel beside another one, `exact_tolerances` none beside the
    exact result in float64: `torch.testing.assert_close(a, b, **bound.tolerances)`, likewise numpy's assert_allclose."""

    @property
    def tolerances(self) -> dict[str, float]:
        return {key: self["two_kernels"]["sum"][key] for key in ("rtol", "atol")}

    @property
    def exact_tolerances(self) -> dict[str, float]:
        return {key: self["exact_reference"]["sum"][key] for key in ("rtol", "atol")}


def judge(q: Any = None, k: Any = None, v: Any = None, out: Any = None, *, policy: str | None = None,
          contract: Mapping[str, Any] | str | None = None, op: str | None = None, corpus: str | os.PathLike[str] | None = None,
          **call: Any) -> Report:
    """Judges the result of a call that has been made: could a correct kernel have returned `out` for these inputs?

        attest.judge(q, k, v, out, causal=True, policy="f16")
        attest.judge(query=q, key=k, value=v, attn_mask=mask, is_causal=False, out=out, policy="bf16")     # torch's names
        attest.judge(x=x, gamma=gamma, beta=beta, epsilon=1e-5, out=out, policy="f32")                     # layer_norm
        attest.judge(x=x, w_q=w_q, w_k=w_k, w_v=w_v, w_out=w_out, heads=8, out=out, policy="f16")          # an attention block

    Arrays are numpy's, torch's, jax's or anything with __array__ or __dlpack__, on any device. q, k, v and out are [B,H,L,D], with any
    number of axes before the last two, or [B,L,H,D] under layout="bshd". `policy` says what the kernel promises to compute in
    (docs/cli.md, "Policies"), `contract` what else it promises, as a dict or "kappa=3,exp_ulp=4".

    attention   bias, keep, kv_lengths, lse; scale, softcap, causal, align, window_left, window_right, layout, heads, kv_heads, kv_order
                of torch: query, key, value, attn_mask (boolean or float), is_causal, scale, enable_gqa, dropout_p=0
    layer_norm  x, residual, gamma, beta, sum_out; epsilon, rms
    mha         x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, bias, keep, kv_lengths, key_padding; heads, kv_heads, scale, causal;
                stages q, k, v, heads_out
    all         rows: how many rows are judged, spread evenly (all)

    `corpus` names a folder in which a failure is stored; the file is report["reproducer"], for certify, replay and export.

    Returns the Report if every element holds. Raises Failure, an AssertionError, if some element could not come from a kernel that keeps
    the policy: its first line names the element, its text says what is wrong; NotTested where there is no verdict; TypeError for a
    keyword that no call has.
    """
    __tracebackhide__ = True
    call = {"q": q, "k": k, "v": v, "out": out, **call}
    with tempfile.TemporaryDirectory(prefix="attest-") as folder:
        words = [*saved(Path(folder), op, call, OUTPUTS), "--corpus", "none" if corpus is None else os.fspath(corpus)]
        try:
            return without_heading(asked(["judge", *words, *promised(Path(folder), policy, contract)]))
        except Failure as failure:
            told = without_heading(failure.report)
            heading = str(failure).partition("\n")[0]
            raise Failure(f"{heading}\n{told.text}", told) from None


def bound(q: Any = None, k: Any = None, v: Any = None, *, policy: str | None = None, contract: Mapping[str, Any] | str | None = None,
          rtol: float | None = None, op: str | None = None, **call: Any) -> Bound:
    """How far a correct kernel may be from the exact result for these inputs, as tolerances for other tools.

        tolerances = attest.bound(q, k, v, causal=True, policy="f16").tolerances
        torch.testing.assert_close(mine, reference, **tolerances)
        attest.bound("b=1 hq=2 hkv=2 lq=16 lk=64 d=32 dv=32 dtype=f16 values=normal:1 seed=7", policy="f16")

    Takes the arrays and options of judge() but what came out, or the text of a problem. `rtol` sets the relative tolerance that the
    absolute one goes with. Returns a Bound; raises NotTested where correct results may be anything.
    """
    __tracebackhide__ = True
    further: list[object] = [] if rtol is None else ["--rtol", rtol]
    with tempfile.TemporaryDirectory(prefix="attest-") as folder:
        promises = promised(Path(folder), policy, contract)
        words = [q] if isinstance(q, str) else saved(Path(folder), op, {"q": q, "k": k, "v": v, **call}, {})
        report = without_heading(asked(["bound", *words, *promises, *further]))
        return Bound(report, report.text)


def explain(file: str | os.PathLike[str], subject: Callable[..., Any] | str | os.PathLike[str] | None = None) -> Report:
    """Where and why a stored problem fails: which elements, which known defects and other promises give these numbers, which changes
    make it pass (docs/explain.md). `subject` runs in place of the one that the file names. Returns the Report, report["fails"] says
    whether it fails still; raises NotTested where it could not be run."""
    __tracebackhide__ = True
    with on(subject) as words:
        return asked(["explain", os.fspath(file), *words], returned=(0, 1))


def replay(*paths: str | os.PathLike[str], subject: Callable[..., Any] | str | os.PathLike[str] | None = None,
           expect_pass: bool = False) -> Report:
    """Asks stored problems once more, of corpus files and folders. Each must give what it expects, or pass under `expect_pass`, as
    those of a kernel that has been mended. `subject` runs them in place of the one that each names. Returns the counts; raises
    Failure where one gave something else, NotTested where nothing could be run."""
    __tracebackhide__ = True
    with on(subject) as words:
        return asked(["replay", *map(os.fspath, paths), *words, *(["--expect-pass"] if expect_pass else [])])


@contextlib.contextmanager
def on(subject: Callable[..., Any] | str | os.PathLike[str] | None) -> Iterator[list[str]]:
    """The words that say which subject runs, by which interpreter."""
    __tracebackhide__ = True
    python = ["--python", sys.executable]
    if subject is None:
        yield python
        return
    with named(subject) as name:
        yield [*python, "--subject", name]


def promised(folder: Path, policy: str | None, contract: Mapping[str, Any] | str | None) -> list[object]:
    """The words that state what a kernel promises."""
    words: list[object] = [] if policy is None else ["--policy", policy]
    if contract is None or isinstance(contract, str):
        return words if contract is None else [*words, "--contract", contract]
    (folder / "contract.json").write_text(json.dumps(dict(contract)), encoding="utf-8")
    return [*words, "--contract", folder / "contract.json"]


def saved(folder: Path, op: str | None, call: dict[str, Any], outputs: Mapping[str, tuple[str, ...]]) -> list[object]:
    """Saves the arrays of a call in `folder` and returns the words that state it. Raises TypeError for a keyword that no call has."""
    call = {name: value for name, value in from_torch(call).items() if value is not None}
    op = op or ("attention" if "x" not in call else "mha" if "w_q" in call else "layer_norm")
    if op not in INPUTS:
        raise ValueError(f"op={op!r}: it must be one of {', '.join(INPUTS)}")
    out = outputs.get(op, ())
    known = (*INPUTS[op], *out, *OPTIONS[op])
    for name in call:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"a call of {op} has no {name!r}" + (f": did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}"))
    arrays = {name: array_of(call[name], name) for name in call if name in INPUTS[op] or name in out}
    if op == "attention" and call.get("layout", "bhsd") == "bhsd":
        arrays = four_axes(arrays)
    words: list[object] = ["--op", op]
    for option, names in (("inputs", INPUTS[op]), ("outputs", out)):
        if names:
            np.savez(folder / f"{option}.npz", **{name: arrays[name] for name in names if name in arrays})
            words += [f"--{option}", folder / f"{option}.npz"]
    for name in OPTIONS[op]:
        value = call.get(name)
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [f"{value.item() if hasattr(value, 'item') else value}"])
    return words


def from_torch(call: dict[str, Any]) -> dict[str, Any]:
    """The call with torch's names replaced."""
    call = dict(call)
    if call.pop("dropout_p", 0):
        raise ValueError("dropout_p: a call that drops weights at random has no right result; judge one with dropout_p=0")
    call.pop("enable_gqa", None)  # the shapes say it
    for name, own in TORCH.items():
        value = call.pop(name, None)
        if value is not None:
            if call.get(own) is not None:
                raise TypeError(f"{name} and {own} are one argument: give one of them")
            call[own] = value
    mask = call.pop("attn_mask", None)
    if mask is not None:
        mask = array_of(mask, "attn_mask")
        own = "keep" if mask.dtype == np.bool_ else "bias"
        if call.get(own) is not None:
            raise TypeError(f"attn_mask and {own} are one argument: give one of them")
        call[own] = mask
    return call


def array_of(value: Any, name: str) -> np.ndarray[Any, Any]:
    """The numbers of a tensor of any library as a numpy array in the host's memory. bfloat16, which .npz cannot state, becomes float32,
    which holds each of its numbers."""
    if hasattr(value, "detach"):  # torch's
        value = value.detach().cpu()
        array = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        array = np.from_dlpack(value)
    else:
        array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype == object:
        raise TypeError(f"{name} is of {type(value).__name__}, which is no array: pass one of numpy, torch or jax")
    return array


def four_axes(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an attention call as [B,H,L,D]: axes that are missing in front are 1, more of them are one batch."""
    front = arrays["q"].shape[:-2] if "q" in arrays else ()
    for name, array in arrays.items():
        axes = {"kv_lengths": 1, "lse": 3}.get(name, 4)
        if name in ("bias", "keep") and len(front) > 2:
            array = np.broadcast_to(array, front + array.shape[-2:])
        if array.ndim < axes and name not in ("bias", "keep"):
            array = array.reshape((1,) * (axes - array.ndim) + array.shape)
        elif array.ndim > axes:
            array = array.reshape((-1, *array.shape[array.ndim - axes + 1:]))
        arrays[name] = array
    return arrays


def without_heading(report: dict[str, Any]) -> Report:
    """The report without the line that names the temporary files."""
    text = report.text if isinstance(report, Report) else ""
    return Report(report, text.partition("\n")[2] or text)
