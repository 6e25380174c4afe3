#!/usr/bin/env python3
"""Holds every #include of the tree against the one-way dependencies of the house, and rooms that speak of
any operation to naming none.

Usage: check_layering.py ROOT. Prints one line per forbidden include or name (file:line: why) and
exits 1 if there is any; 2 if ROOT holds no source file at all, since then nothing was checked.
"""
import os
import re
import sys
from pathlib import Path

# Room -> rooms it may include besides itself. "public" is include/attest.
ROOMS = {
    "public":     [],
    "core":       [],
    "oracle":     ["core"],
    "certify":    ["core"],
    "graph":      ["core"],
    "kernels":    ["core"],
    "ensemble":   ["core", "kernels"],
    "generators": ["core"],
    "properties": ["core", "oracle", "ensemble", "generators"],
    "ops":        ["core", "oracle", "ensemble", "graph", "generators", "properties"],
    "subjects":   ["core"],
    "adapters":   ["public"],  # subjects/adapters: plug-ins, built apart
    "engine":     ["core", "oracle", "generators", "properties", "ops", "subjects"],
    "library":    ["public", "core", "ops", "subjects", "engine"],
    "models":     ["core", "graph", "subjects", "engine"],
    "report":     ["core", "oracle", "graph", "generators", "properties", "ops", "subjects", "engine", "models"],
    "cli":        ["core", "oracle", "certify", "graph", "generators", "properties", "ops", "subjects", "engine", "models",
                   "report"],
}
EVERYWHERE = ["include/attest/plugin.h"]  # plain data that stands on nothing
OUTSIDE = ["tests", "bench", "fuzz"]  # may include any room; no room may include them

# Files that may include more than their room may: the registry of built-in subjects names kernels.
FILE_EXCEPTIONS = {
    r"subjects/builtin\w*\.(hpp|cpp)": ["kernels"],
    r"subjects/builtin/\w+\.(hpp|cpp)": ["kernels"],
}

ANY_FILE, SOURCE_ONLY = r".*", r".*\.(cpp|c)"
# Third-party header -> (folders that may include it, which of their files, most files per folder).
THIRD_PARTY = {
    r"rapidcheck(\.h|/.*)":  ({"generators": None, "tests/generators": None, "include/attest": 1, "examples/rapidcheck": 1,
                               "engine": 1, "tests": 1, "tests/library": 1}, ANY_FILE),
    r"(unsupported/)?Eigen/.*": ({"oracle": None, "kernels": None, "tests/oracle": None,
                               "tests/kernels": None, "bench": None}, ANY_FILE),
    r"(flint/)?(flint|fmpz|mag|arf|arb|arb_\w+)\.h": ({"certify": None}, ANY_FILE),
    r"protozero/.*":        ({"graph": None, "tests/graph": None}, ANY_FILE),
    r"omp\.h":               ({"kernels": None, "engine": None, "tests": None, "bench": None}, ANY_FILE),
    r"zlib\.h":             ({"core": None, "tests/core": None}, SOURCE_ONLY),
    r"nlohmann/json_fwd\.hpp": ({"": None}, ANY_FILE),
    r"nlohmann/.*":          ({"": None}, SOURCE_ONLY),
    r"CLI/.*":               ({"cli": None, "fuzz": None}, SOURCE_ONLY),
    r"toml\+\+/.*|toml\+\+\.h": ({"cli": None}, SOURCE_ONLY),
    r"(gtest|gmock)/.*":     ({"tests": None}, ANY_FILE),
    r"benchmark/.*":         ({"bench": None}, ANY_FILE),
}

# Rooms in which no operation is named outside comments. The exceptions: files (or folders) of an operation that have no
# folder of their own yet, and sentences for users. A file that stops naming one must leave the list.
OPERATION = re.compile("attention", re.IGNORECASE)
NAMES_NO_OPERATION = {
    "core": {
        "core/attention/": "the operation's own",
        "core/call.cpp": "the list of operations",
        "core/field.cpp": "the one table there is",
        "core/inputs.hpp": "its inputs", "core/inputs.cpp": "its inputs",
        "core/problem.cpp": "its problem", "core/problem_text.cpp": "its problem", "core/problem_json.cpp": "its problem",
        "core/subject.hpp": "what a subject offers that says nothing",
        "core/supports.hpp": "its supports", "core/supports.cpp": "its supports",
        "core/documents.cpp": "its options",
        "core/mha/": "a block is made of it",
        "core/policy.cpp": "its policies", "core/policy_stages.cpp": "the list of operations",
    },
    "generators": {},
    "properties": {"properties/mha/": "a block is made of it"},
    "ops": {
        "ops/attention/": "the operation's own", "ops/attention.hpp": "the operation's own",
        "ops/supports.hpp": "those of every operation",
        "ops/list.cpp": "the list of operations",
        "ops/mha/": "a block is made of it",
    },
    "subjects": {
        "subjects/builtin.cpp": "the registry of kernels", "subjects/builtin_emulated.cpp": "the registry of kernels",
        "subjects/adapters/": "what a library offers",
        "subjects/describe_mha.cpp": "a block is made of it",
    },
    "engine": {
        "engine/grade/rules.cpp": "quotes rules of others",
    },
    "models": {},
    "report": {},
}

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
OMP_PRAGMA = re.compile(r"\s*#\s*pragma\s+omp\b(?!\s+simd)")  # counts as an include of omp.h
SKIPPED_FOLDERS = {"build", "attest-out", "docs", "corpus", "cmake"}


