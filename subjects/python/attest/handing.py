"""Functions without a name at the top level of a file, handed to the process that calls them: a closure, a lambda, a bound method, a
functools.partial. Code goes by marshal, what it closes over by pickle, and its globals are those of its file, which that process imports."""
from __future__ import annotations

import importlib
import importlib.util
import inspect
import marshal
import os
import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any, Callable

from .report import Failure

SCRIPT = """import os
from attest import handing
handing.take(os.path.join(os.path.dirname(__file__), "function.pickle"))
"""


class Pickler(pickle.Pickler):
    """Pickles functions that pickle cannot find by their names, and modules."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if not isinstance(value, types.FunctionType) or by_name(value):
            return NotImplemented
        file = inspect.getsourcefile(value)
        if file is None or not os.path.isfile(file):
            raise ValueError(f"{value.__qualname__} comes from no file, which another process could import")
        cells = len(value.__closure__ or ())
        state = ([cell.cell_contents for cell in value.__closure__ or ()], value.__defaults__, value.__kwdefaults__, value.__annotations__)
        # The contents of cells come after the function, which may be one of them.
        return made, (marshal.dumps(value.__code__), os.path.abspath(file), value.__module__, value.__qualname__, cells), state, None, None, filled


def by_name(function: Any) -> bool:
    """Tells whether another process finds the function by its module and name."""
    if function.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def made(code: bytes, file: str, module: str, name: str, cells: int) -> Callable[..., Any]:
    """The function, its cells still empty."""
    function = types.FunctionType(marshal.loads(code), vars(imported(file, module)), name.rpartition(".")[2], None,
                                  tuple(types.CellType() for _ in range(cells)))
    function.__qualname__, function.__module__ = name, module
    return function


def filled(function: Any, state: tuple[list[Any], Any, Any, Any]) -> None:
    contents, function.__defaults__, function.__kwdefaults__, function.__annotations__ = state
    for cell, value in zip(function.__closure__ or (), contents):
        cell.cell_contents = value


def imported(file: str, module: str) -> types.ModuleType:
    """The module of a file, by the name that it has in the process that hands it over, unless that means another one here."""
    name = f"attest_main_{Path(file).stem}" if module == "__main__" else module
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def write(function: Callable[..., Any], declared: Any, folder: Path) -> str:
    """Writes a script in `folder` that declares the function as `declared` does, and returns its subject on the command line. Raises
    ValueError where something that the function needs cannot be pickled."""
    __tracebackhide__ = True
    name = re.sub(r"\W+", "_", declared.name if declared else name_of(function)).strip("_") or "function"
    options = {**(declared.options if declared else {"op": "attention"}), "name": name}
    try:
        with open(folder / "function.pickle", "wb") as file:
            Pickler(file).dump((function, options))
    except Exception as error:  # whatever __reduce__ of an object raises
        raise ValueError(f"{name} cannot be handed to the process that asks it, where a crash is a finding and not the end of this one: "
                         f"{error}. Make it a function at the top level of a file") from None
    (folder / f"{name}.py").write_text(SCRIPT, encoding="utf-8")
    return f"{folder / name}.py:{name}"


def name_of(function: Any) -> str:
    """A name for a function, that of what a partial or a bound method calls."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__qualname__", type(inner).__name__)).replace("<locals>.", "").replace("<lambda>", "lambda")


def take(path: str) -> None:
    """Declares the function of a file that write() has written."""
    from . import function as declaring

    with open(path, "rb") as file:
        function, options = pickle.load(file)
    declaring.REGISTRY.clear()  # of what its own file declares
    declaring.subject(function, **options)


def with_reruns(failure: Failure, script: str) -> Failure:
    """The failure with lines of Python in place of commands, whose script is gone when they are read."""
    name, text = script.rpartition(":")[2], str(failure)
    for one in [*failure.report.get("findings", []), *failure.report.get("defects", [])]:
        again = (f"attest.replay({one['reproducer']!r}, subject={name})" if one["reproducer"]
                 else f"attest.check({name}, property={one['property']!r}, problem={one['problem']!r})")
        text, one["rerun"] = text.replace(one["rerun"], again), again
    text = text.replace(script, name)
    report = failure.report
    if hasattr(report, "text"):
        report.text = text.partition("\n")[2]
    return Failure(text, report)
