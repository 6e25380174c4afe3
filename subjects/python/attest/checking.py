"""attest.check(): a subject held against its contract, in any test."""
from __future__ import annotations

import inspect
import os
import sys
from typing import Any, Callable, Sequence

from .function import REGISTRY
from .report import Report, asked


def check(subject: Callable[..., Any] | str | os.PathLike[str], *, cases: int | None = None, seed: int | None = None,
          op: str | None = None, property: str | None = None, laws: int | str | None = None, policy: str | None = None,
          assume: str | None = None, known: str | os.PathLike[str] | None = None, corpus: str | os.PathLike[str] | None = None,
          folder: str | os.PathLike[str] | None = None, jobs: int | None = None, arguments: Sequence[object] = ()) -> Report:
    """Draws `cases` (1000) random problems for a subject and holds its answers against every law that applies, as `attest check`
    does: the same for the same seed (1).

    `subject` is a function under @attest.subject, or one without it, which is asked in float32 and promises nothing; it must be
    named at the top level of its file, which a process of its own imports. Or the text that the command line takes:
    "onnxruntime:Attention", "./kernel.so:mine". The keywords are the options of `attest check` (docs/cli.md): `folder` is its -o,
    `arguments` are further words.

    Returns the report, the object of --json. Raises Failure, an AssertionError with the report, where a property failed;
    NotTested where there is no verdict.
    """
    words: list[object] = ["check", target(subject), "--python", sys.executable]
    for option, value in {"cases": cases, "seed": seed, "op": op, "property": property, "laws": laws, "policy": policy,
                          "assume": assume, "known": known, "corpus": corpus, "output": folder, "jobs": jobs}.items():
        if value is not None:
            words += [f"--{option}", os.fspath(value) if isinstance(value, os.PathLike) else value]
    return asked([*words, *arguments])


def target(subject: Callable[..., Any] | str | os.PathLike[str]) -> str:
    """The subject's name on the command line. Raises ValueError for a function that no other process could import."""
    if isinstance(subject, (str, os.PathLike)):
        return os.fspath(subject)
    name = next((one.name for one in REGISTRY if one.function is subject), None)
    plain = getattr(subject, "__name__", "")
    file = inspect.getsourcefile(subject) if inspect.isfunction(subject) else None
    if file is None or not plain.isidentifier() or getattr(subject, "__qualname__", "") != plain or not file.endswith(".py"):
        raise ValueError(f"{plain or subject!r} is no function at the top level of a file: a process of its own imports what is "
                         "tested, so that a crash is a finding and not the end of this one. Move it there")
    return f"{file}:{name or plain}"
