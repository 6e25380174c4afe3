"""Reports of the program, and the exceptions that tell a failure and a missing verdict."""
from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any, Collection, Sequence

from . import program


class Report(dict):  # type: ignore[type-arg]
    """The object that a verb of the program writes with --json (docs/cli.md). Its repr is what the terminal shows, `text`."""

    def __init__(self, members: dict[str, Any], text: str) -> None:
        super().__init__(members)
        self.text = text

    def __repr__(self) -> str:
        return self.text or super().__repr__()


class Failure(AssertionError):
    """A property failed. The first line is the witness in words, the rest is what the terminal shows; `report` is the Report."""

    def __init__(self, text: str, report: dict[str, Any]) -> None:
        super().__init__(text)
        self.report = report


class NotTested(RuntimeError):
    """No verdict: `status` is the program's (docs/cli.md), 2 for a wrong argument, 3 where attest itself failed, 4
    where the subject could not be started, 5 where nothing was judged, or too little; the text says why. `report` is what there is
    of one."""

    def __init__(self, text: str, status: int, report: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status, self.report = status, report or {}


Report.__module__ = Failure.__module__ = NotTested.__module__ = "attest"  # where users find them


def asked(words: Sequence[object], returned: Collection[int] = (0,)) -> Report:
    """Runs `attest WORD... --json FILE`. Returns the report of a status in `returned`; raises Failure for a status of 1 that is not,
    NotTested for any other."""
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="attest-") as beside:
        file = Path(beside) / "report.json"
        done = program.run([*words, "--json", file])
        members = json.loads(file.read_text(encoding="utf-8")) if file.is_file() and file.stat().st_size else {}
    report = Report(members, done.out.rstrip("\n"))
    if done.status in returned:
        return report
    if done.status == 1:
        raise Failure("\n".join(filter(None, (headline(report), report.text))), report)
    if done.status < 0:
        raise NotTested(f"the program attest was ended by signal {-done.status}", 3)
    raise NotTested(reason(done.err) or f"the program attest ended with {done.status}", done.status, report)


def reason(err: str) -> str:
    """The last words of `attest:`, without its progress lines."""
    _, found, text = ("\n" + err).rpartition("\nattest: ")
    return text.strip() if found else err.strip()


def headline(report: dict[str, Any]) -> str:
    """The first failure of a report in one line: what is wrong, by which law, under which condition."""
    told = report.get("defects") or report.get("findings") or report.get("failed") or []
    defects = [defect for defect in told if not defect.get("known")]
    if not defects:
        line = in_words(report.get("witness"), report.get("reason", ""))
        return "; it holds if ".join([line, *(way["words"] for way in report.get("held_if", [])[:1])])
    more = f" (and {len(defects) - 1} more)" if len(defects) > 1 else ""
    return defect_line(report, defects[0]) + more


def findings_of(report: dict[str, Any], defect: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of a defect; none where a report has no findings."""
    return [finding for finding in report.get("findings", []) if finding["bucket"] in defect.get("buckets", [])]


def finding_of(report: dict[str, Any], defect: dict[str, Any], law: str = "") -> dict[str, Any]:
    """The finding of a defect that `law` told, else its smallest; the defect itself where a report has no findings."""
    own = findings_of(report, defect)
    return next((finding for finding in own if finding["property"] == law),
                next((finding for finding in own if finding["rerun"] == defect["rerun"]), defect))


def defect_line(report: dict[str, Any], defect: dict[str, Any], law: str = "") -> str:
    """One defect in one line, the law that tells it first."""
    found = finding_of(report, defect, law)
    witness = found.get("witness") or defect.get("explanation", {}).get("witness")
    condition = defect.get("explained", {}).get("predicate", "")
    return (f"{found.get('property', 'a stored problem')}: {in_words(witness, found.get('reason', ''))}"
            + (f"; where {condition}" if condition else ""))


def defect_text(report: dict[str, Any], defect: dict[str, Any], laws: Sequence[str]) -> str:
    """One defect, as the first of `laws` tells it: its line, and what there is to know of it. `laws` are those that saw it."""
    found = finding_of(report, defect, laws[0])
    lines = [defect_line(report, defect, laws[0]), f"  problem     {found['problem']}"]
    if explained := defect.get("explained"):
        lines.append("  where       {predicate}: {property} fails {failing} of {asked}, elsewhere {failing_elsewhere} of {elsewhere}".format(**explained))
    explanation = defect.get("explanation", {})
    lines += [f"  looks like  {alike['name']}: {alike['doc']}" for alike in explanation.get("hypotheses", [])[:1]]
    lines += [f"  fits        {fit['words']}" for fit in explanation.get("fits", [])[:1]]
    if laws[1:]:
        lines.append(f"  seen by     {', '.join(laws[1:])}, too")
    if "failures" in defect:
        lines.append(f"  failed on   {defect['failures']} of {report['cases']} problems")
    lines.append(f"  rerun       {found['rerun']}" if "rerun" in found else f"  stored in   {found.get('file')}")
    return "\n".join(lines)


def in_words(witness: dict[str, Any] | None, reason: str = "") -> str:
    """A wrong element in words, or the clause that stands in place of one."""
    if not witness:
        return reason or "it failed"
    axes = {"T": 0, "R": 0, "lse": 3}.get(witness["tensor"], 4)
    name = witness["tensor"] + (f"[{','.join(map(str, witness['index'][:axes]))}]" if axes else "")
    if witness["wrong"] == "memory":
        return f"{name}: {witness['note']}"
    got, low, high = numbers = [float(witness[key]) for key in ("got", "lo", "hi")]
    texts: list[str] = []
    for digits in (6, 9, 17):  # the fewest that show the number outside
        texts = [f"{number:.{digits}g}" for number in numbers]
        if math.isnan(got) or not float(texts[1]) <= float(texts[0]) <= float(texts[2]):
            break
    right = f"where {texts[1]} is right" if low == high else f"where a correct kernel gives {texts[1]} to {texts[2]}"
    return f"{name} is {texts[0]}, {right}"
