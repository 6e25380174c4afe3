"""pytest --attest: a test for each law of each @attest.subject in the files that are collected (docs/python.md)."""
from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

DECLARES = re.compile(rb"\battest\.subject\b|^\s*@subject\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attest", "attest: laws of attention kernels")
    group.addoption("--attest", action="store_true", help="make a test of each law for each @attest.subject in the files collected")
    group.addoption("--attest-cases", type=int, default=100, metavar="N", help="problems that each of these draws (100)")
    group.addoption("--attest-seed", default="1", metavar="N", help="their seed, or `random` (1)")
    group.addoption("--attest-property", default="*", metavar="GLOB", help="only laws that match (*)")
    group.addoption("--attest-corpus", metavar="DIR", help="keep reproducers there")
    group.addoption("--attest-arguments", default="", metavar="WORDS", help="further words for attest check: '--assume lk<=512'")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("attest"):
        return
    seed = config.getoption("attest_seed")
    workerinput = getattr(config, "workerinput", None)  # set by pytest-xdist: the choices of the process that asked it
    if workerinput is not None:
        seed = workerinput["attest_seed"]
    elif seed == "random":
        seed = str(random.SystemRandom().getrandbits(64))
    elif not seed.isdigit() or int(seed) >= 2**64:
        raise pytest.UsageError(f"--attest-seed {seed}: it must be 0..2^64-1, or random")
    if config.getoption("attest_cases") < 1:
        raise pytest.UsageError(f"--attest-cases {config.getoption('attest_cases')}: it must be 1 at least")
    config.stash[SEED] = seed
    config.addinivalue_line("markers", "attest: a law of a subject, made by --attest")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives all workers of pytest-xdist one seed."""
    if SEED in node.config.stash:
        node.workerinput["attest_seed"] = node.config.stash[SEED]


SEED = pytest.StashKey[str]()
LAWS = pytest.StashKey["dict[str, list[str]]"]()


def pytest_report_header(config: pytest.Config) -> str | None:
    if SEED not in config.stash:
        return None
    return f"attest: seed {config.stash[SEED]}, {config.getoption('attest_cases')} problems for each law"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SubjectFile | None:
    if SEED not in parent.config.stash or file_path.suffix != ".py" or not DECLARES.search(file_path.read_bytes()):
        return None
    return SubjectFile.from_parent(parent, path=file_path, name=f"{file_path.name}[attest]")


class SubjectFile(pytest.File):
    """A script with subjects, which another process imports."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        from . import program

        done = subprocess.run([sys.executable, "-m", "attest.listing", str(self.path)], env=program.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        said = json.loads(done.stdout) if done.stdout else {"error": f"importing it ended the process with {done.returncode}"}
        if isinstance(said, dict):
            yield Unlisted.from_parent(self, name="import", said=said, err=done.stderr)
            return
        for subject in said:
            yield Subject.from_parent(self, name=subject["name"], subject=subject)


class Subject(pytest.Collector):
    """One subject of a script."""

    def __init__(self, *, subject: dict[str, Any], **rest: Any) -> None:
        super().__init__(**rest)
        self.subject = subject

    def collect(self) -> Iterator[pytest.Item]:
        several = len(self.subject["ops"]) > 1
        for op in self.subject["ops"]:
            for law in laws(self.config, op):
                yield Law.from_parent(self, name=f"{op}.{law}" if several else law, subject=self.subject, op=op, law=law)


def laws(config: pytest.Config, op: str) -> list[str]:
    """The laws of an operation that are asked, in order."""
    from fnmatch import fnmatchcase

    from . import program

    known = config.stash.setdefault(LAWS, {})
    if op not in known:
        known[op] = [law["name"] for law in program.listed("properties", "--op", op)]
    return [law for law in known[op] if fnmatchcase(law, config.getoption("attest_property"))]


class Unlisted(pytest.Item):
    """A script whose subjects nobody knows: a failure, unless it says itself that it cannot be asked here."""

    def __init__(self, *, said: dict[str, str], err: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.said, self.err = said, err

    def runtest(self) -> None:
        if "unsupported" in self.said:
            pytest.skip(self.said["unsupported"])
        pytest.fail(f"{self.err}{self.said['error']}", pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, 0, self.name


class Law(pytest.Item):
    """One law, asked of one subject."""

    def __init__(self, *, subject: dict[str, Any], op: str, law: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.subject, self.op, self.law = subject, op, law
        self.seed = self.config.stash[SEED]
        self.add_marker("attest")
        self.user_properties += [("attest seed", self.seed), ("attest law", law)]

    def runtest(self) -> None:
        import shlex

        from .checking import check
        from .report import NotTested

        # pytest's own temporary folder: of this run and, under pytest-xdist, of this worker.
        factory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        folder = factory.mktemp(re.sub(r"\W+", "-", f"attest-{self.subject['name']}-{self.law}"))
        more = shlex.split(self.config.getoption("attest_arguments"))
        try:
            check(f"{self.path}:{self.subject['name']}", op=self.op, property=self.law, cases=self.config.getoption("attest_cases"),
                  seed=int(self.seed), jobs=1, folder=folder, corpus=self.config.getoption("attest_corpus"), arguments=more)
        except NotTested as error:
            if "no property applied to any of the problems" in str(error):
                pytest.skip(str(error))
            raise

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from .report import Failure, NotTested

        if isinstance(excinfo.value, (Failure, NotTested)):
            return f"{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, self.subject["line"] - 1, self.name
