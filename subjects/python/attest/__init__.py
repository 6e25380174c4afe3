"""The Python side of attest: declare a kernel under test with @attest.subject, a runtime of models with @attest.runtime, and hold one
against its contract in a test with attest.check().

The names here are imported when they are asked for: pytest, which finds a plug-in in this package, starts no slower for it.
"""
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .checking import Failure, NotTested, check
    from .function import subject
    from .models import LAYOUTS, runtime, split_build
    from .protocol import Refused, Unsupported

__all__ = ["LAYOUTS", "check", "runtime", "split_build", "subject", "Failure", "NotTested", "Refused", "Unsupported"]

_HOMES = {"check": "checking", "Failure": "checking", "NotTested": "checking", "subject": "function", "runtime": "models", "split_build": "models",
          "LAYOUTS": "models",
          "Refused": "protocol", "Unsupported": "protocol"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
