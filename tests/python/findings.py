#!/usr/bin/env python3
"""docs/findings.md: printed from docs/findings/*.toml, the reproducers beside them and what `attest certify` says of these.

Usage: findings.py ATTEST           fails where the page is not what the data print
       findings.py ATTEST --write   writes the page
       findings.py --script ID      prints the script of a finding that keeps one
"""

import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "findings"
PAGE = DOCS / "findings.md"
# Words of a record, in the order of the page, and what belongs to a script that it keeps.
WORDS = ("title", "class", "operator", "document", "problem", "expected", "certificate", "trackers")
KEYS = {*WORDS, "script", "program", "prints", "seldom"}
CLASSES = re.compile("defect|documented difference|undocumented restriction|undocumented")


def load(name):
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def libraries():
    return load("index")["libraries"]


def records(library):
    """{id: record} of docs/findings/LIBRARY.toml. A record has the page's words. It has a `script`, or a `program` in C++, and what that `prints`, where there
    is no reproducer or where it shows more than what `attest export` prints of it. `seldom`: when that shows nothing."""
    return {name: record for name, record in load(library).items() if isinstance(record, dict)}


def reproducer(name):
    """The corpus file of a finding, or None."""
    return file if (file := FOLDER / f"{name}.json").is_file() else None


def message(reason):
    """What a library said: without the adapter's name and the place of a traceback, which are attest's."""
    return re.sub(r" \(at \S+, traceback in .*\)$", "", re.sub(r"^[a-z]+: ", "", reason))


def seen(file):
    """What a reproducer has on record, in words."""
    seen = json.loads(file.read_text(encoding="utf-8"))["seen"]
    if seen["kind"] == "error":
        return f"`{message(seen['reason'])}`"
    if seen["kind"] == "crash":
        return seen["reason"].replace("worker", "process")
    witness = seen["witness"]
    return f"`{witness['tensor']}[{','.join(map(str, witness['index']))}]` is {witness['got']} in place of {witness['expected']}"


def certificate(attest, file):
    """The proof that the number on record is wrong; None where a reproducer names none."""
    done = subprocess.run([attest, "certify", file, "--json", "-"], capture_output=True, text=True)
    if done.returncode == 125:
        return None
    if done.returncode:
        raise SystemExit(f"{file}: {done.stdout}{done.stderr}")
    proof = json.loads(done.stdout)
    interval = f", and lies in {proof['lo']} .. {proof['hi']}" if "lo" in proof else ""
    return proof["why"].partition(": ")[2] + interval


def bullet(name, text):
    return textwrap.fill(f"{name}: {' '.join(text.split())}", 150, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False) + "\n"


def section(attest, name, record):
    text = f"### {name}\n{record['title']}.\n\n"
    text += "".join(bullet(key.capitalize(), record[key]) for key in WORDS[1:-1] if key in record)
    if "prints" in record:
        text += bullet("Got", ", ".join(f"`{line.strip()}`" for line in record["prints"].splitlines() if line.strip()))
    if file := reproducer(name):
        text += bullet(f"[Reproducer](findings/{file.name})", seen(file))
        if proof := certificate(attest, file):
            text += bullet("Certificate", proof)
    if "trackers" in record:
        text += bullet("Trackers", record["trackers"])
    if "prints" in record:
        text += f"- Script: `tests/python/findings.py --script {name}`\n"
    if file:
        label = "Script of the reproducer" if "prints" in record else "Script"
        text += bullet(label, f"`./run export docs/findings/{file.name} --to python`{record.get('seldom', '')}")
    return text


def page(attest):
    index = load("index")
    text = f"# What attest found in shipped libraries\n\n{index['about'].strip()}\n"
    for library in index["libraries"]:
        data, found = load(library), records(library)
        text += f"\n## {data['heading']}\n\n{data['about'].strip()}\n"
        if found:
            text += "\n| id | what | class |\n|---|---|---|\n"
            text += "".join(f"| [{name}](#{name}) | {record['title']} | {CLASSES.match(record['class'])[0]} |\n" for name, record in found.items())
        text += "".join(f"\n{section(attest, name, record)}" for name, record in found.items())
        if "more" in data:
            text += f"\n{data['more'].strip()}\n"
    return text


def main(arguments):
    match arguments:
        case ["--script", name]:
            kept = {finding: record for library in libraries() for finding, record in records(library).items()}.get(name, {})
            if "prints" not in kept:
                raise SystemExit(f"--script {name}: docs/findings/*.toml keep no script of that name; a reproducer's is printed by attest export")
            print(kept.get("script", kept.get("program")), end="")
        case [attest, "--write"]:
            PAGE.write_text(page(attest), encoding="utf-8")
        case [attest]:
            if PAGE.read_text(encoding="utf-8") != page(attest):
                raise SystemExit("docs/findings.md is not what docs/findings/ prints: change the data, then run tests/python/findings.py ATTEST --write")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
