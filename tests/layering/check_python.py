#!/usr/bin/env python3
"""Holds every import between the Python files of the tree against their layers, and finds circles.

Usage: check_python.py ROOT. Prints one line per forbidden import (file:line: why) or circle and exits 1 if there is any; 2 if ROOT
holds no Python of attest's, since then nothing was checked. Imports inside functions count; a module that is named at run time alone
(importlib) does not.
"""
import ast
import re
import sys
from pathlib import Path

MODULE, TESTS = "subjects/python", "tests/python"

# Layers from the ground up: (name, pattern of the files in it). A file imports its own layer and those below it.
LAYERS = [
    ("the ground", r"attest/(declared|formats|protocol|program|provenance|exported_program)"),  # stands on nothing of attest's
    ("transport", r"attest/(arrays|mailbox|models|nursery|report)"),
    ("devices", r"attest/device"),
    ("functions", r"attest/function(_\w+)?"),  # @attest.subject
    ("asking", r"attest/(checking|handing|judging)"),
    ("the face", r"attest/__init__"),
    ("runtimes", r"attest/runtimes/\w+"),
    ("what adapters share", r"attest/adapters/(__init__|_(arguments|array_sdpa|forms|kept|masks|mha_call|quotes|rotary))"),
    ("adapters", r"attest/adapters/_\w+"),
    ("tables of subjects", r"attest/adapters/\w+"),
    ("programs", r"attest/(listing|pytest_plugin|worker)|attest_worker"),
    ("what tests share", rf"{TESTS}/(?!test_)\w+"),
    ("tests", rf"{TESTS}/test_\w+"),
]
# Adapters of one library import none of another's: library -> the one other that it stands on.
STANDS_ON = {"onnxruntime": "onnx"}
LIBRARY = re.compile(r"attest/adapters/_?(onnxruntime|onnx|torch|jax|keras|mlx|openvino|paddle)(_\w+)?")


def files(root):
    """{name in LAYERS, without its ending: path} of all Python files."""
    found = {path.relative_to(root / MODULE).with_suffix("").as_posix(): path for path in (root / MODULE).rglob("*.py")}
    return found | {path.relative_to(root).with_suffix("").as_posix(): path for path in (root / TESTS).glob("*.py")}


def candidates(node, name):
    """The names that an import statement of file `name` may mean, each as a list from the most to the least exact."""
    package = name.split("/")[:-1]
    if isinstance(node, ast.Import):
        for alias in node.names:
            parts = alias.name.split(".")
            yield [parts, [*parts, "__init__"], [*package, *parts] if name.startswith(TESTS) else parts]
    elif isinstance(node, ast.ImportFrom):
        parts = node.module.split(".") if node.module else []
        if node.level:
            parts = package[:len(package) + 1 - node.level] + parts
        for alias in node.names:
            yield [[*parts, alias.name], parts, [*parts, "__init__"], [*package, *parts] if name.startswith(TESTS) else parts]


def imports(root):
    """{file: {file that it imports: the line}}."""
    known = files(root)
    found = {name: {} for name in known}
    for name, path in sorted(known.items()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for tried in candidates(node, name):
                target = next((t for t in map("/".join, tried) if t in known), None)
                if target is not None and target != name:
                    found[name].setdefault(target, node.lineno)
    return found


def layer_of(name):
    return next((at for at, (_, pattern) in enumerate(LAYERS) if re.fullmatch(pattern, name)), None)


def complaint(name, target):
    own, other = layer_of(name), layer_of(target)
    if own is None:
        return "this file lies in no layer: give it one in LAYERS"
    if other is not None and other > own:
        return f"{LAYERS[own][0]} may not import {target}, which is of {LAYERS[other][0]}"
    if LAYERS[own][0] == "tests" and LAYERS[other][0] == "tests":
        return f"a test may not import {target}, another test: what they share has a file of its own"
    of, others = (LIBRARY.fullmatch(each) for each in (name, target))
    if of and others and others[1] not in (of[1], STANDS_ON.get(of[1])):
        return f"an adapter of {of[1]} may not import {target}, one of {others[1]}"
    return None


def circles(edges):
    """The circles among the files, each as the files that it passes, from the first of them by name back to it."""
    found, done = [], set()

    def walk(name, way):
        if name in way:
            circle = way[way.index(name):]
            first = circle.index(min(circle))
            found.append([*circle[first:], *circle[:first], circle[first]])
        elif name not in done:
            for target in sorted(edges[name]):
                walk(target, [*way, name])
            done.add(name)

    for name in sorted(edges):
        walk(name, [])
    return found


def complaints(root):
    edges = imports(root)
    where = {name: path.relative_to(root).as_posix() for name, path in files(root).items()}
    for name, targets in sorted(edges.items()):
        if layer_of(name) is None:
            yield f"{where[name]}:1: {complaint(name, name)}"
        for target, line in sorted(targets.items()):
            if layer_of(name) is not None and (why := complaint(name, target)):
                yield f"{where[name]}:{line}: {why}"
    for circle in circles(edges):
        yield f"{where[circle[0]]}:{edges[circle[0]][circle[1]]}: a circle: {' -> '.join(circle)}"


def main(arguments):
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0]).resolve()
    if not files(root):
        print(f"check_python: no Python file of attest's under {root}: nothing was checked", file=sys.stderr)
        return 2
    found = list(complaints(root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
