"""The Python side of attest: declare a kernel under test with @attest.subject, a runtime of models with @attest.runtime, and hold one
against its contract in a test with attest.check(). attest.judge() judges the tensors of a call that has been made, attest.bound()
says how far correct kernels may be apart, attest.replay() and attest.explain() ask stored problems again.

The names here are imported when they are asked for: pytest, which finds a plug-in in this package, starts no slower for it.
"""
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checking import check
    from .function import subject
    from .judging import Bound, bound, explain, judge, replay
    from .models import LAYOUTS, runtime, split_build
    from .protocol import Refused, Unsupported
    from .report import Failure, NotTested, Report

    __version__: str

__all__ = ["LAYOUTS", "bound", "check", "explain", "judge", "replay", "runtime", "split_build", "subject",
           "Bound", "Failure", "NotTested", "Refused", "Report", "Unsupported"]

_HOMES = {"checking": ("check",), "function": ("subject",), "judging": ("Bound", "bound", "explain", "judge", "replay"),
          "models": ("LAYOUTS", "runtime", "split_build"), "protocol": ("Refused", "Unsupported"),
          "report": ("Failure", "NotTested", "Report")}


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
        globals()[name] = value
        return value
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def _version() -> str:
    """The version of the program that belongs to this module. Raises AttributeError where there is none."""
    from . import program

    try:
        return program.run(["--version"]).out.split()[-1]
    except (OSError, IndexError) as error:
        raise AttributeError(f"attest.__version__ is the program's: {error}") from None
