#!/usr/bin/env python3
"""Holds sources that a release compiles several at a time to what they include themselves: each is checked alone, as far as its
syntax and its names.

Usage: check_alone.py BUILD ROOT [--all]. Without --all those that differ from the branch this one left, and a fortieth of the rest,
another one with each commit. Prints what the compiler says of each that does not stand alone, and exits 1 if there is any; 125 where
the build compiles every source alone.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PARTS, MOST_CHANGED = 40, 16


def compilers(build):
    cache = build / "CMakeCache.txt"
    return set(re.findall(r"^CMAKE_C(?:XX)?_COMPILER:\w+=(.*)$", cache.read_text(), re.M)) if cache.is_file() else set()


def checking(command, known):
    """The words of a compiler's command, made to check in place of compiling; without what was to be compiled."""
    words = shlex.split(command)
    first = next(i for i, word in enumerate(words) if word in known or (not known and re.search(r"(\+\+|cc|clang)$", word)))
    kept, rest = [], iter(words[first:])
    for word in rest:
        if word in ("-o", "-c"):
            next(rest)
        else:
            kept.append(word)
    return kept + ["-fsyntax-only"]


def together(build):
    """{source: (words of the compiler, folder)} of all that some batch includes."""
    known, found = compilers(build), {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        batch = Path(entry["file"])
        if not re.fullmatch(r"unity_\d+_c(xx)?\.c(xx)?", batch.name):
            continue
        for source in re.findall(r'^#include "(.*)"$', batch.read_text(), re.M):
            found.setdefault((batch.parent / source).resolve(), (checking(entry["command"], known), entry["directory"]))
    return found


def git(root, *words):
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def changed(root):
    """The files that differ from where this branch left the main one; on that itself, from the commit before."""
    head = git(root, "rev-parse", "HEAD")
    base = next((found for main in ("origin/main", "main") if (found := git(root, "merge-base", "HEAD", main))), [])
    if not base or base == head:
        base = ["HEAD~1"]
    names = git(root, "diff", "--name-only", base[0]) + git(root, "ls-files", "--others", "--exclude-standard")
    return {(root / name).resolve() for name in names}


def some(sources, root):
    differ = changed(root)
    own = [source for source in sources if source in differ]
    if len(own) > MOST_CHANGED:
        print(f"{len(own)} sources differ: {MOST_CHANGED} of them are checked")
    turn = int((git(root, "rev-list", "--count", "HEAD") or ["0"])[0]) % PARTS
    return sorted({*own[:MOST_CHANGED], *sources[turn::PARTS]})


def check(source, words, folder):
    done = subprocess.run([*words, str(source)], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr


def main():
    build, root = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    known = together(build)
    sources = sorted(known)
    if not sources:
        print("skipped: this build compiles every source alone")
        return 125
    chosen = sources if "--all" in sys.argv else some(sources, root)
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = list(pool.map(lambda source: check(source, *known[source]), chosen))
    wrong = 0
    for source, (status, told) in zip(chosen, results):
        if status != 0:
            wrong += 1
            print(f"{source} does not compile alone:\n" + "\n".join(told.splitlines()[:12]))
    print(f"{len(chosen) - wrong} of {len(chosen)} sources compile alone, of {len(sources)} that are compiled together")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