def sources(root):
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(s for s in subfolders
                               if s not in SKIPPED_FOLDERS and not s.startswith("."))
        for name in sorted(names):
            if name.endswith((".hpp", ".cpp", ".h", ".c")):
                yield (Path(folder) / name).relative_to(root)


def room_of(path):
    parts = path.parts
    if parts[:2] == ("include", "attest"):
        return "public"
    if parts[:2] == ("subjects", "adapters"):
        return "adapters"
    return parts[0] if parts[0] in ROOMS or parts[0] in OUTSIDE else None


def included_path(root, file, bracket, name):
    """The file of this tree that the include names, relative to root, or None."""
    tries = ([root / file.parent] if bracket == '"' else []) + [root, root / "include"]
    for base in tries:
        path = Path(os.path.normpath(base / name))
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root)
    first = Path(name).parts[0]  # a header that is not there yet still names its room
    if first == "attest":
        return Path("include") / name
    return Path(name) if first in ROOMS or first in OUTSIDE else None


def room_complaint(file, target):
    own, other = room_of(file), room_of(target)
    if own is None or own == other or own in OUTSIDE or target.as_posix() in EVERYWHERE:
        return None
    if other is None:
        return f"{file.parts[0]}/ may not include {target}, which lies in no room"
    allowed = list(ROOMS[own])
    for pattern, extra in FILE_EXCEPTIONS.items():
        if re.fullmatch(pattern, file.as_posix()):
            allowed += extra
    if other in allowed:
        return None
    return f"{own} may not include {other} ({target.as_posix()}); it may include: {', '.join(allowed) or 'nothing'}"


def third_party_complaint(file, header, users):
    """Judges a third-party header; users collects, per header and folder, the files that use it."""
    for pattern, (folders, which) in THIRD_PARTY.items():
        if not re.fullmatch(pattern, header):
            continue
        inside = [f for f in folders if f == "" or file.as_posix().startswith(f + "/")]
        if not inside:
            return f"<{header}> belongs in {', '.join(f + '/' for f in folders)} alone"
        if not re.fullmatch(which, file.name):
            return f"<{header}> belongs in .cpp files alone"
        folder = max(inside, key=len)
        if (most := folders[folder]) is not None:
            users.setdefault((pattern, folder), set()).add(file)
            if len(users[pattern, folder]) > most:
                return f"<{header}> is allowed in {most} file of {folder}/, and another one has it"
        return None
    return None


def without_comments(text):
    blank = lambda match: match.group() if match.group()[0] in 'R"' else re.sub(r"[^\n]", " ", match.group())
    return COMMENT.sub(blank, text)


def name_complaints(file, text):
    """Names of an operation in a room that names none, and exceptions that are none any more."""
    exceptions = NAMES_NO_OPERATION.get(file.parts[0])
    if exceptions is None:
        return
    path = file.as_posix()
    excepted = any(path == name or (name.endswith("/") and path.startswith(name)) for name in exceptions)
    found = [number for number, line in enumerate(without_comments(text).splitlines(), 1) if OPERATION.search(line)]
    if excepted and not found and path in exceptions:
        yield f"{path}:1: it names no operation any more: take it off the list of those that do"
    if not excepted:
        for number in found:
            yield f"{path}:{number}: {file.parts[0]} names no operation: say it in the operation's own files"


def complaints(root):
    count, users = 0, {}
    for file in sources(root):
        count += 1
        yield from name_complaints(file, (root / file).read_text(errors="replace"))
        for number, line in enumerate((root / file).read_text(errors="replace").splitlines(), 1):
            if match := INCLUDE.match(line):
                target = included_path(root, file, *match.groups())
                why = (room_complaint(file, target) if target
                       else third_party_complaint(file, match.group(2), users))
            elif OMP_PRAGMA.match(line):
                why = third_party_complaint(file, "omp.h", users)
            else:
                continue
            if why:
                yield f"{file.as_posix()}:{number}: {why}"
    if count == 0:
        raise SystemExit(f"check_layering: no source file under {root}: nothing was checked")


def main(arguments):
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = list(complaints(Path(arguments[0]).resolve()))
    except SystemExit as nothing:
        print(nothing, file=sys.stderr)
        return 2
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
