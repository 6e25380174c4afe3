"""Finds the program `attest` that belongs to this module, and asks it."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

HERE = Path(__file__).resolve().parent


class Ended(NamedTuple):
    """A run of the program: its exit status, and what it printed."""
    status: int
    out: str
    err: str


def shared_folder() -> str:
    """What is wrong where the distribution `attest` of PyPI, another project, was installed into the folder of this module; else ''."""
    from importlib import metadata

    try:
        other = metadata.distribution("attest")
    except metadata.PackageNotFoundError:
        return ""
    if not any(Path(str(other.locate_file(file))).resolve() == HERE / "__init__.py" for file in other.files or ()):
        return ""
    return (f"the distribution attest {other.version} lies in the same folder, {HERE}: it is another project, and one overwrites the other. "
            "`pip uninstall attest`, then `pip install --force-reinstall attest-kernels`")


def find() -> str:
    """The path of the program: `$ATTEST_PROGRAM`, else the one installed with this module, else the first on the PATH.
    Raises FileNotFoundError where there is none, or where two distributions share the folder."""
    if said := shared_folder():
        raise FileNotFoundError(said)
    named = os.environ.get("ATTEST_PROGRAM")
    if named:
        return named
    # The paths of a wheel; and of `cmake --install`, where this is PREFIX/share/attest/python/attest.
    for path in (HERE / "_installed" / "bin" / "attest", HERE.parents[3] / "bin" / "attest"):
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    found = shutil.which("attest")
    if found is None:
        raise FileNotFoundError("the program attest is neither beside this module nor on the PATH: `pip install` attest's source, "
                                "or let ATTEST_PROGRAM name the program")
    return found


def environment() -> dict[str, str]:
    """The environment in which a subject's process can import the modules that this one can."""
    path = [os.path.abspath(entry or os.curdir) for entry in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}


def run(words: Sequence[object]) -> Ended:
    """Runs `attest WORD...` to its end. An interrupt ends it, too."""
    done = subprocess.run([find(), *map(str, words)], env=environment(), stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", errors="backslashreplace", check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def listed(what: str, *words: str) -> list[dict[str, Any]]:
    """`attest list WHAT --json -`."""
    done = run(["list", what, *words, "--json", "-"])
    if done.status != 0:
        raise RuntimeError(f"`attest list {what}` ended with {done.status}: {done.err.strip()}")
    return json.loads(done.out)  # type: ignore[no-any-return]


def main() -> None:
    """The command `attest` of a wheel."""
    try:
        program = find()
    except FileNotFoundError as error:
        sys.exit(f"attest: {error}")
    # This interpreter has the packages that the wheel was installed beside.
    os.environ.setdefault("ATTEST_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])
