"""attest.check(): a subject held against its contract, in any test."""
from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Sequence

from . import program
from .function import REGISTRY


class Failure(AssertionError):
    """A property failed. Its text is what the terminal shows; `report` is the object of `attest check --json` (docs/cli.md)."""

    def __init__(self, text: str, report: dict[str, Any]) -> None:
        super().__init__(text)
        self.report = report


class NotTested(RuntimeError):
    """No verdict: `status` is the program's (docs/cli.md), 2 for a wrong argument, 3 where attest itself failed, 4
    where the subject could not be started, 5 where nothing was judged, or too little; the text says why."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def check(subject: Callable[..., Any] | str | os.PathLike[str], *, cases: int | None = None, seed: int | None = None,
          op: str | None = None, property: str | None = None, laws: int | str | None = None, policy: str | None = None,
          assume: str | None = None, known: str | os.PathLike[str] | None = None, corpus: str | os.PathLike[str] | None = None,
          folder: str | os.PathLike[str] | None = None, jobs: int | None = None, arguments: Sequence[object] = ()) -> dict[str, Any]:
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
    with tempfile.TemporaryDirectory(prefix="attest-") as beside:
        told = Path(beside) / "report.json"
        done = program.run([*words, "--json", told, *arguments])
        report: dict[str, Any] = json.loads(told.read_text(encoding="utf-8")) if told.is_file() and told.stat().st_size else {}
    if done.status == 0:
        return report
    if done.status == 1:
        raise Failure(done.out.rstrip("\n"), report)
    if done.status < 0:
        raise NotTested(f"the program attest was ended by signal {-done.status}", 3)
    raise NotTested(reason(done.err) or f"the program attest ended with {done.status}", done.status)


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


def reason(err: str) -> str:
    """The last words of `attest:`, without its progress lines."""
    _, found, text = ("\n" + err).rpartition("\nattest: ")
    return text.strip() if found else err.strip()
