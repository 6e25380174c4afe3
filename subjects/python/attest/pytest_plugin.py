"""pytest --attest: a test for each law of each @attest.subject in the files that are collected (docs/python.md). One campaign, of one
process, asks a subject all of its laws."""
from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

DECLARES = re.compile(rb"\battest\.subject\b|^\s*@subject\b", re.MULTILINE)
CANNOT_START = 4  # the exit status of a subject that cannot be started
MAY_TEST = re.compile(rb"(?<!at)test|\bimport +\*", re.IGNORECASE)  # text of any file with tests of pytest's default names


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attest", "attest: laws of attention kernels")
    group.addoption("--attest", action="store_true", help="make a test of each law for each @attest.subject in the files collected")
    group.addoption("--attest-cases", type=int, metavar="N", help="problems that each subject is asked (100, or what the profile says)")
    group.addoption("--attest-seed", metavar="N", help="their seed, or `random` (1, or what the profile says)")
    group.addoption("--attest-profile", metavar="NAME", help="the table [profiles.NAME] of attest.toml, of check() in tests, too ($ATTEST_PROFILE)")
    group.addoption("--attest-property", default="*", metavar="GLOB", help="only laws that match (*)")
    group.addoption("--attest-corpus", metavar="DIR", help="keep reproducers there")
    group.addoption("--attest-arguments", default="", metavar="WORDS", help="further words for attest check: '--assume lk<=512'")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("attest_profile"):
        os.environ["ATTEST_PROFILE"] = config.getoption("attest_profile")  # for the programs that tests start, too
    if not config.getoption("attest"):
        return
    profile = os.environ.get("ATTEST_PROFILE", "")
    cases = config.getoption("attest_cases")
    seed = config.getoption("attest_seed")
    workerinput = getattr(config, "workerinput", None)  # set by pytest-xdist: the choices of the process that asked it
    if workerinput is not None:
        seed = workerinput["attest_seed"]
    elif seed == "random":
        seed = str(random.SystemRandom().getrandbits(64))
    elif seed is not None and (not seed.isdigit() or int(seed) >= 2**64):
        raise pytest.UsageError(f"--attest-seed {seed}: it must be 0..2^64-1, or random")
    if cases is not None and cases < 1:
        raise pytest.UsageError(f"--attest-cases {cases}: it must be 1 at least")
    # A profile speaks where the command line says nothing.
    config.stash[SEED] = seed if seed is not None or profile else "1"
    config.stash[CASES] = cases if cases is not None or profile else 100
    config.addinivalue_line("markers", "attest: a law of a subject, made by --attest")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives all workers of pytest-xdist one seed."""
    if SEED in node.config.stash:
        node.workerinput["attest_seed"] = node.config.stash[SEED]


SEED = pytest.StashKey["str | None"]()  # None: what the profile says
CASES = pytest.StashKey["int | None"]()
LAWS = pytest.StashKey["dict[str, list[str]]"]()


def pytest_report_header(config: pytest.Config) -> str | None:
    if SEED not in config.stash:
        return None
    profile, seed, cases = os.environ.get("ATTEST_PROFILE"), config.stash[SEED], config.stash[CASES]
    said = [f"profile {profile}" if profile else "", f"seed {seed}" if seed else "", f"{cases} problems for each subject" if cases else ""]
    return f"attest: {', '.join(filter(None, said))}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SubjectFile | None:
    if SEED not in parent.config.stash or file_path.suffix != ".py" or not DECLARES.search(file_path.read_bytes()):
        return None
    return SubjectFile.from_parent(parent, path=file_path, name=f"{file_path.name}[attest]")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Keeps pytest from importing a file of subjects that its command line names and that has no tests."""
    default_names = all(parent.config.getini(f"python_{kind}") == [name] for kind, name in (("functions", "test"), ("classes", "Test")))
    text = module_path.read_bytes()
    if SEED in parent.config.stash and default_names and DECLARES.search(text) and not MAY_TEST.search(text):
        return NoTests.from_parent(parent, path=module_path)
    return None


class NoTests(pytest.File):
    """A file without tests."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return []


class SubjectFile(pytest.File):
    """A script with subjects, which another process imports."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        from .declared import declared

        said = declared(self.path)
        if said is None:
            said = listed(self.path)
        if isinstance(said, dict):
            yield Unlisted.from_parent(self, name="import", said=said)
            return
        for subject in said:
            yield Subject.from_parent(self, name=subject["name"], subject=subject)


