"""@attest.subject: a Python function as a subject."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence, TypeVar, overload

from .function_attention import AttentionFunction
from .function_layer_norm import LayerNormFunction
from .function_mha import MhaFunction

F = TypeVar("F", bound=Callable[..., Any])

REGISTRY: list[Any] = []  # the functions that the decorator has seen, in order

KINDS = {kind.op: kind for kind in (AttentionFunction, LayerNormFunction, MhaFunction)}


@overload
def subject(function: F) -> F: ...
@overload
def subject(function: None = None, *, op: str = "attention", name: str | None = None, version: str = "",
            dtypes: Sequence[Any] = ("float32",), contract: Mapping[str, Any] | None = None,
            supports: Mapping[str, Any] | None = None, documents: Mapping[str, Any] | None = None, device: str | None = None,
            fork: bool = True, plan_ms: float | None = None, warm_up_ms: float | None = None) -> Callable[[F], F]: ...
def subject(function: Any = None, *, op: str = "attention", name: str | None = None, version: str = "",
            dtypes: Sequence[Any] = ("float32",), contract: Mapping[str, Any] | None = None,
            supports: Mapping[str, Any] | None = None, documents: Mapping[str, Any] | None = None, device: str | None = None,
            fork: bool = True, plan_ms: float | None = None, warm_up_ms: float | None = None) -> Any:
    """Declares a kernel under test; returns the function unchanged.

        @attest.subject(dtypes=["float16", "float32"], contract={"policy": {"f16": "f16", "f32": "f32"}, "deterministic": "rerun"})
        def my_kernel(q, k, v, *, scale, causal=False, align="top_left", bias=None): ...

    The function takes q, k, v and any of the keyword parameters of docs/worker.md ("A kernel in Python"), and returns
    out, or (out, lse) if it takes `lse` and is asked for it. With op="layer_norm" it takes x, epsilon and any of that
    operation's, and returns out, or (out, sum_out). With op="mha" it takes x, w_q, w_k, w_v, w_out, heads and any of an attention
    block's, and returns out, or (out, stages) if it takes `stages` and is asked for them. Arrays are numpy's, or torch's if the
    first is annotated with a torch type. An option that it has no parameter for is never asked.

    op          "attention", "layer_norm" or "mha"
    name        the subject's name (the function's)
    version     a text that reports and reproducers show
    dtypes      the types of q, k and v that it takes: "float16", "bfloat16", "float32", "float64" ("float32")
    contract    what the kernel promises, the object of docs/plugin.md; without a policy, the most generous one of the type
    supports    what it takes beyond what its signature says, {"gqa": True}, the object of docs/plugin.md
    documents   where it says so, likewise
    device      "cuda", "cuda:1", "xpu": the function gets torch tensors there
    fork        False: what is imported here does not survive a fork, and each process imports it anew
    plan_ms     milliseconds that it spends on a plan or on compiling before the first call of a shape
    warm_up_ms  the same, before the first call of a process
    """
    if op not in KINDS:
        raise ValueError(f"there is no operation {op!r}: op is one of {', '.join(KINDS)}")

    def register(f: F) -> F:
        named = name or getattr(f, "__name__", "") or "kernel"
        made = KINDS[op](f, named, version, dtypes, contract or {}, supports or {}, documents or {}, device, fork,
                         {"plan_ms": plan_ms, "warm_up_ms": warm_up_ms})
        made.options = {"op": op, "name": named, "version": version, "dtypes": dtypes, "contract": contract, "supports": supports,
                        "documents": documents, "device": device, "fork": fork, "plan_ms": plan_ms, "warm_up_ms": warm_up_ms}
        REGISTRY.append(made)
        return f
    return register if function is None else register(function)
