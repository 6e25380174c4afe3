"""attest.check(): a subject held against its contract, in any test."""
from __future__ import annotations

import contextlib
import fnmatch
import inspect
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from .function import REGISTRY
from .report import Failure, Report, asked


def check(subject: Callable[..., Any] | str | os.PathLike[str], *, cases: int | None = None, seed: int | None = None,
          op: str | None = None, property: str | None = None, laws: int | str | None = None, policy: str | None = None,
          assume: str | None = None, known: str | os.PathLike[str] | None = None, corpus: str | os.PathLike[str] | None = None,
          folder: str | os.PathLike[str] | None = None, jobs: int | None = None, problem: str | None = None,
          arguments: Sequence[object] = ()) -> Report:
    """Draws random problems for a kernel and asserts that its answers keep every law that applies.

        attest.check(my_kernel)                                     # 1000 problems, the same for the same seed (1)
        attest.check(my_kernel, cases=200, corpus="tests/corpus")   # stores what fails there, and asks that first the next time
        attest.check(my_kernel, problem="b=1 hq=1 hkv=1 lq=3 lk=5 d=8 dv=8 dtype=f32 causal=1 values=normal:1 seed=7")    # one example
        attest.check("onnxruntime:Attention", policy="f16", seed=7)

    subject     a function under @attest.subject; one without it, which is asked in float32 and promises nothing; or the text that the
                command line takes: "onnxruntime:Attention", "./kernel.so:mine". A process of its own imports the function's file; a
                closure, a lambda, a bound method or a functools.partial is handed to it by pickle
    cases       problems to draw (1000)
    seed        which ones (1)
    problem     this one problem in place of random ones, by its text, as the `rerun` line of a failure has it
    property    the laws that match this pattern, or one of these: "policy-*,guards", all of them on every problem
    laws        how many laws each problem is held against beside those that always apply (2), or "all"
    policy      what the kernel computes in, "f16" or "f16,softmax=f32"; without it, what the subject promises
    op          the operation, where the subject has several
    assume      a predicate that problems must meet, "lq<=lk && dtype==f16"
    corpus      a folder for reproducers. Those of this subject that lie there are asked first (not under `known`)
    known       a corpus whose failures do not fail the check
    folder      a campaign folder to leave, the option -o
    jobs        threads (all cores)
    arguments   further words for `attest check` (docs/cli.md)

    Returns the Report, the object of --json. Raises Failure, an AssertionError with the report, where a property failed; its first line
    is the wrong element in words. Raises NotTested where there is no verdict, ValueError for a function that cannot be handed to another process.
    """
    __tracebackhide__ = True
    on = ["--python", sys.executable]
    with named(subject) as name:
        if corpus is not None and known is None and problem is None:
            replay_stored(name, Path(corpus), on, property or "*", op)
        words: list[object] = ["check", name, *on]
        for option, value in {"cases": cases, "seed": seed, "op": op, "property": property, "laws": laws, "policy": policy, "assume": assume,
                              "known": known, "corpus": corpus, "output": folder, "jobs": jobs, "problem": problem}.items():
            if value is not None:
                words += [f"--{option}", os.fspath(value) if isinstance(value, os.PathLike) else value]
        return asked([*words, *arguments])


def replay_stored(named: str, corpus: Path, on: Sequence[str], laws: str, op: str | None) -> None:
    """Asks the reproducers of a subject that lie in `corpus`. Raises Failure where one fails still."""
    __tracebackhide__ = True
    files = [file for file in sorted(corpus.rglob("*.json")) if is_of(file, named, laws, op)]
    if not files:
        return
    words = ["replay", "--expect-pass", "--allow-missing", "--subject", named]
    try:
        asked([*words, *on, *files])
    except Failure as failure:
        rerun = shlex.join(["attest", *words, failure.report["failed"][0]["file"]])
        raise Failure(f"{failure}\nrerun        {rerun}", failure.report) from None


def is_of(file: Path, named: str, laws: str, op: str | None) -> bool:
    """Tells whether a file is a stored problem of this subject, of these laws."""
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
        own = Path(entry.get("subject_file", "")).name
        names = (own, f"{own}:{entry['subject_name']}") if own else (entry["subject"],)
        return ((Path(named).name if own else named) in names and any(fnmatch.fnmatchcase(entry["property"], law) for law in laws.split(","))
                and op in (None, entry["problem"].get("op", "attention")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # no entry of a kernel
        return False


@contextlib.contextmanager
def named(subject: Callable[..., Any] | str | os.PathLike[str]) -> Iterator[str]:
    """The subject's name on the command line. A function that has none, a closure, a lambda, a bound method or a functools.partial, is
    handed over in a script of its own (handing.py), and a Failure says how to ask it again. Raises ValueError for one that cannot be."""
    __tracebackhide__ = True
    if isinstance(subject, (str, os.PathLike)):
        yield os.fspath(subject)
        return
    declared = next((one for one in REGISTRY if one.function is subject), None)
    plain = getattr(subject, "__name__", "")
    file = inspect.getsourcefile(subject) if inspect.isfunction(subject) else None
    if file and file.endswith(".py") and plain == subject.__qualname__ and getattr(sys.modules.get(subject.__module__), plain, subject) is subject and plain != "<lambda>":
        yield f"{file}:{declared.name if declared else plain}"
        return
    from . import handing

    with tempfile.TemporaryDirectory(prefix="attest-") as folder:
        script = handing.write(subject, declared, Path(folder))
        try:
            yield script
        except Failure as failure:
            raise handing.with_reruns(failure, script) from None