def listed(path: Path) -> Any:
    """What a process that imports a script says of it (listing.py); of one that it cannot import with what that process printed, "err"."""
    from . import program

    done = subprocess.run([sys.executable, "-m", "attest.listing", str(path)], env=program.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    said = json.loads(done.stdout) if done.stdout else {"error": f"importing it ended the process with {done.returncode}"}
    return {**said, "err": done.stderr} if isinstance(said, dict) else said


class Subject(pytest.Collector):
    """One subject of a script, and what its campaigns found, by operation."""

    def __init__(self, *, subject: dict[str, Any], **rest: Any) -> None:
        super().__init__(**rest)
        self.subject = subject
        self.campaigns: dict[str, Campaign] = {}

    def campaign(self, op: str) -> Campaign:
        """The campaign of an operation, which the first of its tests runs. Workers of pytest-xdist share one."""
        if op not in self.campaigns:
            asked = [item.law for item in self.session.items if isinstance(item, Law) and item.parent is self and item.op == op]
            found = shared(self.config, f"{self.nodeid} {op}", lambda: self.run(op, asked))
            self.campaigns[op] = Campaign(found, asked)
        return self.campaigns[op]

    def run(self, op: str, asked: list[str]) -> dict[str, Any]:
        """{"report"}, with "error" and "status" where there is no verdict."""
        import shlex

        from .checking import check
        from .report import Failure, NotTested

        option, seed = self.config.getoption, self.config.stash[SEED]
        more = shlex.split(option("attest_arguments"))
        if option("maxfail") != 1:
            more.append("--continue-after-failure")
        try:
            return {"report": check(f"{self.path}:{self.subject['name']}", op=op, property=",".join(asked),
                                    cases=self.config.stash[CASES], seed=None if seed is None else int(seed), corpus=option("attest_corpus"),
                                    jobs=1 if hasattr(self.config, "workerinput") else None, arguments=more)}
        except Failure as failure:
            return {"report": failure.report}
        except NotTested as error:
            found = {"error": str(error), "status": error.status, "report": error.report}
            said = listed(self.path) if error.status == CANNOT_START else None
            return {**found, "unsupported": said["unsupported"]} if isinstance(said, dict) and "unsupported" in said else found

    def collect(self) -> Iterator[pytest.Item]:
        several = len(self.subject["ops"]) > 1
        for op in self.subject["ops"]:
            for law in laws(self.config, op):
                yield Law.from_parent(self, name=f"{op}.{law}" if several else law, subject=self.subject, op=op, law=law)


def laws(config: pytest.Config, op: str) -> list[str]:
    """The laws of an operation that are asked, in order. A statistic warns and fails nothing: it is no test."""
    from fnmatch import fnmatchcase

    from . import program

    known = config.stash.setdefault(LAWS, {})
    if op not in known:
        try:
            known[op] = [law["name"] for law in program.listed("properties", "--op", op) if law["kind"] != "statistical"]
        except (RuntimeError, FileNotFoundError) as error:
            raise pytest.Collector.CollectError(str(error)) from None
    return [law for law in known[op] if fnmatchcase(law, config.getoption("attest_property"))]


class Unlisted(pytest.Item):
    """A script whose subjects nobody knows: a failure, unless it says itself that it cannot be asked here."""

    def __init__(self, *, said: dict[str, str], **rest: Any) -> None:
        super().__init__(**rest)
        self.said = said

    def runtest(self) -> None:
        if "unsupported" in self.said:
            pytest.skip(self.said["unsupported"])
        pytest.fail(f"{self.said['err']}{self.said['error']}", pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, 0, self.name


class Campaign:
    """The findings of a campaign, law by law: each defect is told by one of the laws that were asked, the first that tells it best."""

    def __init__(self, found: dict[str, Any], asked: list[str]) -> None:
        self.report, self.asked = found["report"], asked
        verdicts = self.report.get("verdicts", {})
        unjudged = [law for law in asked if law in verdicts and verdicts[law]["vacuous"] and not judged(verdicts[law])]
        # A campaign without a verdict is an error, unless it is for laws that do not apply.
        applies = not verdicts or unjudged or 2 * self.report["refused"] > self.report["cases"]
        self.error, self.status = (found.get("error", ""), found.get("status", 0)) if applies else ("", 0)
        self.tells_error = (unjudged or asked)[0]
        self.unsupported = found.get("unsupported", "")  # why the script cannot be asked here
        # Each failing problem is one of a finding: then what a law saw on others than the first of it is told, too.
        self.all_told = sum(finding["failures"] for finding in self.report.get("findings", [])) >= self.report.get("failing_cases", 0)
        self.tells: dict[str, list[dict[str, Any]]] = {}  # law -> the defects that it tells
        self.seen: dict[str, str] = {}  # law -> the law that tells a defect which it saw, too
        for defect in self.report.get("defects") or self.report.get("failed", []):
            laws = self.laws_of(defect)
            teller = next((law for law in laws if law in asked), None)
            if teller is not None and not defect.get("known"):
                self.tells.setdefault(teller, []).append(defect)
            for law in laws:
                self.seen.setdefault(law, "" if defect.get("known") else teller or "")

    def laws_of(self, defect: dict[str, Any], first: str = "") -> list[str]:
        """The laws that saw a defect: `first`, or the one that tells it best, and the others."""
        from .report import findings_of

        found = findings_of(self.report, defect)
        return list(dict.fromkeys([first or defect["property"], *(law for finding in found for law in (finding["property"], *finding["also"]))]))

    def waiting(self) -> dict[str, list[str]]:
        """The laws that judged nothing for want of a claim, by the sentence that says which."""
        laws: dict[str, list[str]] = {}
        for law, counts in self.report.get("verdicts", {}).items():
            for reason in counts["skip"]:
                if law in self.asked and reason.startswith("the subject does not claim") and not judged(counts):
                    laws.setdefault(reason, []).append(law)
        return laws


def judged(counts: dict[str, Any]) -> int:
    """Problems on which a law had a verdict."""
    return sum(count for kind, count in counts.items() if isinstance(count, int))


def shared(config: pytest.Config, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of `make`, which one worker of pytest-xdist makes for all."""
    if not hasattr(config, "workerinput"):
        return make()
    import fcntl

    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    file = factory.getbasetemp().parent / f"attest-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.is_file():
            file.write_text(json.dumps(make()), encoding="utf-8")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found


class Law(pytest.Item):
    """One law, asked of one subject."""

    def __init__(self, *, subject: dict[str, Any], op: str, law: str, **rest: Any) -> None:
        super().__init__(**rest)
        self.subject, self.op, self.law = subject, op, law
        self.add_marker("attest")

    def runtest(self) -> None:
        from .report import Failure, NotTested, defect_text

        assert isinstance(self.parent, Subject)
        campaign = self.parent.campaign(self.op)
        self.user_properties += [("attest seed", str(campaign.report.get("seed", ""))), ("attest law", self.law)]
        if self.law == campaign.asked[0]:
            self.user_properties += [("attest waits", f"{self.parent.nodeid}: {reason}: {', '.join(laws)}")
                                     for reason, laws in campaign.waiting().items()]
        if campaign.unsupported:
            pytest.skip(campaign.unsupported)
        if campaign.error and self.law == campaign.tells_error:
            raise NotTested(campaign.error, campaign.status)
        if campaign.error and "verdicts" not in campaign.report:
            pytest.skip(f"there is no verdict, as {campaign.tells_error} says")
        failures = [Failure(defect_text(campaign.report, defect, campaign.laws_of(defect, self.law)), campaign.report)
                    for defect in campaign.tells.get(self.law, [])]
        for failure in failures[1:]:
            self.tell(failure)
        if failures:
            raise failures[0]
        counts = campaign.report.get("verdicts", {}).get(self.law, {"skip": {}, "vacuous": {}})
        failed = judged(counts) - counts.get("pass", 0) - counts.get("warn", 0)
        teller = campaign.seen.get(self.law)
        if failed and teller is None and campaign.all_told:
            teller = " or ".join(campaign.tells)
        if failed and teller is None:
            raise Failure(f"{self.law}: it failed on {failed} of {judged(counts)} problems, which were not looked into", campaign.report)
        if failed and teller:
            pytest.skip(f"it saw a defect that {teller} tells")
        if not judged(counts):
            reasons = {**counts["skip"], **counts["vacuous"]}
            pytest.skip(f"it judged nothing: {max(reasons, key=reasons.__getitem__)}" if reasons else "it was not asked: an earlier case failed")

    def tell(self, failure: BaseException) -> None:
        """Reports one failure more of this test."""
        report = pytest.TestReport(nodeid=self.nodeid, location=self.location, keywords={}, outcome="failed",
                                   longrepr=self.repr_failure(pytest.ExceptionInfo.from_exception(raised(failure))), when="call")
        self.ihook.pytest_runtest_logreport(report=report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from .report import Failure, NotTested

        if not isinstance(excinfo.value, (Failure, NotTested)):
            return super().repr_failure(excinfo, style)
        told: Any = super().repr_failure(excinfo, "value")  # the text alone
        if self.config.getoption("tbstyle") == "line":
            told.reprtraceback.reprentries = []
        if told.reprcrash is not None:
            told.reprcrash.path, told.reprcrash.lineno = str(self.path), self.subject["line"]
            told.reprcrash.message = str(excinfo.value).partition("\n")[0]
        return told

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        return self.path, self.subject["line"] - 1, self.name


def raised(failure: BaseException) -> BaseException:
    """The exception with the traceback that pytest wants of one."""
    try:
        raise failure
    except BaseException as error:
        return error


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names the laws that wait for a promise, in a line for each subject and promise."""
    waits = dict.fromkeys(text for reports in terminalreporter.stats.values() for report in reports
                          for name, text in getattr(report, "user_properties", []) if name == "attest waits")
    if waits:
        terminalreporter.section("laws that wait for a promise in contract= (docs/plugin.md)")
        for text in waits:
            terminalreporter.write_line(text)
