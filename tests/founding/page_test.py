#!/usr/bin/env python3
"""The console blocks of a page are true: each command is run and its output compared with what the page prints.

Usage: page_test.py ATTEST PAGE. In a block ```console a line `$ ...` is a command of bash, `[N]` its exit status (0 if left out),
and all between is its output: a line of `...` stands for any lines, `...` within a line for any text. A block of another
language whose first line is a comment with a file's name, `# kernel.py`, is that file. Commands run in a folder of their own, next
to a copy of corpus/ and, if there is one, of the folder that has the page's name; attest, its module and its headers are found.
A page that begins with `<!-- needs PACKAGE ... -->` is skipped (125) where Python subjects would not find a package.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "python"))
from need_package import need


def blocks(page):
    return re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S)


def files(page):
    """(name, text) of each file that the page holds."""
    for text in re.findall(r"^```(?!console)\w+\n(.*?)^```$", page, re.M | re.S):
        if name := re.match(r"(?:#|//) ([\w.]+\.\w+)\n", text):
            yield name[1], text


def environment(attest, folder):
    path = [str(attest.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**os.environ, "PATH": os.pathsep.join(path), "ATTEST_PROGRAM": str(attest), "PYTHONPATH": str(SOURCE / "subjects/python"),
            "CPATH": str(SOURCE / "include"), "ATTEST_PYTHON": os.environ.get("ATTEST_PYTHON") or sys.executable,
            "XDG_CACHE_HOME": f"{folder}/.cache", "XDG_STATE_HOME": f"{folder}/.state", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def commands(block):
    """(command, lines of output, exit status) for each command of a block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], [], 0])
        elif not found:
            raise SystemExit(f"a console block starts with output: {line}")
        elif re.fullmatch(r"\[\d+\]", line):
            found[-1][2] = int(line[1:-1])
        else:
            found[-1][1].append(line)
    return found


def matches(expected, got):
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
                      for line in expected)
    return re.fullmatch(pattern, got) is not None


def main():
    attest, path = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    if needed := re.match(r"<!-- needs ([\w ]+) -->", path.read_text()):
        for package in needed[1].split():
            need(package, "./run test installs it")
        os.environ["ATTEST_PYTHON"] = sys.executable
    found = [command for block in blocks(path.read_text()) for command in commands(block)]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE / "corpus", Path(folder) / "corpus")
        if path.with_suffix("").is_dir():
            shutil.copytree(path.with_suffix(""), Path(folder) / path.stem)
        for name, text in files(path.read_text()):
            (Path(folder) / name).write_text(text)
        for text, expected, status in found:
            done = subprocess.run(["bash", "-c", text], cwd=folder, env=environment(attest, folder), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if done.returncode == status and matches(expected, done.stdout):
                continue
            failures += 1
            print(f"FAILED $ {text}\nthe page says, with status {status}:\n" + "\n".join(expected)
                  + f"\nattest says, with status {done.returncode}:\n{done.stdout}")
    if not found:
        raise SystemExit(f"{path} has no commands")
    print(f"{path.name}: {len(found) - failures} of {len(found)} commands give what the page prints")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
