"""The subjects that a script declares, read off its text."""
from __future__ import annotations

import ast
import importlib.util
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Iterator

OPS = ("attention", "layer_norm", "mha")


def declared(path: Path) -> list[dict[str, Any]] | None:
    """[{"name", "ops", "line"}], as listing.py has it. None where importing the script may show others, or none: a decorator that is no
    plain `@attest.subject(...)` of a function at its top level, a module that is not there, a script that may end itself."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    found = []
    for function in tree.body:
        for decorator in getattr(function, "decorator_list", []):
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            if not is_subject(call.func):
                continue
            options = {option.arg: option.value for option in call.keywords}
            name = options.get("name", ast.Constant(function.name))
            op = options.get("op", ast.Constant(OPS[0]))
            if not isinstance(function, ast.FunctionDef) or call.args or None in options or not all(
                    isinstance(one, ast.Constant) and isinstance(one.value, str) for one in (name, op)) or op.value not in OPS:
                return None
            found.append({"name": name.value, "ops": [op.value], "line": min(one.lineno for one in function.decorator_list)})
    mentioned = sum(is_subject(node) for node in ast.walk(tree))
    if mentioned != len(found) or len({subject["name"] for subject in found}) != len(found):
        return None
    if any(may_end(node, path.parent) for node in at_import(tree)):
        return None
    return found


def is_subject(node: ast.AST) -> bool:
    """Tells whether an expression is `attest.subject`, or `subject`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "subject" and isinstance(node.value, ast.Name) and node.value.id == "attest"
    return isinstance(node, ast.Name) and node.id == "subject"


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """What an import runs, or may run: all but the bodies of functions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from at_import(node)


def may_end(node: ast.AST, folder: Path) -> bool:
    """Tells whether a script may end there: `raise attest.Unsupported(...)`, `sys.exit()`, a module that is not there."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")).endswith("exit")
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        modules = [node.module]
    return isinstance(node, ast.Raise) or not all(is_there(module.partition(".")[0], folder) for module in modules)


def is_there(module: str, folder: Path) -> bool:
    """Tells whether a module can be found, beside the script, too. Nothing is imported."""
    try:
        return importlib.util.find_spec(module) is not None or PathFinder.find_spec(module, [str(folder)]) is not None
    except ValueError:  # a module without a specification, which is there
        return True
